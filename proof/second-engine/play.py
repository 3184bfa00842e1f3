"""A second opinion: the cases of proof/machines and the sample events on MiniStack, an emulator that we did not write, with the
functions' own programs. What is known not to work there is in known.yaml, by name: anything else that fails ends this with
status 1. With KNOWN=play those are played too, and an entry that no longer fails ends it with status 1 as well.

    python proof/second-engine/play.py PROGRAMS COMMAND...

PROGRAMS is the directory of the functions' programs. COMMAND plays the cases on the endpoint that it finds in its environment, without
those that EXCEPT names there.
"""

import io
import json
import os
import re
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import botocore.session
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT = "123456789012"
STACK = "leasehold"
# As the embedded stack sets them for the same cases: seconds are long there.
PARAMETERS = {"ClockMarginMs": "300", "GuardMs": "200", "SweepSchedule": "rate(1 day)", "Monitoring": "disabled"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def zipped(program):
    """The program as Lambda takes it, stored as it is: nothing is gained by compressing what is read once."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        entry = zipfile.ZipInfo("bootstrap")
        entry.external_attr = 0o755 << 16
        archive.writestr(entry, program.read_bytes())
    return data.getvalue()


class Engine:
    """MiniStack, on a port of this machine only."""

    def __init__(self, directory):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = (directory / "ministack.log").open("wb")
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(directory), "GATEWAY_PORT": str(self.port), "BIND_HOST": "127.0.0.1",
            "MINISTACK_HOST": "127.0.0.1", "MINISTACK_ACCOUNT_ID": ACCOUNT, "MINISTACK_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1", "DOCKER_HOST": "unix:///nowhere", "TMPDIR": str(directory),
        }
        program = Path(__file__).with_name("engine.py")
        self.process = subprocess.Popen([sys.executable, program], env=environment, cwd=directory, stdout=self.log, stderr=subprocess.STDOUT)
        session = botocore.session.get_session()
        session.set_credentials(ACCOUNT, "secret")
        self.client = lambda service: session.create_client(service, region_name="us-east-1", endpoint_url=self.url)

    def wait(self):
        for _ in range(300):
            try:
                self.client("sts").get_caller_identity()
                return
            except Exception:
                if self.process.poll() is not None:
                    raise SystemExit("second engine: MiniStack has ended; see target/second-engine/ministack.log") from None
                time.sleep(0.1)
        raise SystemExit("second engine: MiniStack does not answer")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def without_empty_lists(value, empty):
    """MiniStack takes an empty list for a list of one empty text, and joins it to something else than nothing."""
    if isinstance(value, list):
        return [without_empty_lists(part, empty) for part in value]
    if isinstance(value, dict):
        if any(value == {"Fn::Join": ["", {"Ref": name}]} for name in empty):
            return ""
        return {name: without_empty_lists(part, empty) for name, part in value.items()}
    return value


def adapted(template, url):
    """The template without what MiniStack is known not to read, and with its address for the functions, whom it does not tell."""
    lists = {name: of for name, of in template["Parameters"].items() if of["Type"] == "CommaDelimitedList"}
    # It compares the whole text of a list with the values that each of its parts may have.
    for parameter in lists.values():
        parameter.pop("AllowedValues", None)
    empty = [name for name, of in lists.items() if of["Default"] == ""]
    template["Conditions"] = without_empty_lists(template["Conditions"], empty)
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function":
            resource["Properties"]["Environment"]["Variables"]["AWS_ENDPOINT_URL"] = url
        # The number of a parameter is a text there, on which its poller fails.
        scaling = resource["Properties"].get("ScalingConfig", {})
        for name, of in scaling.items():
            scaling[name] = int(template["Parameters"][of["Ref"]]["Default"])
    return template


def deploy(engine, programs):
    """The translated template, with the code of the functions, and beside it what the cases need: the step and its table.
    Returns the functions by logical id."""
    s3, functions, stacks = engine.client("s3"), engine.client("lambda"), engine.client("cloudformation")
    s3.create_bucket(Bucket="bucket")
    for name in sorted(path.name for path in (ROOT / "functions").iterdir()):
        s3.put_object(Bucket="bucket", Key=f"functions/{name}", Body=zipped(programs / name))
    for path in (ROOT / "templates" / "statemachines").iterdir():
        s3.put_object(Bucket="bucket", Key=f"templates/statemachines/{path.name}", Body=path.read_bytes())
    template = adapted(json.loads((ROOT / "local" / "template.json").read_text(encoding="utf-8")), engine.url)
    s3.put_object(Bucket="bucket", Key="template.json", Body=json.dumps(template).encode())
    given = [{"ParameterKey": name, "ParameterValue": value} for name, value in PARAMETERS.items()]
    stacks.create_stack(StackName=STACK, TemplateURL=f"{engine.url}/bucket/template.json", Parameters=given, Capabilities=["CAPABILITY_IAM"])
    for _ in range(600):
        stack = stacks.describe_stacks(StackName=STACK)["Stacks"][0]
        if not stack["StackStatus"].endswith("_IN_PROGRESS"):
            break
        time.sleep(0.1)
    if stack["StackStatus"] != "CREATE_COMPLETE":
        raise SystemExit(f"second engine: the template: {stack['StackStatus']}: {stack.get('StackStatusReason')}")
    keys = [("pk", "HASH"), ("sk", "RANGE")]
    engine.client("dynamodb").create_table(
        TableName="ResourceTable", BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys])
    functions.create_function(
        FunctionName="StepFunction", Runtime="provided.al2023", Handler="bootstrap", Timeout=60, Code={"ZipFile": zipped(programs / "step")},
        Role=f"arn:aws:iam::{ACCOUNT}:role/step", Environment={"Variables": {"RESOURCE_TABLE": "ResourceTable", "AWS_ENDPOINT_URL_DYNAMODB": engine.url}})
    resources = stacks.list_stack_resources(StackName=STACK)["StackResourceSummaries"]
    print(f"template: {len(resources)} resources", flush=True)
    return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in resources if one["ResourceType"] == "AWS::Lambda::Function"}


def fits(expected, found):
    """Whether a response is the one of the list, in which <id>, <time> and the like stand for any."""
    if isinstance(expected, str) and re.fullmatch(r"<\w+>", expected):
        return found is not None
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(fits(of, found[name]) for name, of in expected.items())
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(fits, expected, found))
    return expected == found


def play_events(engine, functions):
    """The sample events that need no preparation, or only somebody who holds the key. Returns what failed, by name."""
    client = engine.client("lambda")

    def call(verb, event):
        response = client.invoke(FunctionName=functions[f"{verb.capitalize()}Function"], Payload=json.dumps(event))
        return json.load(response["Payload"])

    scenes = yaml.safe_load((ROOT / "local" / "scenes.yaml").read_text(encoding="utf-8"))
    played, failed = 0, {}
    for name, scene in scenes.items():
        before = scene.get("before", [])
        # These list all leases, and here the table is one for all.
        if name in ("inspect-holder", "inspect-list") or "tells" in scene or any(list(step) != ["hold"] for step in before):
            continue
        played += 1
        for step in before:
            call("acquire", {"holder": "other", "ttl_seconds": 300, **step["hold"]})
        event = json.loads((ROOT / "events" / f"{name}.json").read_text(encoding="utf-8"))
        answer = call(name.split("-")[0], event)
        expected = scene.get("error") or scene.get("answer")
        if not fits(expected, answer.get("errorType") if "error" in scene else answer):
            failed[name] = json.dumps(answer)[:300]
    print(f"events: {played} played, {len(failed)} failed", flush=True)
    return failed


def play_cases(engine, command, left_out):
    """The cases of proof/machines. Returns what failed, by name."""
    environment = {**os.environ, "LEASEHOLD_SFN_ENDPOINT": engine.url, "EXCEPT": "\n".join(left_out)}
    ran = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    (ROOT / "target" / "second-engine" / "cases.log").write_text(ran.stdout, encoding="utf-8")
    count = re.search(r"^cases: .*$", ran.stdout, re.MULTILINE)
    if not count:
        raise SystemExit("second engine: no case was played; see target/second-engine/cases.log")
    _, _, wrong = ran.stdout.partition(" wrong:\n")
    failed = dict(re.findall(r"^(\S.*)\n  at (.*(?:\n  .*)?)", wrong, re.MULTILINE))
    print(f"{count[0]}, {len(failed)} failed", flush=True)
    return failed


def main():
    programs, command = Path(sys.argv[1]).resolve(), sys.argv[2:]
    reasons = yaml.safe_load((Path(__file__).with_name("known.yaml")).read_text(encoding="utf-8"))
    known = [name for names in reasons.values() for name in names]
    plays_known = os.environ.get("KNOWN") == "play"
    directory = ROOT / "target" / "second-engine"
    directory.mkdir(parents=True, exist_ok=True)
    engine = Engine(directory)
    try:
        engine.wait()
        functions = deploy(engine, programs)
        failed = {**play_events(engine, functions), **play_cases(engine, command, () if plays_known else known)}
    finally:
        engine.close()
    new = {name: why for name, why in failed.items() if name not in known}
    gone = [name for name in known if name not in failed] if plays_known else []
    for name, why in new.items():
        print(f"FAILED: {name}: {why}")
    for name in gone:
        print(f"works now, and is still in known.yaml: {name}")
    print(f"second engine: {len(known)} cases known not to work there, {len(new)} others failed")
    sys.exit(1 if new or gone else 0)


if __name__ == "__main__":
    main()
