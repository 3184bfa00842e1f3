"""Runs the contract's scenes with the package leasehold on the local stack. `proof/tests/clients.rs` starts both.

Prints a line for each scene that passes. The stack's endpoints come from the environment.
"""

import asyncio
import io
import json
import math
import os
import threading
import time
import urllib.request
from datetime import datetime, timezone
from types import SimpleNamespace

import boto3

import leasehold
from leasehold import (ERRORS, ExecutionFailed, Leasehold, LeaseConsumed, LeaseError, LeaseExpired, LeaseFrozen, LeaseHeld, LeaseInvalid,
                       LeaseLost, LeaseQueueFull, LeaseThrottled, LeaseUnavailable, fence)

SETTINGS = {"region_name": "us-east-1", "aws_access_key_id": "local", "aws_secret_access_key": "local",
            "aws_session_token": os.environ["AWS_SESSION_TOKEN"]}
LAMBDA = boto3.client("lambda", endpoint_url=os.environ["AWS_ENDPOINT_URL_LAMBDA"], **SETTINGS)
NAMES = {"acquire": "AcquireFunction", "extend": "ExtendFunction", "release": "ReleaseFunction",
         "start": "StartFunction"}
SLEPT = []


def client(holder="me", invoker=LAMBDA, **options):
    return Leasehold(invoker, **NAMES, holder=holder, sleep=SLEPT.append, **options)


ME, OTHER = client("me"), client("other")


def opens(key):
    answer = LAMBDA.invoke(FunctionName="InspectFunction", Payload=json.dumps({"key": key}))
    return "opens_at" in json.loads(answer["Payload"].read())


def operate(operation, key):
    event = {"operation": operation, "key": key, "who": "night shift", "why": "a test"}
    answer = LAMBDA.invoke(FunctionName="OperateFunction", Payload=json.dumps(event))
    assert "FunctionError" not in answer, answer["Payload"].read()


def raises(kind, work, *arguments, **named):
    try:
        result = work(*arguments, **named)
    except LeaseError as error:
        assert type(error) is kind, repr(error)
        assert error.name == kind.name and error.message == str(error) and error.message
        return error
    raise AssertionError(f"no {kind.__name__}, but {result!r}")


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def ends(*leases):
    """Releases the lease. If the table is slow, the function retries, and finds its lease already released."""
    outcomes = [lease.release() for lease in leases]
    assert set(outcomes) <= {"released", "already_released"}, outcomes
    for lease in leases:
        OTHER.acquire(lease.key, ttl_seconds=60, permits=2 if lease.permit else None).release()


def acquire_extend_and_release():
    lease = ME.acquire("python/plain", ttl_seconds=60, metadata={"order": "42"})
    equal((lease.key, lease.holder, lease.permit, lease.previous), ("python/plain", "me", 0, None))
    assert lease.grant in ("new", "replayed")
    assert 0 < lease.remaining() <= 60 and lease.ttl_seconds == 60
    token, until = lease.fencing_token, lease.safe_until
    assert lease.extend(120) == "extended"
    assert lease.fencing_token == token and lease.safe_until > until and lease.ttl_seconds == 120
    ends(lease)
    equal(lease.release(), "already_released")


def a_held_key_names_its_holder():
    lease = ME.acquire("python/held", ttl_seconds=60)
    error = raises(LeaseHeld, OTHER.acquire, "python/held", ttl_seconds=60)
    assert error.details["holder"] == "me" and error.details["key"] == "python/held"
    assert error.details["fencing_token"] == lease.fencing_token and error.details["retry_at"]
    assert raises(LeaseHeld, ME.acquire, "python/held", ttl_seconds=60).details["by_you"] is True
    inner = ME.acquire("python/held", ttl_seconds=60, reentrant=True)
    equal((inner.grant, inner.fencing_token, inner.release()), ("reentered", lease.fencing_token, "kept"))
    assert raises(LeaseHeld, OTHER.acquire, "python/held", ttl_seconds=60, observed_version=0)
    version = error.details["version"]
    taken = OTHER.acquire("python/held", ttl_seconds=60, observed_version=version)
    equal((taken.previous["holder"], taken.previous["ended"]), ("me", "expired"))
    # Nobody holds it, and it is in a cooldown.
    ME.acquire("python/closed", ttl_seconds=60, at_least_seconds=600).release()
    [lease] = ME.acquire_all(["python/closed/another"], ttl_seconds=60, at_least_seconds=600)
    lease.release()
    for key in ("python/closed", "python/closed/another"):
        clock = Clock()
        waits = Leasehold(LAMBDA, **NAMES, holder="other", sleep=clock.sleep, clock=clock)
        closed = raises(LeaseHeld, waits.acquire, key, ttl_seconds=60, wait_seconds=20).details
        assert math.isclose(sum(clock.slept), 20, abs_tol=0.001), clock.slept
        assert closed["opens_at"] < closed["retry_at"] and 590 < closed["wait_seconds"] <= 610, closed
        assert closed["holder"] == "me" and not {"expires_at", "ttl_seconds", "lifetime"} & set(closed), closed


class Clock:
    """A clock that goes on only while somebody sleeps; at some instant something happens."""

    def __init__(self, after=math.inf, happens=None):
        self.now, self.after, self.happens, self.slept = time.time(), after, happens, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        if self.happens and sum(self.slept) > self.after:
            self.happens()
            self.happens = None


def waiter_asks_until_free_or_late():
    held = ME.acquire("python/waits", ttl_seconds=3600)
    clock = Clock(after=30, happens=held.release)
    counted = Faulty()
    waits = Leasehold(counted, **NAMES, holder="other", sleep=clock.sleep, clock=clock)
    lease = waits.acquire("python/waits", ttl_seconds=3600, wait_seconds=600)
    assert 30 < sum(clock.slept) <= 40 and all(0 <= seconds <= 10 for seconds in clock.slept), clock.slept
    assert len(set(counted.sent)) == 1, "one request, as often as it asks"
    # No longer than it may, nor than the time that a Lambda function has left, less two seconds.
    for seconds, left, longest in ((60, None, 60), (60, 12_000, 10), (3, 900_000, 3), (5, 1_000, 0)):
        clock = Clock()
        context = left and SimpleNamespace(get_remaining_time_in_millis=lambda: left)
        waits = Leasehold(LAMBDA, **NAMES, holder="me", sleep=clock.sleep, clock=clock)
        raises(LeaseHeld, waits.acquire, "python/waits", ttl_seconds=60, wait_seconds=seconds, context=context)
        assert math.isclose(sum(clock.slept), longest, abs_tol=0.001), clock.slept
    ends(lease)
    # Not much longer than until the lease has expired.
    soon = LeaseHeld("held", {"retry_at": "2026-11-21T03:00:01.000Z"})
    instant = datetime(2026, 11, 21, 3, tzinfo=timezone.utc).timestamp()
    for _ in range(50):
        waits = leasehold._Waits(lambda: instant, 600, None)
        pauses = [waits.pause(soon) for _ in range(9)]
        assert max(pauses) <= 1.5, pauses


def async_wait_blocks_nobody_keeps_nothing():
    async def scene():
        async with ME.lease_async("python/async", ttl_seconds=60) as lease:
            waits = asyncio.create_task(OTHER.acquire_async("python/async", ttl_seconds=60, wait_seconds=60))
            await asyncio.sleep(0.1)
            assert not waits.done() and lease.remaining() > 0
        theirs = await waits
        raises(LeaseHeld, ME.acquire, "python/async", ttl_seconds=60)
        theirs.release()
        # Its answer comes after it was cancelled.
        asked = threading.Event()

        def slow(**arguments):
            asked.set()
            time.sleep(0.2)
            return LAMBDA.invoke(**arguments)

        waits = asyncio.create_task(client(invoker=SimpleNamespace(invoke=slow)).acquire_async("python/async", ttl_seconds=60))
        await asyncio.to_thread(asked.wait)
        waits.cancel()
        try:
            await waits
        except asyncio.CancelledError:
            pass
        else:
            raise AssertionError("it was not cancelled")
        lease = await OTHER.acquire_async("python/async", ttl_seconds=60, wait_seconds=60)
        ends(lease)

    asyncio.run(scene())


def decorated_function_runs_under_lease():
    @ME.leased("python/decorated", ttl_seconds=60)
    def plain(order):
        raises(LeaseHeld, OTHER.acquire, "python/decorated", ttl_seconds=60)
        return order + 1

    @ME.leased(lambda order, **_: f"python/decorated/{order}", ttl_seconds=60)
    def told(order, *, lease):
        return lease.key, lease.fencing_token > 0

    @ME.leased("python/decorated", ttl_seconds=60)
    async def waits(order, lease):
        await asyncio.sleep(0)
        return order, lease.key

    equal((plain(1), plain.__name__), (2, "plain"))
    equal(told(7), ("python/decorated/7", True))
    equal(asyncio.run(waits(3)), (3, "python/decorated"))
    OTHER.acquire("python/decorated", ttl_seconds=60).release()


def same_request_gets_same_lease():
    first = ME.acquire("python/replayed", ttl_seconds=60, request_id="one")
    again = ME.acquire("python/replayed", ttl_seconds=60, request_id="one")
    assert again.grant == "replayed" and again.handle() == first.handle()
    first.release()
    raises(LeaseConsumed, ME.acquire, "python/replayed", ttl_seconds=60, request_id="one")


def taken_over_lease_is_lost():
    mine = ME.acquire("python/lost", ttl_seconds=60)
    operate("force_release", "python/lost")
    theirs = OTHER.acquire("python/lost", ttl_seconds=60)
    assert theirs.grant in ("takeover", "replayed") and theirs.previous["ended"] == "forced"
    assert theirs.fencing_token > mine.fencing_token
    raises(LeaseLost, mine.extend)
    assert mine.release() == "lost"
    raises(LeaseLost, mine.release, strict=True)
    assert theirs.extend() == "extended"


def expired_lease_is_refused_or_revived():
    with open(os.path.join(os.environ["EVENTS"], "extend-expired.json"), encoding="utf-8") as file:
        lease = ME.resume(json.load(file)["lease"])
    assert lease.remaining() == 0
    raises(LeaseExpired, lease.extend, require_unexpired=True)
    assert lease.extend() == "revived" and lease.remaining() > 0


def a_malformed_request_names_its_field():
    assert raises(LeaseInvalid, ME.acquire, "python/invalid", ttl_seconds=0).details["field"] == "ttl_seconds"


def frozen_key_is_granted_to_nobody():
    operate("freeze", "python/frozen")
    raises(LeaseFrozen, ME.acquire, "python/frozen", ttl_seconds=60)


def permits_are_leases_of_their_own():
    leases = [ME.acquire("python/permits", ttl_seconds=60, permits=2) for _ in range(2)]
    assert {lease.permit for lease in leases} == {0, 1}
    raises(LeaseHeld, OTHER.acquire, "python/permits", ttl_seconds=60, permits=2)
    ends(*leases)


def several_keys_come_all_or_none():
    leases = ME.acquire_all(["python/a", "python/b"], ttl_seconds=60)
    assert [(lease.key, lease.previous) for lease in leases] == [("python/a", None), ("python/b", None)]
    assert raises(LeaseHeld, OTHER.acquire_all, ["python/c", "python/b"], ttl_seconds=60).details["key"] == "python/b"
    OTHER.acquire("python/c", ttl_seconds=60)
    equal([lease.extend() for lease in leases], ["extended"] * 2)
    ends(*leases)


def queued_waiter_gets_lease_by_token():
    held = ME.acquire("python/queue", ttl_seconds=60)
    waiting = {"wait_seconds": 600, "at_least_seconds": 60, "holder": "arn:aws:states:us-east-1:123456789012:execution:leasehold_leasing_one:1"}
    joined = OTHER.join_queue("python/queue", task_token="python-1", request_id="1", **waiting)
    assert joined["outcome"] == "queued", joined
    again = OTHER.join_queue("python/queue", task_token="python-2", request_id="1", **waiting)
    assert again["ticket"] == joined["ticket"]
    raises(LeaseQueueFull, OTHER.join_queue, "python/queue", task_token="python-3", request_id="3", **waiting)
    held.release()
    with urllib.request.urlopen(os.environ["NOTIFIED"]) as answer:
        notified = [call for call in json.load(answer) if call["taskToken"] == "python-2"]
    output = json.loads(notified[0]["output"])
    lease = OTHER.resume(output["lease"])
    assert output["outcome"] == "acquired" and lease.extend() == "extended"
    assert lease.release() == "released"
    assert "opens_at" in raises(LeaseHeld, OTHER.acquire, "python/queue", ttl_seconds=60).details
    ME.acquire("python/queue/permits", ttl_seconds=60, permits=2)
    other = OTHER.join_queue("python/queue/permits", task_token="python-4", request_id="4", permits=2, **waiting)
    assert other["outcome"] == "acquired", other


def start_begins_or_waits_for_key():
    machine = "arn:aws:states:us-east-1:123456789012:stateMachine:leasehold_started_orders"
    execution = machine.replace(":stateMachine:", ":execution:")
    order = {"state_machine_arn": machine, "input": {"order": "42"}, "at_least_seconds": 60}
    first = ME.start("python/start", name="python-1", **order)
    equal((first.outcome, first.execution_arn, first.held), ("started", f"{execution}:python-1", None))
    equal(ME.start("python/start", name="python-1", **order), first)
    assert opens("python/start")
    second = OTHER.start("python/start", name="python-2", pass_lease=True, wait_seconds=600, **order)
    equal((second.outcome, second.held["holder"]), ("queued", first.execution_arn))
    raises(LeaseQueueFull, ME.start, "python/start", name="python-3", **order)
    assert raises(LeaseHeld, ME.start, "python/start", if_held="fail", **order).details["holder"] == first.execution_arn
    equal(ME.start("python/start", name="python-4", if_held="skip", **order).outcome, "skipped")
    for name, outcome in ("python-5", "started"), ("python-6", "started"), ("python-7", "skipped"):
        equal(ME.start("python/shared", name=name, if_held="skip", permits=2, **order).outcome, outcome)
    for tenant, outcome in ("a", "started"), ("b", "queued"):
        pooled = ME.start(f"python/pooled/{tenant}", name=f"python-pooled-{tenant}", pool={"name": "python", "permits": 1}, **order)
        equal(pooled.outcome, outcome)
    error = raises(LeaseInvalid, ME.start, "python/start", state_machine_arn=machine.replace("started", "other"))
    assert error.details["field"] == "state_machine_arn"


class Describes:
    def __init__(self, *answers):
        self.answers = list(answers)

    def describe_execution(self, *, executionArn):
        assert executionArn.endswith("python-result")
        return self.answers.pop(0)


def start_waits_for_result():
    machine = "arn:aws:states:us-east-1:123456789012:stateMachine:leasehold_started_orders"
    start = {"key": "python/result", "name": "python-result", "state_machine_arn": machine, "wait": True}
    runs = {"status": "RUNNING"}
    answers = Describes(runs, runs, {"status": "SUCCEEDED", "output": '{"made": 1}'})
    equal(client(step_functions=answers).start(**start).output, {"made": 1})
    stopped = client(step_functions=Describes({"status": "ABORTED", "error": "Mine", "cause": "why"}))
    try:
        stopped.start(**start)
    except ExecutionFailed as error:
        equal((error.status, error.error, error.cause), ("ABORTED", "Mine", "why"))
    else:
        raise AssertionError("it was stopped")
    try:
        ME.start(**start)
    except ValueError as error:
        assert "step_functions" in str(error)
    else:
        raise AssertionError("nobody can be asked")


def a_block_releases_however_it_ends():
    with ME.lease("python/block", ttl_seconds=60) as lease:
        raises(LeaseHeld, OTHER.acquire, "python/block", ttl_seconds=60)
    assert lease.release() == "already_released"
    for kind in (KeyError, KeyboardInterrupt):
        try:
            with ME.lease("python/block", ttl_seconds=60):
                raise kind("the block's own")
        except kind as error:
            assert "the block's own" in str(error)
        else:
            raise AssertionError("the error of the block disappeared")
        OTHER.acquire("python/block", ttl_seconds=60).release()


def block_reports_lost_lease():
    def block():
        with ME.lease("python/overrun", ttl_seconds=60):
            operate("force_release", "python/overrun")
            OTHER.acquire("python/overrun", ttl_seconds=60)

    raises(LeaseLost, block)


def block_never_begins_after_lease():
    # The response to the acquire took two hours.
    def late(invoker):
        return client(invoker=invoker, clock=lambda: time.time() + 7200).lease("python/late", ttl_seconds=60)

    counted = Faulty()
    with late(counted):
        assert ["lease" in json.loads(sent) for sent in counted.sent] == [False, True], "it was extended first"

    def taken(**arguments):
        answer = LAMBDA.invoke(**arguments)
        if arguments["FunctionName"] == NAMES["acquire"]:
            operate("force_release", "python/late")
        return answer

    def block():
        with late(SimpleNamespace(invoke=taken)):
            raise AssertionError("it has begun")

    raises(LeaseLost, block)


class Faulty:
    """A Lambda client whose first calls go wrong: before the function runs, or after it."""

    def __init__(self, *faults):
        self.faults, self.sent = list(faults), []

    def invoke(self, **arguments):
        self.sent.append(arguments["Payload"])
        after, fault = self.faults.pop(0) if self.faults else (True, None)
        answer = LAMBDA.invoke(**arguments) if after else None
        if fault:
            raise fault
        return answer


def refused(code, status):
    answer = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return LAMBDA.exceptions.ClientError(answer, "Invoke")


def failed_invocation_is_repeated_unchanged():
    from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

    SLEPT.clear()
    lost = (True, ReadTimeoutError(endpoint_url="x"))
    faulty = Faulty((False, refused("TooManyRequestsException", 429)), lost, (True, refused("ServiceException", 500)))
    lease = client(invoker=faulty).acquire("python/again", ttl_seconds=60)
    assert lease.grant == "replayed" and len(faulty.sent) == 4 and len(set(faulty.sent)) == 1
    assert len(SLEPT) == 3 and all(0 <= seconds <= 2 for seconds in SLEPT)
    faulty = Faulty(lost)
    assert client(invoker=faulty).resume(lease.handle()).release() == "already_released"
    always = Faulty(*[(False, EndpointConnectionError(endpoint_url="x"))] * 9)
    raises(LeaseUnavailable, client(invoker=always, attempts=2).acquire, "python/again", ttl_seconds=60)
    assert len(always.sent) == 2
    always = Faulty(*[(False, refused("TooManyRequestsException", 429))] * 9)
    raises(LeaseThrottled, client(invoker=always).acquire, "python/again", ttl_seconds=60)


def foreign_error_is_sdks_own():
    faulty = Faulty((False, refused("AccessDeniedException", 403)))
    try:
        client(invoker=faulty).acquire("python/denied", ttl_seconds=60)
    except LAMBDA.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "AccessDeniedException" and len(faulty.sent) == 1
    else:
        raise AssertionError("no error")


def lease_does_not_show_secret():
    lease = ME.acquire("python/secret", ttl_seconds=60)
    written = json.dumps(lease.handle())
    secret = json.loads(written)["lease_id"]
    for shown in (repr(lease), str(lease), repr(lease.handle()), repr(vars(lease)), f"{lease.handle()}"):
        assert secret not in shown, shown
    ends(ME.resume(json.loads(written)))


def every_contract_error_has_class():
    with open(os.path.join(os.environ["SCHEMAS"], "error.json"), encoding="utf-8") as file:
        names = [one["const"] for one in json.load(file)["properties"]["errorType"]["oneOf"]]
    assert sorted(names) == sorted(ERRORS)

    def failing(name, message):
        body = json.dumps({"errorType": name, "errorMessage": message}).encode()
        answer = {"FunctionError": "Unhandled", "Payload": None}
        return SimpleNamespace(invoke=lambda **_: {**answer, "Payload": io.BytesIO(body)})

    for name in names:
        kind = getattr(leasehold, name.replace(".", ""))
        message = {"message": f"what {name} says", "key": "k", "field": "f"}
        invoker = failing(name, json.dumps(message))
        error = raises(kind, client(invoker=invoker).acquire, "k", ttl_seconds=60)
        assert (error.name, error.message, error.details) == (name, message["message"], message)
    killed = failing("Sandbox.Timedout", "Task timed out after 10.00 seconds")
    assert "Sandbox.Timedout" in raises(LeaseUnavailable, client(invoker=killed).acquire, "k", ttl_seconds=60).message


def what_each_version_answered_is_understood():
    versions = os.listdir(os.environ["GOLDEN"])
    assert versions
    for version in versions:
        with open(os.path.join(os.environ["GOLDEN"], version, "answers.json"), encoding="utf-8") as file:
            understood = [understand(**invocation) for invocation in json.load(file) if invocation["function"] in NAMES]
        assert {"lease", "leases", "revived", "released", "Lease.Held"} <= set(understood), understood


def understand(function, event, answer=None, error=None, message=None):
    """Gets an answer that was recorded, and returns what it was."""
    response = {"FunctionError": "Unhandled"} if error else {}
    body = {"errorType": error, "errorMessage": json.dumps(message)} if error else answer
    me = client(invoker=SimpleNamespace(invoke=lambda **_: {**response, "Payload": io.BytesIO(json.dumps(body).encode())}))
    if error:
        equal(raises(ERRORS[error], me.call, function, event).details, message)
        return error
    if function == "acquire" and "lease" in answer:
        lease = me.acquire(event["key"], ttl_seconds=60)
        equal((lease.handle(), lease.grant, lease.previous), (answer["lease"], answer["grant"], answer["previous"]))
        return "lease"
    if function == "acquire" and "leases" in answer:
        leases = me.acquire_all(event["keys"], ttl_seconds=60)
        equal([lease.handle() for lease in leases], answer["leases"])
        return "leases"
    if function != "acquire" and "lease" in event:
        lease = me.resume(event["lease"])
        equal(lease.extend() if function == "extend" else lease.release(), answer["outcome"])
        return answer["outcome"]
    equal(me.call(function, event), answer)
    return "another"


def guarded_write_refuses_smaller_token():
    table = boto3.resource("dynamodb", endpoint_url=os.environ["AWS_ENDPOINT_URL_DYNAMODB"], **SETTINGS).Table("orders")

    def write(token, status):
        guard = fence(token)
        table.update_item(
            Key={"pk": "python"},
            UpdateExpression=f"SET {guard.assignment}, #status = :status",
            ConditionExpression=guard.condition,
            ExpressionAttributeNames={**guard.names, "#status": "status"},
            ExpressionAttributeValues={**guard.values, ":status": status},
        )

    write(1795230000125, "first")
    write(1795230000131, "second")
    write(1795230000131, "second again")
    try:
        write(1795230000130, "late")
    except table.meta.client.exceptions.ConditionalCheckFailedException:
        pass
    else:
        raise AssertionError("the late write was accepted")
    item = table.get_item(Key={"pk": "python"})["Item"]
    assert (item["status"], item["fence"]) == ("second again", 1795230000131)
    assert fence(7).typed_values == {":fencing_token": {"N": "7"}}


for scene in (acquire_extend_and_release, a_held_key_names_its_holder,
              waiter_asks_until_free_or_late,
              same_request_gets_same_lease, taken_over_lease_is_lost,
              expired_lease_is_refused_or_revived, a_malformed_request_names_its_field, frozen_key_is_granted_to_nobody,
              permits_are_leases_of_their_own, several_keys_come_all_or_none,
              queued_waiter_gets_lease_by_token, start_begins_or_waits_for_key, start_waits_for_result,
              a_block_releases_however_it_ends,
              block_reports_lost_lease, block_never_begins_after_lease,
              failed_invocation_is_repeated_unchanged,
              foreign_error_is_sdks_own, lease_does_not_show_secret,
              every_contract_error_has_class, what_each_version_answered_is_understood,
              guarded_write_refuses_smaller_token, async_wait_blocks_nobody_keeps_nothing,
              decorated_function_runs_under_lease):
    scene()
    print("ok", scene.__name__)
