"""Runs dist/leasehold-<version>/ on this machine, as a user does with its local/run.py, and drives what it starts: the command
line, every function, and all state machines of the stack. Arguments: the directory of the release, and one where local/run.py
keeps its packages and files. Nothing but the release and Python is used.

local/run.py says what is emulated. So this does not run: transfer, because the stack has no table of accounts; alarms and
dashboard; roles, which are created and not enforced; reap by itself, because no event is sent when an execution ends."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True
DIST, DIRECTORY = Path(sys.argv.pop(1)).resolve(), Path(sys.argv.pop(1)).absolute()
sys.path.insert(0, str(DIST / "local"))

import run as local  # noqa: E402

PROGRAM = DIST / "bin" / f"leasehold-linux-{local.ARCHITECTURE}"
COMMAND = [sys.executable, DIST / "local" / "run.py", "--directory", DIRECTORY]
EMPTY = {"PATH": os.environ["PATH"], "HOME": str(DIRECTORY)}


class Dist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Under nohup and a shell's & this process ignores signals, and what it starts would ignore them too.
        cls.process = subprocess.Popen(["env", "--default-signal", *COMMAND], env=EMPTY, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.end)
        for line in cls.process.stdout:
            print(line, end="", flush=True)
            if line.startswith("Ctrl-C here"):
                break
        else:
            raise AssertionError(f"local/run.py has ended with status {cls.process.wait()}")
        cls.stack = local.running(DIRECTORY)
        cls.outputs, cls.machines = cls.stack["outputs"], cls.stack["machines"]
        cls.states = local.client("stepfunctions", cls.stack["states_url"])

    @classmethod
    def end(cls):
        """As Ctrl-C does. Nothing of it remains."""
        cls.process.send_signal(signal.SIGINT)
        cls.process.wait(60)
        cls.process.stdout.close()
        left = [path.name for path in DIRECTORY.iterdir() if path.name != "lock" and not path.name.startswith("packages-")]
        if (cls.process.returncode, left) != (130, []):
            raise AssertionError(f"local/run.py ended with status {cls.process.returncode}, and left {left}")

    def local(self, *arguments):
        """Status, output and errors of a command of local/run.py."""
        run = subprocess.run([*COMMAND, *arguments], env=EMPTY, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout, run.stderr

    def call(self, function, event):
        """The function's response, or its error's name."""
        answer, failed = local.invoke(self.stack["url"], self.outputs, function, event)
        return answer["errorType"] if failed else answer

    def start(self, machine, given):
        return self.states.start_execution(stateMachineArn=self.machines[machine], input=json.dumps(given))["executionArn"]

    def ended(self, execution):
        return local.ended(self.stack["states_url"], execution, 60)

    def run_machine(self, machine, given):
        return self.ended(self.start(machine, given))

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
        script = '. "$0" && "$1" acquire deploy/production -- echo alone'
        run = subprocess.run(["sh", "-c", script, DIRECTORY / "env.sh", PROGRAM], env=EMPTY, capture_output=True, text=True, check=False)
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

    def test_web_pages_and_strangers_are_refused(self):
        page = {"Origin": "https://example.org"}
        token = {"X-Amz-Security-Token": self.stack["token"]}
        for url in (self.stack["url"], self.stack["states_url"]):
            for headers in ({**token, **page}, {**token, "Sec-Fetch-Site": "cross-site"}, {**token, "Host": "example.org"}, {}, page):
                with self.subTest(url=url, headers=headers):
                    request = urllib.request.Request(url, b"{}", {"Content-Type": "text/plain", **headers})
                    with self.assertRaises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request):
                        pass
                    refused.exception.close()
                    self.assertEqual((refused.exception.code, refused.exception.headers["Access-Control-Allow-Origin"]), (403, None))
        for name in ("env.sh", "stack.json"):
            self.assertEqual((DIRECTORY / name).stat().st_mode & 0o777, 0o600, name)

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
        ended = json.loads((DIST / "events" / "reap-succeeded.json").read_text(encoding="utf-8"))
        self.assertEqual(self.call("reap", ended)["outcome"], "reaped")

    def test_every_machine_is_created(self):
        shipped = {path.name.removesuffix(".asl.json") for path in (DIST / "statemachines").iterdir()}
        self.assertEqual(self.machines.keys(), shipped - {"transfer"} | {local.SAMPLE})
        self.assertLessEqual({arn for name, arn in self.outputs.items() if name.endswith("StateMachineArn")}, set(self.machines.values()))

    def test_a_user_starts_an_execution_and_invokes_a_function(self):
        status, output, errors = self.local("start", "critical-section", '{"key": "orders/7", "ttl_seconds": 60}')
        self.assertEqual((status, errors, output.splitlines()[1]), (0, "", "SUCCEEDED"), output)
        status, output, errors = self.local("invoke", "acquire", str(DIST / "events" / "acquire-permit.json"))
        self.assertEqual((status, errors, json.loads(output)["outcome"]), (0, "", "acquired"))

    def test_a_user_reads_what_is_wrong(self):
        other = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, other)
        for arguments, said in (
            (["start", "nothing", "{}"], "no state machine nothing, but critical-section"),
            (["start", "critical-section", "{"], "neither JSON nor a file"),
            (["invoke", "nothing", "{}"], "no function nothing"),
            (["--directory", other, "invoke", "acquire", "{}"], f"no stack runs in {other}"),
            ([], "another stack runs in"),
            (["--directory", other, "--port", self.stack["url"].split(":")[-1]], "cannot be used"),
        ):
            with self.subTest(said):
                status, output, errors = self.local(*arguments)
                self.assertEqual((status, output, "Traceback" in errors), (1, "", False), errors)
                self.assertIn(said, errors)

    def test_sections_run_the_users_function(self):
        for name in ("critical-section", "queued-section", "observe"):
            with self.subTest(name):
                key = f"orders/{name}"
                told = self.run_machine(name, {"key": key, "ttl_seconds": 60, "wait_seconds": 60, "first": {"seconds": 0}, "second": {"seconds": 0}})
                self.assertEqual(told["status"], "SUCCEEDED", told)
                self.assertGreater(json.loads(told["output"])["token"], 0)
                self.assertTrue(self.is_free(key))

    def test_semaphore_runs_at_most_as_many_as_it_has_permits(self):
        running = self.start("semaphore", {"key": "reports", "permits": 2, "ttl_seconds": 60, "items": [{"seconds": 1}] * 5})
        most = 0
        while self.states.describe_execution(executionArn=running)["status"] == "RUNNING":
            most = max(most, self.held("reports"))
        told = self.ended(running)
        self.assertEqual((told["status"], most), ("SUCCEEDED", 2), told)
        done = json.loads(told["output"])
        self.assertEqual((len(done), {one["permit"] for one in done}, self.held("reports")), (5, {0, 1}, 0), done)

    def test_with_lease_runs_a_machine_of_the_users(self):
        told = self.run_machine("with-lease", self.wrapped("orders/2", 0))
        self.assertEqual((told["status"], json.loads(told.get("output", "null"))), ("SUCCEEDED", {"step": "sample", "token": None}), told)
        self.assertTrue(self.is_free("orders/2"))

    def test_with_lease_skips_what_runs_already(self):
        first = self.start("with-lease", self.wrapped("orders/5", 5, if_held="skip"))
        self.until(lambda: self.held("orders/5"))
        second = self.run_machine("with-lease", self.wrapped("orders/5", 5, if_held="skip"))
        self.assertEqual((second["status"], json.loads(second["output"])["leasehold"]["outcome"]), ("SUCCEEDED", "skipped"), second)
        self.assertEqual(self.states.describe_execution(executionArn=first)["status"], "RUNNING")
        told = self.ended(first)
        self.assertEqual((told["status"], json.loads(told["output"])["step"]), ("SUCCEEDED", "sample"), told)

    def test_a_redrive_acquires_anew(self):
        operator = {"key": "orders/6", "who": "test", "why": "to see it redriven"}
        self.call("operate", {"operation": "freeze", **operator})
        told = self.run_machine("critical-section", {"key": "orders/6", "ttl_seconds": 60})
        self.assertEqual((told["status"], told["error"]), ("FAILED", "Lease.Frozen"), told)
        self.call("operate", {"operation": "unfreeze", **operator})
        self.states.redrive_execution(executionArn=told["executionArn"])
        told = self.ended(told["executionArn"])
        self.assertEqual((told["status"], told["redriveCount"]), ("SUCCEEDED", 1), told)
        self.assertTrue(self.is_free("orders/6"))

    def test_a_release_notifies_the_first_waiter(self):
        lease = self.call("acquire", {"key": "orders/3", "holder": "me", "ttl_seconds": 300})["lease"]
        waiting = self.start("queued-section", {"key": "orders/3", "ttl_seconds": 60, "wait_seconds": 100})
        self.until(lambda: self.call("inspect", {"key": "orders/3"}).get("waiting"))
        self.assertEqual(self.states.describe_execution(executionArn=waiting)["status"], "RUNNING")
        self.call("release", {"lease": lease})
        told = self.ended(waiting)
        self.assertEqual(told["status"], "SUCCEEDED", told)

    def wrapped(self, key, seconds, **more):
        return {"key": key, "state_machine_arn": self.machines[local.SAMPLE], "input": {"seconds": seconds}, **more}

    def held(self, key):
        """How many leases of the key are held."""
        return [one["key"] for one in self.call("inspect", {"list": True})["leases"]].count(key)

    def until(self, true):
        for _ in range(240):
            if true():
                return
            time.sleep(0.25)
        raise AssertionError("it does not happen")

    def is_free(self, key):
        answer = self.call("acquire", {"key": key, "holder": "me", "ttl_seconds": 60})
        return isinstance(answer, dict) and answer["lease"]["key"] == key


if __name__ == "__main__":
    unittest.main()
