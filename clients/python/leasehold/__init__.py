"""Leases of Leasehold from Python: acquire, extend and release by the Lambda functions of the stack, and starts under leases.

Install the package `leasehold`, or copy this directory. It needs Python 3.11 and a Lambda client, boto3.client("lambda"), which
you pass in.

    leases = Leasehold(boto3.client("lambda"), acquire=ARN, extend=ARN, release=ARN, holder="billing")
    with leases.lease("orders/42", ttl_seconds=60) as lease:
        step_one()
        lease.extend()  # between steps; raises LeaseLost if the lease is lost
        step_two()

Nothing runs in the background: no timer extends a lease. If the process dies, its key stays held until the ttl
and the clock margin have passed.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import json
import math
import random
import threading
import time
import uuid
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, AsyncIterator, Callable, Iterator, Mapping, Optional, Sequence, TypedDict, TypeVar, Union

Result = TypeVar("Result")


class LeaseError(Exception):
    """A call failed. `name` is the error's name in the contract; `details` is the error message as a dict."""

    name = "Lease.Error"

    def __init__(self, message: str, details: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details or {})


class LeaseHeld(LeaseError):
    """Another holder holds the key. `details` has holder, expires_at, retry_at, wait_seconds and more.

    Or nobody does, and it is in a cooldown after its last grant: then `details` has opens_at in place of expires_at.
    """

    name = "Lease.Held"


class LeaseConsumed(LeaseError):
    """This request already had its lease, and that lease has ended: a late duplicate. Stop."""

    name = "Lease.Consumed"


class LeaseLost(LeaseError):
    """Your grant has ended. Stop the work, then repair or acquire again; never retry."""

    name = "Lease.Lost"


class LeaseExpired(LeaseError):
    """The lease expired and no one took it, but you required an unexpired one. Handle it as LeaseLost."""

    name = "Lease.Expired"


class LeaseQueueTimeout(LeaseError):
    """The request waited in the queue for its wait_seconds. Give up."""

    name = "Lease.QueueTimeout"


class LeaseSuperseded(LeaseError):
    """A later request or start took this one's place in the queue. Nothing to do: the later one does the work."""

    name = "Lease.Superseded"


class LeaseQueueFull(LeaseError):
    """The queue is full. Come back later."""

    name = "Lease.QueueFull"


class LeaseNotStarted(LeaseError):
    """The start has failed, and its execution will not begin. Mend the cause, then repeat the start."""

    name = "Lease.NotStarted"


class LeaseFrozen(LeaseError):
    """An operator froze the key. Wait for the operator."""

    name = "Lease.Frozen"


class LeaseInvalid(LeaseError):
    """The request is malformed; `details["field"]` names the field."""

    name = "Lease.Invalid"


class LeaseCorrupt(LeaseError):
    """The stored item is not a lease. An operator must look."""

    name = "Lease.Corrupt"


class LeaseDenied(LeaseError):
    """IAM or credentials of the function. An operator must act."""

    name = "Lease.Denied"


class LeaseMisconfigured(LeaseError):
    """No such table, wrong keys, or a bad environment of the function. An operator must act."""

    name = "Lease.Misconfigured"


class LeaseThrottled(LeaseError):
    """The table or Lambda throttled the call and all its retries."""

    name = "Lease.Throttled"


class LeaseUnavailable(LeaseError):
    """The outcome is unknown: the call may have taken effect or not. Repeat the same request to resolve it."""

    name = "Lease.Unavailable"


ERRORS = {error.name: error for error in LeaseError.__subclasses__()}

# What repeating can mend.
_PASSING = (LeaseThrottled, LeaseUnavailable)


class _Secret(str):
    """A text that `repr` hides, also in a log of the dict around it. json.dumps writes it."""

    def __repr__(self) -> str:
        return "<secret>"


@dataclass(frozen=True)
class Fence:
    """The parts of a fenced write. Join `condition` with yours by " AND ", `assignment` by ", "."""

    condition: str
    assignment: str
    names: dict[str, str]
    values: dict[str, int]
    """The values for boto3's Table; `typed_values` are for its low-level client."""

    @property
    def typed_values(self) -> dict[str, dict[str, str]]:
        return {name: {"N": str(value)} for name, value in self.values.items()}


def fence(token: int) -> Fence:
    """Makes UpdateItem refuse a holder whose token is smaller than the largest that the item has seen."""
    return Fence(
        condition="(attribute_not_exists(#fence) OR #fence <= :fencing_token)",
        assignment="#fence = :fencing_token",
        names={"#fence": "fence"},
        values={":fencing_token": int(token)},
    )


class Pool(TypedDict):
    """A limit that many keys share, as `{"name": "imports", "permits": 10}`."""

    name: str
    permits: int


@dataclass(frozen=True)
class Started:
    """What became of a start."""

    outcome: str
    """"started", "queued", "skipped", or of a repeated call "superseded"."""
    execution_arn: str
    """The execution that has begun, or is to begin."""
    held: Optional[dict[str, Any]] = None
    """Who has the key, if somebody else has."""
    by: Optional[str] = None
    """The execution that came later and waited instead, if the outcome is "superseded"."""
    output: Any = None
    """What the execution came to, if the call has waited for it."""


class ExecutionFailed(Exception):
    """An execution that was waited for has failed, was stopped, or has timed out, as its `status` says."""

    def __init__(self, execution_arn: str, status: str, error: Optional[str], cause: Optional[str]) -> None:
        super().__init__(f"{execution_arn} is {status}: {error or 'no error'}: {cause or 'no cause'}")
        self.execution_arn, self.status, self.error, self.cause = execution_arn, status, error, cause


class Lease:
    """A granted lease. Keep its handle secret: it can extend and release the lease."""

    def __init__(self, leases: Leasehold, handle: Mapping[str, Any], grant: Optional[str] = None,
                 previous: Optional[Mapping[str, Any]] = None) -> None:
        self._leases = leases
        self._keep(handle)
        self.grant = grant
        """"new", "replayed", "reentered" or "takeover"; None if it was resumed."""
        self.previous = previous
        """The grant before this one. If its "ended" is not "released", repair what its holder left half done."""

    def _keep(self, handle: Mapping[str, Any]) -> None:
        self._handle = {**handle, "lease_id": _Secret(handle["lease_id"])}
        self.key: str = handle["key"]
        self.holder: str = handle["holder"]
        self.fencing_token = int(handle["fencing_token"])
        self.permit = int(handle.get("permit", 0))
        # An execution lease has neither: it lasts while the execution that holds it runs.
        self.ttl_seconds: Optional[float] = handle.get("ttl_seconds")
        until = handle.get("safe_until")
        self.safe_until = _instant(until) if until else None

    def __repr__(self) -> str:
        until = self.safe_until.isoformat() if self.safe_until else None
        return f"Lease(key={self.key!r}, fencing_token={self.fencing_token}, safe_until={until!r})"

    def handle(self) -> dict[str, Any]:
        """The handle as JSON data, for `Leasehold.resume` in another process. It contains the secret."""
        return dict(self._handle)

    def remaining(self) -> float:
        """Seconds until `safe_until`, by this machine's clock; 0 if it has passed. Stop touching the resource then. Infinite
        for an execution lease."""
        if self.safe_until is None:
            return math.inf
        return max(0.0, self.safe_until.timestamp() - self._leases.clock())

    def extend(self, ttl_seconds: Optional[float] = None, *, require_unexpired: bool = False) -> str:
        """Moves the deadline and confirms that the lease is still held. Returns "extended" or "revived"."""
        event = {"lease": self._handle, "ttl_seconds": ttl_seconds, "require_unexpired": require_unexpired or None}
        answer = self._leases.call("extend", event)
        self._keep(answer["lease"])
        return str(answer["outcome"])

    def release(self, *, strict: bool = False) -> str:
        """Releases the lease. Returns "released", "already_released", "lost", or of a re-entered lease "kept", which ends by the request that
        was granted it. If `strict`, lost raises LeaseLost."""
        return str(self._leases.call("release", {"lease": self._handle, "strict": strict or None})["outcome"])


class Leasehold:
    """Calls the functions of one stack, by their names or ARNs (the stack's outputs AcquireFunctionArn, …).

    A throttled or lost call is repeated unchanged, up to `attempts` times in all, with backoff and full jitter.
    That is safe: an acquire has its request_id, a start its name, and extend and release are idempotent.
    """

    def __init__(self, client: Any, *, acquire: str, extend: str, release: str, holder: str, start: Optional[str] = None,
                 step_functions: Any = None, attempts: int = 4, clock: Callable[[], float] = time.time,
                 sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._step_functions = step_functions
        self._functions = {"acquire": acquire, "extend": extend, "release": release}
        if start is not None:
            self._functions["start"] = start
        self._holder = holder
        self._attempts = attempts
        self.clock = clock
        self._sleep = sleep

    def acquire(self, key: str, *, ttl_seconds: float, holder: Optional[str] = None, request_id: Optional[str] = None,
                permits: Optional[int] = None, metadata: Optional[Mapping[str, str]] = None,
                observed_version: Optional[int] = None, reentrant: bool = False, wait_seconds: float = 0,
                at_least_seconds: Optional[float] = None, context: Any = None) -> Lease:
        """Acquires the lease of a key. Raises LeaseHeld if another holder holds it.

        The key is in a cooldown for `at_least_seconds` after the grant, even if the lease is released before.

        With `wait_seconds` it asks again until then, after pauses with full jitter, each of which is an invocation. In a Lambda
        function pass its `context` too: the wait ends two seconds before the function's time does.
        The same holder and request_id get the same lease, and LeaseConsumed once it has ended. Pass a request_id to
        repeat an acquire that ended with LeaseUnavailable.
        """
        event = self._event(holder, request_id, key=key, ttl_seconds=ttl_seconds, permits=permits, metadata=metadata,
                            observed_version=observed_version, reentrant=reentrant or None,
                            at_least_seconds=at_least_seconds)
        waits = _Waits(self.clock, wait_seconds, context)
        while True:
            try:
                return self._one(event)
            except LeaseHeld as held:
                self._sleep(waits.pause(held))

    async def acquire_async(self, key: str, *, wait_seconds: float = 0, context: Any = None, **arguments: Any) -> Lease:
        """As `acquire`, without blocking the event loop: calls run in threads, pauses in the loop.

        If the task is cancelled, a lease that was granted meanwhile is released.
        """
        event = self._event(arguments.pop("holder", None), arguments.pop("request_id", None), key=key, **arguments)
        waits, loop = _Waits(self.clock, wait_seconds, context), asyncio.get_running_loop()
        while True:
            asked = _Asked(self._one, event)
            try:
                # No task of its own: asyncio.run would cancel it as well.
                return await loop.run_in_executor(None, asked.ask)
            except asyncio.CancelledError:
                asked.give_back()
                raise
            except LeaseHeld as held:
                await asyncio.sleep(waits.pause(held))

    def _one(self, event: Mapping[str, Any]) -> Lease:
        answer = self.call("acquire", event)
        return Lease(self, answer["lease"], answer["grant"], answer["previous"])

    def acquire_all(self, keys: Sequence[str], *, ttl_seconds: float, holder: Optional[str] = None,
                    request_id: Optional[str] = None, metadata: Optional[Mapping[str, str]] = None,
                    reentrant: bool = False, at_least_seconds: Optional[float] = None) -> list[Lease]:
        """Acquires the leases of all keys or of none, in their order. Each is extended and released by itself."""
        answer = self._acquire(holder, request_id, keys=list(keys), ttl_seconds=ttl_seconds, metadata=metadata,
                               reentrant=reentrant or None, at_least_seconds=at_least_seconds)
        pairs = zip(answer["leases"], answer["previous"])
        return [Lease(self, handle, answer["grant"], previous) for handle, previous in pairs]

    def join_queue(self, key: str, *, task_token: str, wait_seconds: float, request_id: str, holder: Optional[str] = None,
                   keep_seconds: Optional[float] = None, if_held: Optional[str] = None, permits: Optional[int] = None,
                   metadata: Optional[Mapping[str, str]] = None, at_least_seconds: Optional[float] = None,
                   pool: Optional[Pool] = None) -> dict[str, Any]:
        """Joins the queue for a task of an execution. The outcome of the response is "acquired" or "queued".

        With `if_held` "latest" only the newest waits: the tasks of those who wait already fail with Lease.Superseded.

        With a `pool` the lease has a permit of it besides the key, and goes to the token once it has both.

        The lease goes to the task token: `resume` it there. It lasts while the holder runs, which is the ARN of the
        execution, and `keep_seconds` longer if that fails.
        """
        return self._acquire(holder, request_id, key=key, keep_seconds=keep_seconds, metadata=metadata,
                             if_held=if_held, permits=permits, task_token=task_token, wait_seconds=wait_seconds,
                             at_least_seconds=at_least_seconds, pool=pool)

    def start(self, key: str, *, state_machine_arn: str, input: Optional[Any] = None, name: Optional[str] = None,
              if_held: Optional[str] = None, wait_seconds: Optional[float] = None, keep_seconds: Optional[float] = None,
              pass_lease: Union[bool, str] = False, metadata: Optional[Mapping[str, str]] = None,
              permits: Optional[int] = None, at_least_seconds: Optional[float] = None,
              pool: Optional[Pool] = None, wait: bool = False) -> Started:
        """Starts an execution as soon as it can have the key: now, or when those before it have ended.

        `if_held` says what to do while somebody else has the key: "wait" (the default); "latest", which supersedes those
        who wait already; "replace", which also stops an execution that was started under the key; "fail" with LeaseHeld; or
        "skip".

        `pass_lease` adds `leasehold` to the input, with
        key and fencing token; "handle" adds the lease too, to release it early.
        With `permits` so many may have the key at once, and the execution gets one of them.
        With a `pool` it takes a permit of that one besides, before it begins.
        The key is in a cooldown for `at_least_seconds` after the execution got it, even if that ends before.
        The same key, machine, name and input start once: pass a name to repeat a start that ended with LeaseUnavailable.
        Raises LeaseNotStarted if the start has failed: Step Functions refuses it, or the key was not free in time.

        With `wait` it returns when the execution has ended, with its `output`, and raises ExecutionFailed if it did not succeed. It asks
        Step Functions, by the client that the constructor got as `step_functions`, at intervals of up to ten seconds.
        """
        if wait and self._step_functions is None:
            raise ValueError('this client cannot wait: pass step_functions, boto3.client("stepfunctions")')
        if "start" not in self._functions:
            raise ValueError("this client starts nothing: pass start, the stack's output StartFunctionArn")
        event = {"key": key, "state_machine_arn": state_machine_arn, "input": input, "name": name or str(uuid.uuid4()),
                 "if_held": if_held, "wait_seconds": wait_seconds, "keep_seconds": keep_seconds,
                 "pass_lease": pass_lease or None, "metadata": metadata, "permits": permits,
                 "at_least_seconds": at_least_seconds, "pool": pool}
        pause = 1.0
        while True:
            answer = self.call("start", event)
            started = Started(answer["outcome"], answer["execution_arn"], answer.get("held"), answer.get("by"))
            if not wait or started.outcome in ("skipped", "superseded"):
                return started
            # One that waits in the queue is asked for again: the same call says whether it has failed meanwhile.
            while started.outcome == "started":
                described = self._step_functions.describe_execution(executionArn=started.execution_arn)
                if described["status"] == "SUCCEEDED":
                    return replace(started, output=json.loads(described["output"]))
                if described["status"] not in ("RUNNING", "PENDING_REDRIVE"):
                    raise ExecutionFailed(started.execution_arn, described["status"], described.get("error"), described.get("cause"))
                self._sleep(pause)
                pause = min(10.0, 1.5 * pause)
            self._sleep(pause)
            pause = min(10.0, 1.5 * pause)

    def resume(self, handle: Mapping[str, Any]) -> Lease:
        """The lease of a handle that another process acquired. Calls no function."""
        return Lease(self, handle)

    @contextmanager
    def lease(self, key: str, **arguments: Any) -> Iterator[Lease]:
        """Acquires the lease, and releases it at the end of the block. An error of the block reaches the caller.

        If the block succeeds but another holder was granted the key meanwhile, it raises LeaseLost.
        """
        lease = self.acquire(key, **arguments)
        try:
            if lease.remaining() == 0:  # The response took a whole ttl: revive the lease, or fail if it is lost.
                lease.extend()
            yield lease
        except BaseException:
            _try_to_release(lease)
            raise
        lease.release(strict=True)

    @asynccontextmanager
    async def lease_async(self, key: str, **arguments: Any) -> AsyncIterator[Lease]:
        """As `lease`, for `async with`. `extend` in it by `await asyncio.to_thread(lease.extend)`."""
        lease, loop = await self.acquire_async(key, **arguments), asyncio.get_running_loop()
        try:
            if lease.remaining() == 0:
                await asyncio.to_thread(lease.extend)
            yield lease
        except BaseException as error:
            released = loop.run_in_executor(None, _try_to_release, lease)
            # If the task is cancelled, the release goes on without it.
            if not isinstance(error, (asyncio.CancelledError, GeneratorExit)):
                await asyncio.shield(released)
            raise
        await asyncio.shield(loop.run_in_executor(None, functools.partial(lease.release, strict=True)))

    def leased(self, key: Union[str, Callable[..., str]], **arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorates a function, also an async one: each call runs under a lease of the key.

        `key` is a text, or a function that returns it for the call's arguments. The decorated function receives the lease if it
        has a parameter `lease`. The other arguments are those of `acquire`.
        """
        def decorate(work: Callable[..., Any]) -> Callable[..., Any]:
            if inspect.isgeneratorfunction(work) or inspect.isasyncgenfunction(work):
                raise TypeError("leased: a generator would work after its lease: take the lease in it")
            wants = "lease" in inspect.signature(work).parameters

            def given(lease: Lease) -> dict[str, Any]:
                return {"lease": lease} if wants else {}

            def name(*args: Any, **kwargs: Any) -> str:
                return key(*args, **kwargs) if callable(key) else key

            if inspect.iscoroutinefunction(work):
                @functools.wraps(work)
                async def run_async(*args: Any, **kwargs: Any) -> Any:
                    async with self.lease_async(name(*args, **kwargs), **arguments) as lease:
                        return await work(*args, **kwargs, **given(lease))
                return run_async

            @functools.wraps(work)
            def run(*args: Any, **kwargs: Any) -> Any:
                with self.lease(name(*args, **kwargs), **arguments) as lease:
                    return work(*args, **kwargs, **given(lease))
            return run
        return decorate

    def with_lease(self, context: Any, key: str, work: Callable[[Lease], Result], *, wait_seconds: float,
                   permits: Optional[int] = None, at_least_seconds: Optional[float] = None,
                   metadata: Optional[Mapping[str, str]] = None, latest: bool = False, name: str = "lease",
                   pool: Optional[Pool] = None) -> Result:
        """In a durable function of Lambda: waits for the lease, calls `work` with it, releases it, and returns the work's result.

        `context` is the DurableContext of the SDK, aws-durable-execution-sdk-python, version 2 or later. `work` does its steps and
        waits with it too. No compute is paid for while the function waits, for the key or in `work`. Each replay calls `work`
        again, with the same lease, and a late one after the release: what needs the lease belongs into steps.

        The lease belongs to the durable execution and lasts until it is released or the execution has ended, however that ends.
        With a `pool` it takes a permit of that one besides, after its key.
        `name` is what the operations are called in the execution's history. With `latest` only the newest waits: those who wait
        already get LeaseSuperseded.

        Raises what acquire refuses, and LeaseQueueTimeout after `wait_seconds`. If all attempts to ask were throttled or lost, it
        waits all the same, and up to ten minutes longer: one of them may have joined the queue.

        An error of `work` reaches the caller. LeaseLost after `work` says that the lease was taken away meanwhile, or, rarely, that
        the response of the release was lost and others had the key since. A release that fails is only seen in the history.

        Not re-entrant: in `work`, a lease of the same key waits for the one that the execution has.
        """
        # Nobody else needs the SDK. Older ones lack CallbackExternalError, and end here.
        from aws_durable_execution_sdk_python import (  # type: ignore[import-not-found,unused-ignore]
            CallbackExternalError, CallbackTimeoutError, ExecutionError, InvocationError, StepError)
        from aws_durable_execution_sdk_python.config import (  # type: ignore[import-not-found,unused-ignore]
            CallbackConfig, Duration, StepConfig)
        from aws_durable_execution_sdk_python.retries import (  # type: ignore[import-not-found,unused-ignore]
            RetryStrategyConfig, create_retry_strategy)

        # As the SDK's default, but only for what repeating can mend.
        repeated = StepConfig(create_retry_strategy(RetryStrategyConfig(
            max_attempts=6, max_delay=Duration.from_minutes(1), retryable_error_types=list(_PASSING))))
        holder = _execution_arn(context.execution_context.durable_execution_arn)

        # No wait_for_callback: a step that fails would end its wait.
        timeout = Duration.from_seconds(math.ceil(wait_seconds) + _ANSWER_SECONDS)
        callback = context.create_callback(name, CallbackConfig(timeout=timeout))
        # A repeated step has the same callback, so it is the same request and keeps its place in the queue. The callback's id lets
        # everybody who may answer callbacks answer this one: a request id may be logged, so it is only a digest.
        request_id = hashlib.sha256(callback.callback_id.encode()).hexdigest()

        def ask(_: Any) -> None:
            try:
                self._acquire(holder, request_id, key=key, callback_id=callback.callback_id, wait_seconds=wait_seconds,
                              permits=permits, at_least_seconds=at_least_seconds, metadata=metadata,
                              if_held="latest" if latest else None, pool=pool)
            except LeaseError as error:
                # Of a step's error the SDK keeps only the text.
                raise type(error)(_payload(error)) from error

        try:
            context.step(ask, f"{name} acquire", repeated)
        except StepError as failed:
            error = _payload_error(failed.message)
            if error is None:  # No matter of leases, as a missing permission.
                raise
            if not isinstance(error, _PASSING):
                raise error from failed
            # An attempt may have taken effect, also if the last was throttled: then the callback is answered all the same.
        try:
            granted = callback.result()
        except CallbackExternalError as failed:
            error = _payload_error(failed.data)
            if error is None:  # Not the stack's answer.
                raise
            raise error from failed
        except CallbackTimeoutError as failed:
            # The request did not arrive, or the queue's own answer was lost. It is too late for any other, so there is nothing to
            # repeat.
            late = f"{key}: no answer came within {wait_seconds} seconds, nor soon after"
            raise LeaseQueueTimeout(late, {"key": key}) from failed
        answer = json.loads(granted)
        lease = Lease(self, answer["lease"], answer["grant"], answer["previous"])

        def release() -> Optional[str]:
            try:
                return str(context.step(lambda _: lease.release(), f"{name} release", repeated))
            except StepError:  # What the work did matters more. Sweep's look ends the lease after the execution.
                return None

        try:
            result = work(lease)
        except (ExecutionError, InvocationError):  # The SDK's own: it ends the execution, or repeats this invocation.
            raise
        except Exception:  # Not BaseException, by which the SDK suspends the function.
            release()
            raise
        if release() == "lost":
            raise LeaseLost(f"{key}: the lease was taken away, or its release had no answer and others had the key since", {"key": key})
        return result

    def _event(self, holder: Optional[str], request_id: Optional[str], **fields: Any) -> dict[str, Any]:
        return {"holder": holder or self._holder, "request_id": request_id or str(uuid.uuid4()), **fields}

    def _acquire(self, holder: Optional[str], request_id: Optional[str], **fields: Any) -> dict[str, Any]:
        return self.call("acquire", self._event(holder, request_id, **fields))

    def call(self, function: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """Invokes a function with the fields of the event that are not None."""
        payload = json.dumps({name: value for name, value in event.items() if value is not None}).encode()
        for attempt in range(1, self._attempts):
            try:
                return self._invoke(function, payload)
            except _PASSING:
                self._sleep(random.uniform(0, min(2.0, 0.1 * 2**attempt)))
        return self._invoke(function, payload)

    def _invoke(self, function: str, payload: bytes) -> dict[str, Any]:
        try:
            response = self._client.invoke(FunctionName=self._functions[function], Payload=payload)
            body = response["Payload"].read()
        except Exception as error:
            kind = _transport_error(error)
            if kind is None:
                raise
            raise kind(f"{function}: {error}") from error
        answer: dict[str, Any] = json.loads(body)
        if "FunctionError" in response:
            raise _function_error(answer)
        return answer


class _Waits:
    """The pauses of one acquire that waits."""

    FIRST, LONGEST, RESERVE = 0.5, 10.0, 2.0

    def __init__(self, clock: Callable[[], float], seconds: float, context: Any) -> None:
        self._clock, self._longest = clock, self.FIRST
        if context is not None:
            seconds = min(seconds, context.get_remaining_time_in_millis() / 1000 - self.RESERVE)
        self._until = clock() + seconds

    def pause(self, held: LeaseHeld) -> float:
        """How long to pause before the next attempt; raises `held` if there is no time for one."""
        now = self._clock()
        left = self._until - now
        if left <= 0:
            raise held
        pause = random.uniform(0, self._longest)
        self._longest = min(self.LONGEST, 2 * self._longest)
        retry_at = held.details.get("retry_at")
        expires = _instant(retry_at).timestamp() - now if retry_at else 0
        if expires > 0:
            # From then on the lease may be taken over, by the first that asks.
            pause = min(pause, expires + random.uniform(0, self.FIRST))
        return min(pause, left)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _try_to_release(lease: Lease) -> None:
    try:
        lease.release()
    except Exception:  # The block's own error matters more. The lease ends with its ttl.
        pass


class _Asked:
    """One attempt in a thread, whose lease may be released while it is under way."""

    def __init__(self, one: Callable[[Mapping[str, Any]], Lease], event: Mapping[str, Any]) -> None:
        self._one, self._event, self._lock = one, event, threading.Lock()
        self._lease: Optional[Lease] = None
        self._unwanted = False

    def ask(self) -> Lease:
        lease = self._one(self._event)
        with self._lock:
            self._lease = lease
            unwanted = self._unwanted
        if unwanted:
            _try_to_release(lease)
        return lease

    def give_back(self) -> None:
        with self._lock:
            self._unwanted = True
            lease = self._lease
        if lease is not None:
            threading.Thread(target=_try_to_release, args=(lease,)).start()


# How much later than the queue the callback of a durable function gives up. The request may come 375 seconds late: six attempts of
# four invocations, each of which acquire ends after ten seconds, and pauses of 135 in all. Sweep answers for the queue once a minute.
_ANSWER_SECONDS = 600


def _execution_arn(execution: str) -> str:
    """The ARN of a durable execution. AWS's local runner gives "NAME/ID", which acquire would refuse: so that tests with it work
    against a local stack, these get an ARN, whose account and function do not exist."""
    if execution.startswith("arn:"):
        return execution
    return f"arn:aws:lambda:us-east-1:123456789012:function:local:$LATEST/durable-execution/{execution}"


def _payload(error: LeaseError) -> str:
    """The error as a failed function would write it."""
    return json.dumps({"errorType": error.name, "errorMessage": json.dumps({**error.details, "message": error.message})})


def _payload_error(text: Optional[str]) -> Optional[LeaseError]:
    """The error of such a payload; None for any other text."""
    try:
        payload = json.loads(text or "")
    except ValueError:
        return None
    known = isinstance(payload, dict) and payload.get("errorType") in ERRORS
    return _function_error(payload) if known else None


def _function_error(answer: Mapping[str, Any]) -> LeaseError:
    name, text = answer.get("errorType"), answer.get("errorMessage") or ""
    if name not in ERRORS:
        # No error of the contract: the function was killed, or ran out of time or memory, perhaps after its write.
        return LeaseUnavailable(f"{name}: {text}; the outcome is unknown: repeat the same request")
    details = json.loads(text)
    return ERRORS[name](details["message"], details)


def _transport_error(error: Exception) -> Optional[type[LeaseError]]:
    """The error for an invocation that was throttled or lost. None for any other error, which the caller receives."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return LeaseThrottled if status == 429 else LeaseUnavailable if status >= 500 else None
    # botocore's errors, recognised by name so that this file needs no import, and the standard library's.
    lost = {"HTTPClientError", "ConnectionError", "IncompleteReadError", "TimeoutError"}
    return LeaseUnavailable if lost & {kind.__name__ for kind in type(error).__mro__} else None
