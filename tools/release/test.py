"""Creates the stack from dist/leasehold-<version>/ alone, as its README says, and runs every function and the machines. Arguments: the
directory, and the Python of local/asl. An emulator (MiniStack) provides S3, CloudFormation, Lambda, DynamoDB, its stream and the rest.
It runs the programs in the zips on this machine, without cargo. The emulator's Step Functions creates the machines, but supports
neither RedriveCount nor a time limit in JSONata; so the engine of local/asl runs them, and calls the emulator's Lambda."""

import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

DIST, ENGINE_PYTHON = Path(sys.argv.pop(1)).resolve(), Path(sys.argv.pop(1)).absolute()
ENGINE = Path(__file__).resolve().parent.parent.parent / "local" / "asl" / "engine.py"
REGION, STACK, BUCKET = "us-east-1", "leasehold", "releases"
ARCHITECTURE = "arm64" if os.uname().machine in ("aarch64", "arm64") else "x86_64"
PROGRAM = DIST / "bin" / f"leasehold-linux-{ARCHITECTURE}"
# The emulator compares a whole list with the AllowedValues of its items, and has no alarms on metric math.
NOT_HERE = {"ReapStatuses": "SUCCEEDED", "Monitoring": "disabled"}
# The user's function, which the sample machines run: it returns its input.
STEP = "def handler(event, context):\n    return {'step': event.get('step'), 'token': event.get('fencing_token')}\n"


class Emulator:
    """Runs on a free port of this machine and keeps its files below one directory, which it removes at the end."""

    def __init__(self):
        self.scratch = tempfile.mkdtemp(prefix="leasehold-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(Path(self.scratch) / "log", "wb")
        self.engine = subprocess.Popen(
            [ENGINE_PYTHON, ENGINE, "--port", "0", "--exit-with-parent"], env={"PATH": os.environ["PATH"], "AWS_ENDPOINT_URL_LAMBDA": self.url},
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.states_url = self.engine.stdout.readline().split()[-1]
        environment = {
            "PATH": os.environ["PATH"], "HOME": self.scratch, "TMPDIR": self.scratch, "STATE_DIR": self.scratch, "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port), "MINISTACK_REGION": REGION, "AWS_ENDPOINT_URL": self.url, "LOG_LEVEL": "WARNING",
            # The functions inherit the first, because waiters wait in the engine. The engine uses this account number.
            "AWS_ENDPOINT_URL_SFN": self.states_url, "MINISTACK_ACCOUNT_ID": "123456789012",
        }
        self.process = subprocess.Popen([sys.executable, "-m", "ministack"], env=environment, stdout=self.log, stderr=self.log)

    def client(self, service, url=None):
        session = botocore.session.Session()
        return session.create_client(
            service, region_name=REGION, endpoint_url=url or self.url, aws_access_key_id="test", aws_secret_access_key="test",
            config=Config(retries={"max_attempts": 0}, read_timeout=120, s3={"addressing_style": "path"}))

    def wait(self):
        for _ in range(120):
            try:
                return self.client("s3").list_buckets()
            except (BotoCoreError, ClientError):
                time.sleep(0.5)
        raise AssertionError(f"the emulator does not respond: {Path(self.log.name).read_text()[-2000:]}")

    def end(self):
        for process in (self.process, self.engine):
            process.terminate()
            process.wait(30)
        self.engine.stdout.close()
        self.log.close()
        shutil.rmtree(self.scratch)


class Dist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.emulator = Emulator()
        cls.addClassCleanup(cls.emulator.end)
        cls.emulator.wait()
        cls.s3, cls.cloudformation = cls.emulator.client("s3"), cls.emulator.client("cloudformation")
        cls.lambda_ = cls.emulator.client("lambda")
        cls.states = cls.emulator.client("stepfunctions", cls.emulator.states_url)
        cls.role = cls.emulator.client("iam").create_role(RoleName="test", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("step.py", STEP)
        step = cls.lambda_.create_function(
            FunctionName="step", Runtime="python3.12", Role=cls.role, Handler="step.handler", Code={"ZipFile": code.getvalue()})
        cls.outputs = cls.install(step["FunctionArn"])
        created = cls.emulator.client("stepfunctions")
        cls.machines = [one["stateMachineArn"] for one in created.list_state_machines()["stateMachines"]]
        for arn in cls.machines:
            machine = created.describe_state_machine(stateMachineArn=arn)
            made = cls.states.create_state_machine(name=machine["name"], definition=machine["definition"], roleArn=machine["roleArn"])
            assert made["stateMachineArn"] == arn, made

    @classmethod
    def install(cls, step):
        """As the README of the release says."""
        cls.s3.create_bucket(Bucket=BUCKET)
        prefix = f"{DIST.name}/"
        for path in sorted(DIST.rglob("*")):
            if path.is_file():
                cls.s3.put_object(Bucket=BUCKET, Key=prefix + str(path.relative_to(DIST)), Body=path.read_bytes())
        given = {"CodeBucket": BUCKET, "CodePrefix": prefix, "Architecture": ARCHITECTURE, "StepFunctionArn": step, **NOT_HERE}
        cls.cloudformation.create_stack(
            StackName=STACK, Capabilities=["CAPABILITY_IAM"], TemplateURL=f"https://s3.{REGION}.amazonaws.com/{BUCKET}/{prefix}leasehold.json",
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()])
        for _ in range(240):
            stack = cls.cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
            if not stack["StackStatus"].endswith("_IN_PROGRESS"):
                break
            time.sleep(0.5)
        if stack["StackStatus"] != "CREATE_COMPLETE":
            events = cls.cloudformation.describe_stack_events(StackName=STACK)["StackEvents"]
            failed = [f"{one['LogicalResourceId']}: {one.get('ResourceStatusReason')}" for one in events if "FAILED" in one["ResourceStatus"]]
            raise AssertionError(f"{stack['StackStatus']}: {failed}")
        return {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}

    def call(self, function, event):
        """The function's response, or its error's name."""
        answer = self.lambda_.invoke(FunctionName=self.outputs[f"{function.capitalize()}FunctionArn"], Payload=json.dumps(event))
        payload = json.loads(answer["Payload"].read())
        return payload["errorType"] if answer.get("FunctionError") else payload

    def run_machine(self, arn, given):
        return self.ended(self.states.start_execution(stateMachineArn=arn, input=json.dumps(given))["executionArn"])

    def ended(self, execution):
        for _ in range(240):
            told = self.states.describe_execution(executionArn=execution)
            if told["status"] != "RUNNING":
                return told
            time.sleep(0.25)
        raise AssertionError(f"{execution} still runs")

    def test_the_sums_are_those_of_the_files(self):
        lines = (DIST / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
        told = dict(reversed(line.split("  ", 1)) for line in lines)
        there = {str(path.relative_to(DIST)): hashlib.sha256(path.read_bytes()).hexdigest()
                 for path in DIST.rglob("*") if path.is_file() and path.name != "SHA256SUMS"}
        self.assertEqual(told, there)

    def test_the_command_line_runs_by_itself(self):
        run = subprocess.run([PROGRAM, "--version"], env={}, capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout.split(), ["leasehold", DIST.name.removeprefix("leasehold-")])
        # No loader, hence no shared library.
        self.assertFalse(b"/ld-" in PROGRAM.read_bytes()[:4096], "it is linked dynamically")
        checked = subprocess.run([PROGRAM, "check", DIST / "statemachines" / "critical-section.asl.json"], env={}, capture_output=True, text=True)
        self.assertEqual((checked.returncode, "nothing found in 1 state machine" in checked.stdout), (0, True), checked.stdout + checked.stderr)
        for page in ("completions/leasehold.bash", "completions/_leasehold", "completions/leasehold.fish", "man/leasehold.1"):
            self.assertIn("acquire", (DIST / page).read_text(encoding="utf-8"), page)

    def test_the_command_line_works_on_the_table(self):
        environment = {"AWS_ENDPOINT_URL": self.emulator.url, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
                       "LEASE_TABLE": self.outputs["LeaseTableName"], "PATH": os.environ["PATH"], "HOME": self.emulator.scratch}
        run = subprocess.run([PROGRAM, "acquire", "deploy/production", "--", "echo", "alone"], env=environment, capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (0, "alone\n"), run.stderr)

    def test_the_bill_of_materials_names_every_dependency(self):
        bill = json.loads((DIST / "sbom.cdx.json").read_text(encoding="utf-8"))
        references = {one["bom-ref"] for one in bill["components"]}
        names = {one["name"] for one in bill["components"]}
        self.assertLessEqual({"leasehold", "acquire", "leasehold-cli", "aws-sdk-dynamodb", "rustls", "aws-lc-rs"}, names)
        self.assertEqual({one["ref"] for one in bill["dependencies"]}, references)
        self.assertLessEqual({need for one in bill["dependencies"] for need in one["dependsOn"]}, references)
        ours = {one["name"] for one in bill["components"] if "hashes" not in one}
        self.assertEqual({name for name in ours if not name.startswith("leasehold")},
                         {path.name.split("-")[0] for path in (DIST / "functions").iterdir()})
        self.assertNotIn("leasehold-local", names)

    def test_every_function_answers(self):
        event = {"key": "orders/42", "holder": "me", "request_id": "one", "ttl_seconds": 300}
        lease = self.call("acquire", event)["lease"]
        self.assertEqual(self.call("acquire", event)["lease"]["fencing_token"], lease["fencing_token"])
        self.assertEqual(self.call("acquire", {**event, "holder": "you", "request_id": "two"}), "Lease.Held")
        lease = self.call("extend", {"lease": lease})["lease"]
        self.assertEqual(self.call("inspect", {"key": "orders/42"})["lease"]["holder"], "me")
        freeze = {"operation": "freeze", "key": "orders/42", "who": "test", "why": "to see it refused"}
        self.assertEqual(self.call("operate", freeze)["outcome"], "frozen")
        self.assertEqual(self.call("release", {"lease": lease})["outcome"], "released")
        self.assertEqual(self.call("acquire", {**event, "request_id": "three"}), "Lease.Frozen")
        self.assertEqual(self.call("sweep", {})["outcome"], "swept")
        self.assertEqual(self.call("grant", {"Records": []}), {"batchItemFailures": []})
        ended = json.loads((DIST / "events" / "reap-succeeded.json").read_text(encoding="utf-8"))
        self.assertEqual(self.call("reap", ended)["outcome"], "reaped")

    def test_every_machine_is_created(self):
        shipped = {path.name.removesuffix(".asl.json") for path in (DIST / "statemachines").iterdir()}
        self.assertEqual({arn.split(":")[-1].removeprefix(f"{STACK}-") for arn in self.machines}, shipped - {"transfer"})

    def test_sections_run_the_users_function(self):
        for name in ("CriticalSection", "QueuedSection", "Observe"):
            with self.subTest(name):
                key = f"orders/{name}"
                told = self.run_machine(self.outputs[f"{name}StateMachineArn"], {
                    "key": key, "ttl_seconds": 60, "wait_seconds": 60, "first": {"step": "one"}, "second": {"step": "two"}})
                self.assertEqual(told["status"], "SUCCEEDED", told)
                self.assertTrue(self.is_free(key))

    def test_with_lease_runs_a_machine_of_the_users(self):
        definition = {"QueryLanguage": "JSONata", "StartAt": "Work", "States": {
            "Work": {"Type": "Pass", "Output": "{% {'done': $states.input.order} %}", "End": True}}}
        child = self.states.create_state_machine(name=f"{STACK}_wrapped_work", definition=json.dumps(definition), roleArn=self.role)
        told = self.run_machine(self.outputs["WithLeaseStateMachineArn"], {
            "key": "orders/2", "ttl_seconds": 60, "state_machine_arn": child["stateMachineArn"], "input": {"order": 2}})
        self.assertEqual((told["status"], json.loads(told.get("output", "null"))), ("SUCCEEDED", {"done": 2}), told)
        self.assertTrue(self.is_free("orders/2"))

    def test_who_waits_in_the_queue_is_woken_by_a_release(self):
        """Through the table's stream, and the function that it invokes."""
        lease = self.call("acquire", {"key": "orders/3", "holder": "me", "ttl_seconds": 300})["lease"]
        waiting = self.states.start_execution(stateMachineArn=self.outputs["QueuedSectionStateMachineArn"], input=json.dumps({
            "key": "orders/3", "ttl_seconds": 60, "wait_seconds": 100, "first": {"step": "one"}, "second": {"step": "two"}}))["executionArn"]
        for _ in range(240):
            if self.call("inspect", {"key": "orders/3"}).get("waiting"):
                break
            time.sleep(0.25)
        self.assertEqual(self.states.describe_execution(executionArn=waiting)["status"], "RUNNING")
        self.call("release", {"lease": lease})
        told = self.ended(waiting)
        self.assertEqual(told["status"], "SUCCEEDED", told)

    def is_free(self, key):
        answer = self.call("acquire", {"key": key, "holder": "me", "ttl_seconds": 60})
        return isinstance(answer, dict) and answer["lease"]["key"] == key


if __name__ == "__main__":
    unittest.main()
