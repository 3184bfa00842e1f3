"""Installs the wheel of leasehold-local in an empty directory, as a user does, and uses it there. Argument: the directory of the packages."""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

from trial import ROOT, VERSION, blocks

PACKAGES = Path(sys.argv.pop(1)).resolve()
# As wide as the users' machines; what runs on Lambda is in the functions' own tests.
REQUIREMENTS = ["awslambdaric==4.2.2", "boto3", "pytest"]

HANDLER = '''
import boto3, json
def charge(event, context):
    if event.get("fail"):
        raise ValueError("no money")
    ask = {"key": "inner/" + event["order"], "holder": "charge", "ttl_seconds": 60}
    answer = boto3.client("lambda").invoke(FunctionName="AcquireFunction", Payload=json.dumps(ask))
    return {"charged": event["order"], "token": json.load(answer["Payload"])["lease"]["fencing_token"]}
'''

ORDER = {
    "StartAt": "Charge",
    "States": {
        "Charge": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "ResultPath": "$.charge",
                   "Parameters": {"FunctionName": "${ChargeArn}", "Payload.$": "$"}, "ResultSelector": {"payload.$": "$.Payload"}, "Next": "Book"},
        "Book": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "OutputPath": "$",
                 "Parameters": {"FunctionName": "${Book}", "Payload.$": "$"}, "ResultSelector": {"payload.$": "$.Payload"}, "ResultPath": "$.book",
                 "End": True},
    },
}

TESTS = '''
import json, time
import boto3
import pytest

MACHINES = "arn:aws:states:us-east-1:123456789012:stateMachine:"

def ended(states, execution):
    for _ in range(600):
        told = states.describe_execution(executionArn=execution)
        if told["status"] != "RUNNING":
            return told
        time.sleep(0.1)
    raise AssertionError("it does not end")

def start(states, machine, given):
    return states.start_execution(stateMachineArn=MACHINES + machine, input=json.dumps(given))["executionArn"]

def wrapped(given, **more):
    return {"key": "orders/8", "state_machine_arn": MACHINES + "shop-order", "input": given, **more}

def test_users_machine_runs_under_lease():
    states = boto3.client("stepfunctions")
    told = ended(states, start(states, "leasehold-with-lease", wrapped({"order": "8"})))
    assert told["status"] == "SUCCEEDED", told
    output = json.loads(told["output"])
    assert output["charge"]["payload"]["charged"] == "8"
    assert output["charge"]["payload"]["token"] > 0
    assert output["book"]["payload"] == {"booked": "8"}

def test_users_function_fails_like_lambda():
    for name, event, failure in (("Charge", {"fail": True}, ("ValueError", "no money")), ("Book", {}, ("Full", "no room"))):
        answer = boto3.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event))
        error = json.load(answer["Payload"])
        assert (answer["FunctionError"], error["errorType"], error["errorMessage"]) == ("Unhandled", *failure)

def test_reap_ends_stopped_executions_lease():
    states = boto3.client("stepfunctions")
    call = lambda name, event: json.load(boto3.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event))["Payload"])
    running = start(states, "leasehold-critical-section", {"key": "orders/9", "ttl_seconds": 600, "first": {"seconds": 60}})
    for _ in range(300):
        if call("InspectFunction", {"key": "orders/9"}).get("lease"):
            break
        time.sleep(0.1)
    states.stop_execution(executionArn=running)
    for _ in range(600):
        lease = call("InspectFunction", {"key": "orders/9"})
        if lease["state"] != "held":
            return
        time.sleep(0.1)
    raise AssertionError(lease)
'''

FIXTURE = '''
import os

def test_the_fixture_starts_a_stack(leasehold_stack, pytestconfig):
    import boto3
    assert os.environ["AWS_ENDPOINT_URL_LAMBDA"] == leasehold_stack.environment["AWS_ENDPOINT_URL_LAMBDA"]
    tables = boto3.client("dynamodb", **leasehold_stack.client_arguments("dynamodb")).list_tables()["TableNames"]
    assert "LeaseTable" in tables
    assert (leasehold_stack.logs).is_dir()
'''


DIES = """
import os, signal
from leasehold_local import Stack
with Stack(["--no-engine", "--no-sweep"]) as stack:
    print(stack._process.pid, stack.logs.parent, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""

# A command that ends in its own time when it is asked to.
CLEANS_UP = ["sh", "-c", "trap 'echo ended; exit 3' TERM INT; echo ready; while :; do sleep 0.1; done"]


def children(pid):
    """The processes that a process started and that have not ended."""
    return [path.parent.name for path in Path("/proc").glob("[0-9]*/stat") if parent(path) == pid]


def parent(stat):
    try:
        return int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    except OSError:
        return None  # It has ended meanwhile.


class Booking(BaseHTTPRequestHandler):
    """A function that is a server."""

    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        # A failure is as of Lambda's container images, which mark none.
        answer = {"booked": event["order"]} if "order" in event else {"errorType": "Full", "errorMessage": "no room"}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """It is silent."""


class Local(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        subprocess.run([sys.executable, "-m", "venv", cls.folder / "venv"], check=True)
        cls.bin = cls.folder / "venv" / "bin"
        # By its path: a package index may have another of this name.
        wheel, = PACKAGES.glob(f"leasehold_local-*_{platform.machine()}.whl")
        install = [cls.bin / "pip", "install", "--quiet", "--disable-pip-version-check", wheel, *REQUIREMENTS]
        subprocess.run(install, check=True)
        temporary = cls.folder / "tmp"
        temporary.mkdir()
        # A profile that does not exist: whoever heeds it fails.
        cls.environment = {"PATH": f"{cls.bin}:/usr/bin:/bin", "HOME": str(cls.folder), "TMPDIR": str(temporary), "AWS_PROFILE": "nobody"}

    def tearDown(self):
        self.assertEqual(list((self.folder / "tmp").iterdir()), [], "something is left")

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def local(self, *arguments, **options):
        """A command of leasehold-local that has ended. Python as our parent may ignore signals under nohup; its children shall not."""
        command = ["env", "--default-signal", "leasehold-local", *arguments]
        return subprocess.run(command, cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=300, check=False, **options)

    def test_version_matches_release(self):
        self.assertEqual(self.local("--version").stdout.split(), ["leasehold-local", VERSION])
        shown = subprocess.run([self.bin / "pip", "show", "leasehold-local"], check=True, capture_output=True, text=True).stdout
        self.assertIn(f"\nVersion: {VERSION}\n", shown)

    def test_readmes_first_program_gets_lease(self):
        page = ROOT / "local" / "python" / "README.md"
        self.write("first.py", blocks(page, "python")[0])
        command = blocks(page, "")[0].splitlines()[1].removeprefix("leasehold-local ")
        ran = self.local(*command.split())
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(ran.stdout, r"\A[1-9][0-9]*\n\Z")

    def test_the_demo_needs_no_clone(self):
        ran = self.local("demo", "--out", str(self.folder / "demo"))
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertTrue((self.folder / "demo" / "timeline.svg").is_file())

    def test_users_code_runs_beside_ours(self):
        self.write("app.py", HANDLER)
        self.write("order.asl.json", json.dumps(ORDER))
        self.write("test_order.py", TESTS)
        server = HTTPServer(("127.0.0.1", 0), Booking)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        Thread(target=server.serve_forever, daemon=True).start()
        machine = "arn:aws:states:us-east-1:123456789012:stateMachine:shop-order"
        options = ["--function", "Charge=python -m awslambdaric app.charge", "--function", f"Book=http://127.0.0.1:{server.server_port}/",
                   "--machine", "shop-order=order.asl.json", "--parameter", f"StartedStateMachine={machine}", "--parameter", "ReapGraceSeconds=1"]
        ran = self.local("exec", *options, "--", "pytest", "-q", "-p", "no:cacheprovider", "test_order.py")
        self.assertEqual((ran.returncode, "3 passed" in ran.stdout), (0, True), ran.stdout + ran.stderr)

    def test_pytest_fixture_runs_stack(self):
        self.write("test_fixture.py", FIXTURE)
        run = [self.bin / "pytest", "-q", "-p", "no:cacheprovider", "-o", "leasehold_local=--no-engine --no-sweep", "test_fixture.py"]
        ran = subprocess.run(run, cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=300, check=False)
        self.assertEqual((ran.returncode, "1 passed" in ran.stdout), (0, True), ran.stdout + ran.stderr)

    def test_commands_exit_status_is_returned(self):
        for command, status, said in (
            (["sh", "-c", "exit 7"], 7, ""),
            (["sh", "-c", "kill -9 $$"], 137, ""),
            (["no-such-command"], 127, "no-such-command"),
        ):
            with self.subTest(command):
                ran = self.local("exec", "--no-engine", "--", *command)
                self.assertEqual((ran.returncode, said in ran.stderr), (status, True), ran.stderr)
        for arguments, status, said in (
            (["--function", "Charge="], 2, "expected a command or a URL"),
            (["--function", "../Charge=true"], 2, "is no name"),
            (["--function", "AcquireFunction=true"], 1, "a function of this name already"),
            (["--machine", "order=missing.json"], 1, "could not read missing.json"),
            (["--machine", "order=wrong.json"], 1, "--function Other="),
        ):
            with self.subTest(arguments):
                self.write("wrong.json", '{"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "${OtherArn}", "End": true}}}')
                ran = self.local("exec", *arguments, "--", "true")
                self.assertEqual((ran.returncode, said in ran.stderr), (status, True), ran.stderr)

    def test_stack_ends_with_its_starter(self):
        self.write("dies.py", DIES)
        ran = subprocess.run([self.bin / "python", "dies.py"], cwd=self.folder, env=self.environment, text=True, capture_output=True, check=False)
        self.assertEqual(ran.returncode, -signal.SIGKILL, ran.stderr)
        pid, directory = ran.stdout.split()
        for _ in range(300):
            if not Path("/proc", pid).exists():
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the stack is still there")
        shutil.rmtree(directory)

    def test_failed_start_says_why(self):
        run = [self.bin / "python", "-c", "import leasehold_local\nwith leasehold_local.Stack(['--parameter', 'Nothing=1']): pass"]
        ran = subprocess.run(run, cwd=self.folder, env=self.environment, text=True, capture_output=True, check=False)
        self.assertEqual((ran.returncode, "StackFailed" in ran.stderr, "Nothing" in ran.stderr.splitlines()[-1]), (1, True, True), ran.stderr)

    def test_run_directory_has_one_stack(self):
        inner = ["exec", "--no-engine", "--run-directory", "run", "--"]
        ran = self.local(*inner, "leasehold-local", *inner, "true")
        self.assertEqual((ran.returncode, "another stack runs on this directory" in ran.stderr), (1, True), ran.stderr)

    def test_failed_stack_ends_command_cleanly(self):
        command = ["leasehold-local", "exec", "--", *CLEANS_UP]
        with subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            self.assertEqual(running.stdout.readline(), "ready\n")
            engines = [pid for pid in children(running.pid) if b"engine.py" in Path("/proc", pid, "cmdline").read_bytes()]
            os.kill(int(*engines), signal.SIGKILL)
            self.assertEqual(running.stdout.readline(), "ended\n")
            self.assertEqual((running.wait(30), "ended unexpectedly" in running.stderr.read()), (1, True))

    def test_signal_ends_command_then_stack(self):
        command = ["env", "--default-signal", "leasehold-local", "exec", "--no-engine", "--", *CLEANS_UP]
        for sent in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(sent), subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True,
                                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as running:
                self.assertEqual(running.stdout.readline(), "ready\n")
                running.send_signal(sent)
                self.assertEqual(running.stdout.readline(), "ended\n")
                self.assertEqual(running.wait(30), 3)


if __name__ == "__main__":
    unittest.main()
