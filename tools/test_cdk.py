"""Checks the templates that examples/cdk synthesises: the parameters and outputs of the nested stack that it uses exist, and every
machine under a lease may be run. Argument: the directory that `cdk synth` wrote. A second test shows that each check detects a fault."""

import json
import re
import sys
import unittest
from pathlib import Path

DIRECTORY = Path(sys.argv.pop(1))
NESTED = "aws:asset:path"
# The permissions of a role that starts an execution and waits for its end.
NEEDED = [{"states:StartExecution"}, {"states:DescribeExecution", "states:StopExecution"},
          {"events:DescribeRule", "events:PutRule", "events:PutTargets"}]


def read():
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(DIRECTORY.glob("*.template.json"))}


def walk(value):
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from walk(inner)


def definition(machine):
    """A definition with each reference in it as the text `<Name>`."""
    text = machine["Properties"]["DefinitionString"]
    if isinstance(text, dict):
        text = "".join(part if isinstance(part, str) else f"<{reference(part)}>" for part in text["Fn::Join"][1])
    return json.loads(text)


def reference(value):
    target = value.get("Ref") or value["Fn::GetAtt"]
    return target if isinstance(target, str) else ".".join(target)


def actions(statement):
    return {statement["Action"]} if isinstance(statement["Action"], str) else set(statement["Action"])


def problems(files):
    app = json.loads(files["Orders.template.json"])
    machines = [one for one in app["Resources"].values() if one["Type"] == "AWS::StepFunctions::StateMachine"]
    stacks = {name: one for name, one in app["Resources"].items() if one["Type"] == "AWS::CloudFormation::Stack"}
    if len(stacks) != 1:
        return [f"{len(stacks)} nested stacks"]
    (logical, stack), = stacks.items()
    nested, given = json.loads(files[stack["Metadata"][NESTED]]), stack["Properties"]["Parameters"]

    found = [f"parameter {name}: the template has none of that name" for name in given.keys() - nested["Parameters"].keys()]
    required = {name for name, parameter in nested["Parameters"].items() if "Default" not in parameter}
    found += [f"parameter {name}: has to be given" for name in required - given.keys()]
    got = {one["Fn::GetAtt"][1] for one in walk(app) if isinstance(one, dict) and one.get("Fn::GetAtt", [""])[0] == logical}
    found += [f"{name} is read, and is no output" for name in got if name.removeprefix("Outputs.") not in nested["Outputs"]]
    allowed = {reference(one) for one in walk(given["WrappedStateMachine"]) if isinstance(one, dict) and "Ref" in one}
    guards = [state for machine in machines for state in definition(machine)["States"].values() if state["Type"] == "Task"]
    if len(guards) != 2:
        found.append(f"{len(guards)} guards, not 2")
    for guard in guards:
        arguments = guard["Arguments"]
        child = arguments["Input"]["state_machine_arn"].strip("<>")
        if child not in allowed:
            found.append(f"{child} is guarded, and is not in WrappedStateMachine")
        if arguments["StateMachineArn"] != f"<{logical}.Outputs.WithLeaseStateMachineArn>":
            found.append(f"{child}: {arguments['StateMachineArn']} is started, not with-lease")
        if not re.search(r":states:startExecution\.sync:2$", guard["Resource"]):
            found.append(f"{child}: {guard['Resource']} does not wait for the end")
    inputs = sorted(json.dumps(guard["Arguments"]["Input"]["if_held"]) for guard in guards)
    if inputs != ['"skip"', '"wait"']:
        found.append(f"if_held is {inputs}")
    allowing = [actions(one) for one in walk(app) if isinstance(one, dict) and "Action" in one]
    for needed in NEEDED:
        if allowing.count(needed) != 2:
            found.append(f"{allowing.count(needed)} of 2 roles may {sorted(needed)}")
    return found


FAULTS = [
    ('"Ref": "SettleB9C75F15"', '"Ref": "ReportC847FC22"'),
    ('"LogLevel": "WARN"', '"LogLvl": "WARN"'),
    ('"CodeBucket": "name-of-your-bucket"', '"Tracing": "Active"'),
    ('"Outputs.LeaseTableArn"', '"Outputs.TableArn"'),
    ("startExecution.sync:2", "startExecution"),
    ('"Outputs.WithLeaseStateMachineArn"', '"Outputs.InspectFunctionArn"'),
    ('\\"if_held\\":\\"skip\\"', '\\"if_held\\":\\"wait\\"'),
    ('"states:StopExecution"', '"states:ListExecutions"'),
]


class Cdk(unittest.TestCase):
    def test_the_app_gives_and_reads_what_the_template_has(self):
        self.assertEqual(problems(read()), [])

    def test_each_fault_is_noticed(self):
        files, name = read(), "Orders.template.json"
        for before, after in FAULTS:
            with self.subTest(before):
                self.assertIn(before, files[name])
                faulty = files[name].replace(before, after, 1 if before.startswith('"Ref"') else -1)
                self.assertNotEqual(problems({**files, name: faulty}), [])


if __name__ == "__main__":
    unittest.main()
