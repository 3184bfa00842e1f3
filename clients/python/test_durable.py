"""Plays `with_lease` in durable functions, on AWS's own local runner, which it starts at this port, and the functions of a local stack.

    python3 -m venv VENV && . VENV/bin/activate    # Python 3.11 or later
    pip install aws-durable-execution-sdk-python==3.0.0 aws-durable-execution-sdk-python-testing==1.4.0 leasehold-local
    leasehold-local exec --no-engine --sweep-every 1 --parameter LookSeconds=1 --parameter ReapGraceSeconds=0 \\
        --durable-runner http://127.0.0.1:5077 -- python clients/python/test_durable.py 5077

Prints a line for each scene that passes.
"""

import dataclasses
import hashlib
import http.server
import io
import json
import logging
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import boto3
from aws_durable_execution_sdk_python import (CallbackExternalError, ExecutionError, InvocationError, StepError,
                                              durable_execution)
from aws_durable_execution_sdk_python.config import Duration, StepConfig
from aws_durable_execution_sdk_python.retries import RetryPresets, RetryStrategyConfig, create_retry_strategy
from botocore.exceptions import ReadTimeoutError

import leasehold
from leasehold import Leasehold, LeaseLost

SETTINGS = {"region_name": "us-east-1", "aws_access_key_id": "local", "aws_secret_access_key": "local"}
NAMES = {"acquire": "AcquireFunction", "extend": "ExtendFunction", "release": "ReleaseFunction"}
ARN = re.compile(r"arn:aws:lambda:[a-z0-9-]+:\d{12}:function:[\w-]+:(\$LATEST|\d+)/durable-execution/[\w-]+/[\w-]+")


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Runs the durable functions of the scenes when the runner invokes them, as Lambda would."""

    functions = {}

    def do_POST(self):
        name = urllib.parse.unquote(self.path.split("/")[3]).partition(":")[0]
        event = json.loads(self.rfile.read(int(self.headers["content-length"])))
        context = SimpleNamespace(aws_request_id=str(uuid.uuid4()), get_remaining_time_in_millis=lambda: 60_000)
        try:
            answer, failed = self.functions[name](event, context), False
        except Exception as error:
            answer, failed = {"errorType": type(error).__name__, "errorMessage": str(error)}, True
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        if failed:
            self.send_header("x-amz-function-error", "Unhandled")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def until(condition):
    ends = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < ends, "it does not happen"
        time.sleep(0.05)
    return found


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


class Runner:
    """AWS's local runner of durable functions, and its Lambda API."""

    def __init__(self, url):
        self.url = url
        self.api = boto3.client("lambda", endpoint_url=url, **SETTINGS)

    @classmethod
    @contextmanager
    def started(cls, port, *options):
        program = ["dex-local-runner", "start-server", "--host", "127.0.0.1", "--port", port, "--log-level", "CRITICAL", *options]
        process = subprocess.Popen(program, stdin=subprocess.DEVNULL)
        runner = cls(f"http://127.0.0.1:{port}")
        try:
            until(runner.answers)
            yield runner
        finally:
            process.kill()
            process.wait()

    def answers(self):
        try:
            return urllib.request.urlopen(f"{self.url}/health", timeout=1).status == 200
        except OSError:
            return False

    def start(self, name):
        event = {"AccountId": "123456789012", "FunctionName": name, "FunctionQualifier": "$LATEST", "ExecutionName": name,
                 "ExecutionTimeoutSeconds": 3600, "ExecutionRetentionPeriodDays": 1, "Input": "{}", "LambdaEndpoint": ENDPOINT}
        request = urllib.request.Request(f"{self.url}/start-durable-execution", json.dumps(event).encode())
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["ExecutionArn"]

    def status(self, arn):
        return self.api.get_durable_execution(DurableExecutionArn=arn)["Status"]

    def ended(self, arn):
        """What the execution returned, or its error."""
        execution = until(lambda: (one := self.api.get_durable_execution(DurableExecutionArn=arn))["Status"] != "RUNNING" and one)
        if execution["Status"] == "SUCCEEDED":
            return json.loads(execution["Result"])
        return {"status": execution["Status"], **execution.get("Error", {})}


class Section:
    """A durable function that works under the lease of its own key, what it sends to the stack, and what it does."""

    def __init__(self, handler, runner=None):
        self.key = self.name = f"python-{uuid.uuid4().hex[:8]}"
        self.runner = runner or RUNNER
        self.sent, self.done, self.faults = [], [], []
        self.leases = Leasehold(self, **NAMES, holder="nobody", attempts=1)
        self.other = Leasehold(STACK, **NAMES, holder="other")
        Endpoint.functions[self.name] = durable_execution(lambda _, context: handler(self, context), boto3_client=self.runner.api)

    def invoke(self, FunctionName, Payload):
        """Invokes a function; the first calls may go wrong, before it runs or after it."""
        self.sent.append((FunctionName, json.loads(Payload)))
        self.done.append(FunctionName.removesuffix("Function").lower())
        when, happens = self.faults.pop(0) if self.faults else ("after", None)
        answer = STACK.invoke(FunctionName=FunctionName, Payload=Payload) if when == "after" else None
        return happens() or answer if happens else answer

    def start(self):
        self.arn = self.runner.start(self.name)
        return self

    def ends(self):
        return self.runner.ended(self.arn)

    def run(self):
        return self.start().ends()

    def count(self, what):
        return self.done.count(what)

    def with_lease(self, context, work, **options):
        return self.leases.with_lease(context, self.key, work, **{"wait_seconds": 60, **options})

    def step(self, context, name, **options):
        context.step(lambda _: self.done.append(name), name, **options)

    def works(self, context, lease):
        """Work that is suspended."""
        self.step(context, "first")
        context.wait(Duration.from_seconds(1))
        self.step(context, "second")
        return lease.fencing_token

    def refusal(self, context, work=None, **options):
        """What the function learns, also when it is replayed."""
        def never(_):
            raise AssertionError("it has no lease")

        try:
            return self.with_lease(context, work or never, **options)
        except Exception as error:
            found = [type(error).__name__, str(error), getattr(error, "details", None)]
        self.done.append(found)
        context.wait(Duration.from_seconds(1))
        return found

    def learns(self):
        """What it learned, which a replay has not changed."""
        told = self.ends()
        seen = [one for one in self.done if isinstance(one, list)]
        assert len(seen) >= 2 and all(one == told for one in seen), (told, seen)
        return told

    def is_free(self, within=0):
        self.other.acquire(self.key, ttl_seconds=60, wait_seconds=within).release()


def fails(error):
    def raises():
        raise error
    return raises


LOST = ReadTimeoutError(endpoint_url="x")


def refused(code, status):
    answer = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return RUNNER.api.exceptions.ClientError(answer, "Invoke")


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def free_key_is_worked_and_released():
    def handler(section, context):
        def work(lease):
            seen = [lease.key, lease.holder, lease.grant, lease.ttl_seconds, lease.remaining() > 1e9]
            return {"seen": seen, "shown": repr(lease), "secret": lease.handle()["lease_id"]}

        return section.with_lease(context, work, at_least_seconds=0, metadata={"order": "42"})

    section = Section(handler)
    result = section.run()
    (_, asked), (_, released) = section.sent
    callback_id = asked.pop("callback_id")
    request = {"key": section.key, "request_id": hashlib.sha256(callback_id.encode()).hexdigest(), "wait_seconds": 60,
               "at_least_seconds": 0, "metadata": {"order": "42"}}
    equal({**asked, "holder": None}, {**request, "holder": None})
    assert ARN.fullmatch(asked["holder"]) and asked["holder"].endswith(section.arn), asked
    equal(result["seen"], [section.key, asked["holder"], "new", None, True])
    equal(released["lease"]["lease_id"], result["secret"])
    assert result["secret"] not in result["shown"]
    equal(section.done, ["acquire", "release"])
    section.is_free()


def lease_may_precede_acquires_answer():
    section = Section(lambda section, context: section.with_lease(context, lambda lease: section.works(context, lease)))
    section.faults = [("after", lambda: time.sleep(1))]
    assert section.run() > 0
    equal(section.done, ["acquire", "first", "second", "release"])


def waiter_gets_lease_on_release():
    section = Section(lambda section, context: section.with_lease(context, lambda lease: section.works(context, lease)))
    held = section.other.acquire(section.key, ttl_seconds=3600)
    section.start()
    until(lambda: section.done)
    time.sleep(1)
    equal((section.done, section.runner.status(section.arn)), (["acquire"], "RUNNING"))
    held.release()
    assert section.ends() > held.fencing_token
    equal(section.done, ["acquire", "first", "second", "release"])


def suspended_work_keeps_its_lease():
    def handler(section, context):
        def work(lease):
            section.done.append(("work", lease.fencing_token))
            return section.works(context, lease)

        token = section.with_lease(context, work)
        section.step(context, "after")
        context.wait(Duration.from_seconds(1))  # The work is called again, and has been released.
        return token

    section = Section(handler)
    token = section.run()
    calls = [one for one in section.done if isinstance(one, tuple)]
    assert len(calls) >= 3 and set(calls) == {("work", token)}, calls
    equal([one for one in section.done if one not in calls], ["acquire", "first", "second", "release", "after"])
    section.is_free()


def works_error_passes_after_release():
    own = KeyError("the work's own")

    def handler(section, context):
        def work(lease):
            section.works(context, lease)
            raise own

        try:
            section.with_lease(context, work)
        except KeyError as error:
            assert error is own
            context.wait(Duration.from_seconds(1))
            raise

    section = Section(handler)
    told = section.run()
    equal((told["status"], told["ErrorType"], told["ErrorMessage"]), ("FAILED", "KeyError", str(own)))
    equal(section.done, ["acquire", "first", "second", "release"])
    section.is_free()


def repeated_step_keeps_lease():
    def handler(section, context):
        def flaky(_):
            section.done.append("try")
            if section.count("try") == 1:
                raise OSError("once")

        again = create_retry_strategy(RetryStrategyConfig(initial_delay=Duration.from_seconds(1)))
        return section.with_lease(context, lambda _: context.step(flaky, "flaky", StepConfig(retry_strategy=again)))

    section = Section(handler)
    equal(section.run(), None)
    equal(section.done, ["acquire", "try", "try", "release"])

    def handler_of_one_that_fails(section, context):
        once = StepConfig(retry_strategy=RetryPresets.none())
        try:
            section.with_lease(context, lambda _: context.step(lambda _: 1 / 0, "fails", once))
        except StepError as error:
            return error.message

    section = Section(handler_of_one_that_fails)
    equal(section.run(), "division by zero")
    equal(section.done, ["acquire", "release"])


def sdks_error_releases_nothing():
    def handler(section, context):
        def work(lease):
            section.step(context, "first")
            section.done.append("work")
            if section.count("work") == 1:
                raise InvocationError("this invocation is to be repeated")
            return lease.fencing_token

        return section.with_lease(context, work)

    section = Section(handler)
    assert section.run() > 0
    equal(section.done, ["acquire", "first", "work", "work", "release"])
    final = fails(ExecutionError("the execution is to end"))
    section = Section(lambda section, context: section.with_lease(context, lambda _: final()))
    equal(section.run()["status"], "FAILED")
    equal(section.done, ["acquire"])


def queue_tells_of_timed_out_wait():
    section = Section(lambda section, context: section.refusal(context, wait_seconds=0.5))
    section.other.acquire(section.key, ttl_seconds=3600)
    section.start()
    until(lambda: section.done)
    time.sleep(1)
    STACK.invoke(FunctionName="SweepFunction", Payload=b"{}")
    name, message, details = section.learns()
    equal((name, details["key"], details["message"]), ("LeaseQueueTimeout", section.key, message))
    equal(section.count("acquire"), 1)
    equal(section.count("release"), 0)


def only_the_latest_waits():
    section = Section(lambda section, context: section.refusal(context))
    held = section.other.acquire(section.key, ttl_seconds=3600)
    section.start()
    until(lambda: section.done)
    later = Section(lambda section, context: section.with_lease(context, lambda lease: lease.fencing_token, latest=True))
    later.key = section.key
    later.start()
    equal(section.learns()[0], "LeaseSuperseded")
    held.release()
    assert later.ends() > held.fencing_token
    equal([event.get("if_held") for _, event in section.sent + later.sent], [None, "latest", None])


class Once:
    """A context whose steps are not repeated."""

    def __init__(self, context):
        self.context = context

    def __getattr__(self, name):
        return getattr(self.context, name)

    def step(self, work, name, config):
        return self.context.step(work, name, dataclasses.replace(config, retry_strategy=RetryPresets.none()))


class Hasty:
    """A context whose callbacks time out after so many seconds."""

    def __init__(self, context, seconds, asked):
        self.context, self.timeout, self.asked = context, Duration.from_seconds(seconds), asked

    def __getattr__(self, name):
        return getattr(self.context, name)

    def create_callback(self, name, config):
        self.asked.append(config.timeout_seconds)
        return self.context.create_callback(name, dataclasses.replace(config, timeout=self.timeout))


def missing_answer_ends_wait():
    timeouts = []
    section = Section(lambda section, context: section.refusal(Hasty(context, 1, timeouts), wait_seconds=90.5))
    section.faults = [("never", lambda: {"Payload": io.BytesIO(b'{"outcome":"queued","ticket":7}')})]
    section.start()
    name, message, details = section.learns()
    equal((name, details), ("LeaseQueueTimeout", {"key": section.key}))
    assert section.key in message and set(timeouts) == {91 + 600}, (message, timeouts)


def refused_acquire_is_not_repeated():
    section = Section(lambda section, context: section.refusal(context, permits=2000))
    section.start()
    name, _, details = section.learns()
    equal((name, details["field"], section.count("acquire")), ("LeaseInvalid", "permits", 1))


def foreign_error_is_sdks_own():
    section = Section(lambda section, context: section.refusal(context))
    section.faults = [("never", fails(refused("AccessDeniedException", 403)))]
    section.start()
    name, message, _ = section.learns()
    assert name == StepError.__name__ and "AccessDeniedException" in message, (name, message)
    equal(section.count("acquire"), 1)
    # Somebody else answers the callback.
    section = Section(lambda section, context: section.refusal(context))
    section.other.acquire(section.key, ttl_seconds=3600)
    section.start()
    callback_id = until(lambda: section.sent)[0][1]["callback_id"]
    RUNNER.api.send_durable_execution_callback_failure(CallbackId=callback_id, Error={"ErrorType": "No", "ErrorMessage": "{}"})
    equal(section.learns()[:2], [CallbackExternalError.__name__, "{}"])


def lost_request_is_repeated_unchanged():
    sections = []
    for when in "never", "after":
        section = Section(lambda section, context: section.with_lease(context, lambda lease: section.works(context, lease)))
        section.faults = [(when, fails(LOST))]
        sections.append(section.start())
    for section in sections:
        assert section.ends() > 0
        equal(section.done, ["acquire", "acquire", "first", "second", "release"])
        equal(section.sent[0], section.sent[1])
        section.is_free()


def unheard_waiter_gets_lease():
    sections = []
    for error in LOST, refused("TooManyRequestsException", 429):  # The latter of the last attempt, and an earlier one was heard.
        def handler(section, context):
            return section.with_lease(Once(context), lambda lease: section.works(context, lease))

        section = Section(handler)
        section.faults = [("after", fails(error))]
        sections.append((section, section.other.acquire(section.key, ttl_seconds=3600)))
        section.start()
    for section, held in sections:
        until(lambda: section.done)
        time.sleep(1)
        held.release()
        assert section.ends() > held.fencing_token
        equal(section.done, ["acquire", "first", "second", "release"])


def unanswered_caller_learns_it():
    with Runner.started(free_port(), "--skip-time") as runner:
        section = Section(lambda section, context: section.refusal(Hasty(context, 10, [])), runner)
        section.faults = [("never", fails(LOST))] * 99
        section.start()
        name, _, details = section.learns()
        equal((name, details), ("LeaseQueueTimeout", {"key": section.key}))
        equal(section.count("acquire"), 6)
        assert all(one == section.sent[0] for one in section.sent)


def a_lost_release_is_repeated():
    sections = []
    for when in "never", "after":
        section = Section(lambda section, context: section.with_lease(context, lambda lease: "done"))
        section.faults = [("after", None), (when, fails(LOST))]
        sections.append(section.start())
    for section in sections:
        equal(section.ends(), "done")
        equal(section.done, ["acquire", "release", "release"])
        section.is_free()


def failed_release_keeps_works_result():
    denied = ("never", fails(refused("AccessDeniedException", 403)))
    section = Section(lambda section, context: section.with_lease(context, lambda lease: "done"))
    section.faults = [("after", None), denied]
    equal(section.run(), "done")
    equal(section.done, ["acquire", "release"])
    section = Section(lambda section, context: section.with_lease(context, lambda lease: fails(KeyError("own"))()))
    section.faults = [("after", None), denied]
    equal(section.run()["ErrorType"], "KeyError")
    equal(section.done, ["acquire", "release"])


def work_reports_lost_lease():
    def taken(section):
        event = {"operation": "force_release", "key": section.key, "who": "night shift", "why": "a test"}
        STACK.invoke(FunctionName="OperateFunction", Payload=json.dumps(event).encode())
        section.other.acquire(section.key, ttl_seconds=60)

    def handler(section, context):
        return section.refusal(context, lambda _: context.step(lambda _: taken(section), "taken"))

    section = Section(handler).start()
    name, _, details = section.learns()
    equal((name, details), (LeaseLost.__name__, {"key": section.key}))
    equal(section.count("release"), 1)


def stopped_execution_loses_lease_unreleased():
    def handler(section, context):
        def work(_):
            section.step(context, "first")
            context.wait(Duration.from_seconds(2))
            section.step(context, "second")

        section.with_lease(context, work)

    section = Section(handler).start()
    until(lambda: section.count("first"))
    time.sleep(0.5)  # Until its wait has begun.
    section.runner.api.stop_durable_execution(DurableExecutionArn=section.arn)
    equal(section.ends()["status"], "STOPPED")
    section.is_free(within=60)  # Since sweep has looked.
    equal(section.done, ["acquire", "first"])


def the_local_runners_ids_become_arns():
    arn = "arn:aws:lambda:eu-west-1:123456789012:function:orders:7/durable-execution/one/2"
    equal(leasehold._execution_arn(arn), arn)
    found = leasehold._execution_arn("a-b/c-d")
    assert ARN.fullmatch(found) and found.endswith("/durable-execution/a-b/c-d"), found


SCENES = (free_key_is_worked_and_released, lease_may_precede_acquires_answer,
          waiter_gets_lease_on_release, suspended_work_keeps_its_lease,
          works_error_passes_after_release,
          repeated_step_keeps_lease, sdks_error_releases_nothing,
          queue_tells_of_timed_out_wait, only_the_latest_waits, missing_answer_ends_wait,
          refused_acquire_is_not_repeated, foreign_error_is_sdks_own,
          lost_request_is_repeated_unchanged, unheard_waiter_gets_lease,
          unanswered_caller_learns_it, a_lost_release_is_repeated,
          failed_release_keeps_works_result, work_reports_lost_lease,
          stopped_execution_loses_lease_unreleased, the_local_runners_ids_become_arns)

# The SDK logs every error of a step.
logging.disable(logging.CRITICAL)
endpoint = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
ENDPOINT = f"http://127.0.0.1:{endpoint.server_port}"
threading.Thread(target=endpoint.serve_forever, daemon=True).start()
with ExitStack() as ends:
    RUNNER = ends.enter_context(Runner.started(sys.argv[1]))
    STACK = boto3.client("lambda")
    # Side by side, because most of them wait. The runner resets connections when there are too many at once.
    playing = ends.enter_context(ThreadPoolExecutor(6))
    for scene, played in [(scene, playing.submit(scene)) for scene in SCENES]:
        played.result()
        print("ok", scene.__name__, flush=True)
