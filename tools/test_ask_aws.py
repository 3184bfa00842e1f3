"""Runs tools/ask_aws.py against a stub of the service on this machine: tests what it asks, what it prints, and when it fails."""

import json
import os
import subprocess
import sys
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

SCRIPT = Path(__file__).with_name("ask_aws.py")
ROLE = "arn:aws:iam::210987654321:role/nothing"
NAMES = {"lambda:invoke": "Lambda.AWSLambdaException", "dynamodb:": "DynamoDb.DynamoDbException",
         "sfn:": "Sfn.SfnException", "states:::states:": "StepFunctions.AWSStepFunctionsException"}


class Stub(BaseHTTPRequestHandler):
    """Responds as the service is expected to, unless a test sets another response."""

    asked, instead = [], {}

    def do_POST(self):
        action = self.headers["X-Amz-Target"].split(".")[1]
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((action, request))
        body = json.dumps(self.instead.get(action) or self.answer(action, request)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, action, request):
        if action == "ValidateStateMachineDefinition":
            return {"result": "OK", "diagnostics": []}
        state = json.loads(request["definition"])
        if "roleArn" in request:
            return {"status": "FAILED", "error": next(name for part, name in NAMES.items() if part in state["Resource"])}
        if "nothing" in request["definition"]:
            return {"status": "FAILED", "error": "States.QueryEvaluationError"}
        if "RedriveCount" in request["definition"]:
            if "context" not in request:
                return {"status": "FAILED", "error": "States.QueryEvaluationError"}
            return {"status": "SUCCEEDED", "output": str(json.loads(request["context"])["Execution"]["RedriveCount"])}
        return {"status": "SUCCEEDED", "output": "9007199254740992"}

    def log_message(self, *_):
        pass


class AskAws(unittest.TestCase):
    def ask(self, *arguments, instead=None, region="AWS_REGION"):
        Stub.asked, Stub.instead = [], instead or {}
        server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
        Thread(target=server.serve_forever, daemon=True).start()
        environment = {**os.environ, "AWS_ENDPOINT_URL_SFN": f"http://127.0.0.1:{server.server_port}", "AWS_ACCESS_KEY_ID": "stub", "AWS_SECRET_ACCESS_KEY": "stub"}
        for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
            environment.pop(name, None)
        environment |= {"AWS_CONFIG_FILE": os.devnull, region: "us-east-1"}
        run = subprocess.run([sys.executable, SCRIPT, *arguments], env=environment, capture_output=True, text=True, timeout=60)
        server.shutdown()
        server.server_close()
        return run.returncode, run.stdout + run.stderr

    def test_either_variable_sets_the_region(self):
        for region in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            self.assertEqual(self.ask(region=region)[0], 0, region)
        code, said = self.ask(region="AWS_REGION_OF_NOBODY")
        self.assertEqual((code, "no Region: set AWS_REGION" in said), (1, True), said)

    def test_every_machine_and_question_asked(self):
        code, said = self.ask("--role", ROLE)
        self.assertEqual((code, "OTHERWISE" in said, "not asked" in said), (0, False, False), said)
        validated = [request for action, request in Stub.asked if action == "ValidateStateMachineDefinition"]
        self.assertEqual(len(validated), len(list((SCRIPT.parent.parent / "templates" / "statemachines").glob("*.json"))))
        for request in validated:
            json.loads(request["definition"])
            self.assertNotIn("${", request["definition"])
        questions = [request for action, request in Stub.asked if action == "TestState"]
        self.assertEqual(len(questions), 8)
        self.assertFalse([request for request in questions if "{partition}" in request["definition"]])

    def test_error_names_need_role(self):
        code, said = self.ask()
        self.assertEqual((code, said.count("not asked")), (0, 4), said)
        self.assertFalse([request for _, request in Stub.asked if "roleArn" in request])

    def test_differences_fail_and_are_shown(self):
        diagnostic = {"severity": "ERROR", "code": "SCHEMA_VALIDATION_FAILED", "message": "is missing", "location": "/States/A"}
        code, said = self.ask(instead={"ValidateStateMachineDefinition": {"result": "FAIL", "diagnostics": [diagnostic]}})
        self.assertEqual(code, 1)
        self.assertIn("OTHERWISE: observe.asl.json: not valid\n  ERROR SCHEMA_VALIDATION_FAILED /States/A: is missing", said)
        code, said = self.ask(instead={"TestState": {"status": "FAILED", "error": "States.Runtime"}})
        self.assertEqual(code, 1)
        self.assertIn('{"error": "States.Runtime"}, not {"error": "States.QueryEvaluationError"}', said)


if __name__ == "__main__":
    unittest.main()
