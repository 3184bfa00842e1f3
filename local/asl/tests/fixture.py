"""An engine with functions, for the tests beside it, and what they do with it."""

import http.server
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import boto3
from botocore.config import Config

ENGINE = Path(__file__).resolve().parent.parent / "engine.py"
ROLE = "arn:aws:iam::123456789012:role/engine"
ACCESS = {"aws_access_key_id": "local", "aws_secret_access_key": "local", "aws_session_token": "secret"}
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:"
INVOKE = "arn:aws:states:::lambda:invoke"
WAIT = "arn:aws:states:::lambda:invoke.waitForTaskToken"
END = {"Type": "Pass", "End": True}
numbers = itertools.count()
ALL_TO_CAUGHT = [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}]


class Lambda(http.server.BaseHTTPRequestHandler):
    """Functions by name: echo answers its payload, large 300 KB, slow after three seconds; broken closes the connection, busy has no
    capacity."""

    def do_POST(self):
        name = re.search(r"function:(\w+)", self.path.replace("%3A", ":")) or re.search(r"functions/(\w+)", self.path)
        payload = self.rfile.read(int(self.headers.get("content-length", 0)))
        match name.group(1):
            case "broken":
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            case "busy":
                self.send_response(429)
                self.send_header("x-amzn-errortype", "TooManyRequestsException")
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")
                return
            case "large":
                payload = json.dumps("x" * 300_000).encode()
            case "slow":
                time.sleep(3)
        self.send_response(200)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        try:
            self.wfile.write(payload)
        except OSError:
            pass

    def log_message(self, *_):
        pass


def begin():
    global engine, functions, client
    functions = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lambda)
    threading.Thread(target=functions.serve_forever, daemon=True).start()
    environment = {
        **os.environ,
        "AWS_SESSION_TOKEN": "secret",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_LAMBDA": f"http://127.0.0.1:{functions.server_port}",
        "PYTHONUNBUFFERED": "1",
    }
    engine = subprocess.Popen(
        [sys.executable, str(ENGINE), "-p", "0", "--exit-with-parent"], env=environment, stdout=subprocess.PIPE, text=True
    )
    url = engine.stdout.readline().split()[-1]
    config = Config(inject_host_prefix=False, retries={"total_max_attempts": 1})
    client = boto3.client("stepfunctions", region_name="us-east-1", endpoint_url=url, config=config, **ACCESS)


def end():
    engine.kill()
    engine.wait()
    engine.stdout.close()
    functions.shutdown()
    functions.server_close()


def machine(states, jsonata=True):
    """Creates the machine of these states, which begins at the first."""
    definition = {"StartAt": next(iter(states)), "States": states}
    if jsonata:
        definition["QueryLanguage"] = "JSONata"
    answer = client.create_state_machine(name=f"m{next(numbers)}", definition=json.dumps(definition), roleArn=ROLE)
    return answer["stateMachineArn"]


def start(states, given="{}", jsonata=True):
    return client.start_execution(stateMachineArn=machine(states, jsonata), input=given)["executionArn"]


def ended(execution):
    for _ in range(1000):
        described = client.describe_execution(executionArn=execution)
        if described["status"] != "RUNNING":
            return described
        time.sleep(0.02)
    raise AssertionError("still running")


def run(states, given="{}", jsonata=True):
    return ended(start(states, given, jsonata))


def output(states, given="{}", jsonata=True):
    end = run(states, given, jsonata)
    assert end["status"] == "SUCCEEDED", end
    return json.loads(end["output"])


def history(execution):
    return client.get_execution_history(executionArn=execution, maxResults=1000)["events"]


def kinds(execution):
    return [event["type"] for event in history(execution)]


def details(event):
    return next((value for name, value in event.items() if name.endswith("EventDetails")), {})


def the(kind, execution):
    """The details of the only event of a kind."""
    [event] = [event for event in history(execution) if event["type"] == kind]
    return details(event)


def token(execution):
    """The token of the task that waits."""
    for _ in range(500):
        for event in history(execution):
            if event["type"] == "TaskSubmitted":
                [scheduled] = [one for one in history(execution) if one["type"] == "TaskScheduled"]
                said = json.loads(details(scheduled)["parameters"])
                return said.get("Payload", said.get("Input"))["token"]
        time.sleep(0.02)
    raise AssertionError("no task waits")


def task(function, **more):
    return {"Type": "Task", "Resource": INVOKE, "Arguments": {"FunctionName": FUNCTION + function, "Payload": {}}, "End": True, **more}


def waits(**more):
    payload = {"token": "{% $states.context.Task.Token %}"}
    return {"Type": "Task", "Resource": WAIT, "Arguments": {"FunctionName": FUNCTION + "echo", "Payload": payload}, "End": True, **more}


def inline_map(states, **more):
    return {
        "Type": "Map",
        "Items": [1, 2],
        "ItemProcessor": {"ProcessorConfig": {"Mode": "INLINE"}, "StartAt": next(iter(states)), "States": states},
        "End": True,
        **more,
    }


def parallel(*branches, **more):
    programs = [{"StartAt": next(iter(states)), "States": states} for states in branches]
    return {"Type": "Parallel", "Branches": programs, "End": True, **more}
