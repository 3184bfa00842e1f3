"""Compares examples/terraform with the plain template: its variables set, and its outputs read, only what is there and all of it.
Terraform itself does not run; python-hcl2 parses the files. A second test shows that each check detects a fault. With --write it
writes the module's outputs instead, which are those of the template."""

import re
import sys
import unittest
from pathlib import Path

import hcl2

from release.templates import plain

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "terraform"
TYPES = {"Number": {"number"}, "CommaDelimitedList": {"list(string)"}, "String": {"string", "bool"}}
# Variables of the stack itself, and the one for all parameters without a variable.
OF_THE_STACK = {"name", "tags", "more_parameters"}


def read():
    return {str(path.relative_to(EXAMPLE)): path.read_text(encoding="utf-8") for path in sorted(EXAMPLE.rglob("*.tf"))}


def parsed(files, *names):
    """The blocks of these files by kind and name; for a resource the type comes before the name."""
    found = {}
    for name in names:
        for kind, blocks in hcl2.loads(files[name]).items():
            for block in blocks:
                if isinstance(block, dict):
                    found.setdefault(kind, {}).update({key.strip('"'): value for key, value in block.items() if not key.startswith("__")})
    return found


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def written(outputs):
    """The module's outputs. One that may be missing is looked up, and is null then."""
    text = "# The outputs of the template; `make translate` writes them. A conditional output is null if its condition is false.\n"
    for name, output in outputs.items():
        stack = "aws_cloudformation_stack.leasehold.outputs"
        value = f'lookup({stack}, "{name}", null)' if "Condition" in output else f'{stack}["{name}"]'
        text += f'\noutput "{snake(name)}" {{\n  value       = {value}\n  description = "{output["Description"]}"\n}}\n'
    return text


def problems(files, template):
    module = parsed(files, "leasehold/main.tf", "leasehold/variables.tf", "leasehold/outputs.tf")
    root = parsed(files, "main.tf")
    variables, outputs, given = module["variable"], module["output"], module["locals"]["parameters"]
    given = {name: value for name, value in given.items() if not name.startswith("__")}
    found = [*described(variables, "variable"), *described(outputs, "output"), *described(root["variable"], "variable")]

    for name, value in given.items():
        parameter, used = template["Parameters"].get(name), re.search(r"var\.(\w+)", str(value))
        variable = variables.get(used[1]) if used else None
        if parameter is None:
            found.append(f"parameter {name}: the template has none of that name")
        elif variable is None:
            found.append(f"parameter {name}: {value} names no variable")
        elif variable["type"].strip('"${}') not in TYPES[parameter["Type"]]:
            found.append(f"variable {used[1]}: {variable['type']}, but the parameter {name} is a {parameter['Type']}")
        elif "default" not in variable and "Default" in parameter:
            found.append(f"variable {used[1]}: has to be given, but the parameter {name} has a default")
        elif "default" in variable and "Default" not in parameter:
            found.append(f"variable {used[1]}: has a default, but the parameter {name} has to be given")
    if variables["code_prefix"].get("default", "").strip('"') != template["Parameters"]["CodePrefix"]["Default"]:
        found.append("variable code_prefix: its default is not the template's")
    for name, parameter in template["Parameters"].items():
        if "Default" not in parameter and name not in given:
            found.append(f"parameter {name}: has to be given, and is not")
    text = files["leasehold/main.tf"]
    found += [f"variable {name}: nothing uses it" for name in variables if not re.search(rf"var\.{name}\b", text)]
    found += [f"variable {name}: is not declared" for name in set(re.findall(r"var\.(\w+)", text)) - variables.keys()]
    found += [f"variable {name}: is missing" for name in OF_THE_STACK - variables.keys()]

    if files["leasehold/outputs.tf"] != written(template["Outputs"]):
        found.append("leasehold/outputs.tf: is not of this template: make translate")

    call = {name for name in root["module"]["leasehold"] if not name.startswith("__")} - {"source"}
    found += [f"the example gives {name}, which is no variable of the module" for name in call - variables.keys()]
    required = {name for name, variable in variables.items() if "default" not in variable}
    found += [f"the example does not give {name}" for name in required - call]
    read_there = set(re.findall(r"module\.leasehold\.(\w+)", files["main.tf"]))
    found += [f"the example reads {name}, which is no output of the module" for name in read_there - outputs.keys()]
    return found


def described(blocks, kind):
    for name, block in blocks.items():
        if len(block.get("description", "").strip('"')) < 10:
            yield f"{kind} {name}: has no description"
        if kind == "variable" and "type" not in block:
            yield f"{kind} {name}: has no type"


FAULTS = [
    ("leasehold/main.tf", "ClockMarginMs ", "ClockMargin "),
    ("leasehold/main.tf", "= var.queue_cap\n", "= var.queue_size\n"),
    ("leasehold/main.tf", "    CodeBucket             = var.code_bucket\n", ""),
    ("leasehold/variables.tf", 'variable "guard_ms" {\n  type        = number', 'variable "guard_ms" {\n  type        = string'),
    ("leasehold/variables.tf", 'variable "log_level" {\n  type        = string\n  default     = null', 'variable "log_level" {\n  type        = string'),
    ("leasehold/variables.tf", 'default     = "leasehold-', 'default     = "leased-'),
    ("leasehold/variables.tf", 'description = "Whether there are alarms and a dashboard."', 'description = ""'),
    ("leasehold/outputs.tf", '"SweepFunctionArn"', '"SweepFunction"'),
    ("leasehold/outputs.tf", 'output "lease_table_name"', 'output "lease_table"'),
    ("leasehold/outputs.tf", 'lookup(aws_cloudformation_stack.leasehold.outputs, "TransferStateMachineArn", null)',
     'aws_cloudformation_stack.leasehold.outputs["TransferStateMachineArn"]'),
    ("main.tf", "wrapped_state_machines =", "wrapped_machines ="),
    ("main.tf", "module.leasehold.with_lease_state_machine_arn", "module.leasehold.with_lease_arn"),
    ("main.tf", "  code_bucket = var.code_bucket\n", ""),
]


class Terraform(unittest.TestCase):
    def setUp(self):
        self.files, self.template = read(), plain("template")

    def test_the_module_gives_and_reads_what_the_template_has(self):
        self.assertEqual(problems(self.files, self.template), [])

    def test_each_fault_is_noticed(self):
        for name, before, after in FAULTS:
            with self.subTest(f"{name}: {before}"):
                self.assertIn(before, self.files[name])
                self.assertNotEqual(problems({**self.files, name: self.files[name].replace(before, after)}, self.template), [])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        (EXAMPLE / "leasehold" / "outputs.tf").write_text(written(plain("template")["Outputs"]), encoding="utf-8")
    else:
        unittest.main()
