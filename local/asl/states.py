"""The behaviour of states: stopping, waiting, errors and their names."""

import copy
import datetime
import threading
import time

from moto.stepfunctions.parser.api import ExecutionFailedEventDetails, HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import ErrorEqualsDecl
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import StatesErrorNameType
from moto.stepfunctions.parser.asl.component.state import state as state_module
from moto.stepfunctions.parser.asl.component.state.choice.state_choice import StateChoice
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
from moto.stepfunctions.parser.asl.component.state.exec.state_map.state_map import StateMap
from moto.stepfunctions.parser.asl.component.state.exec.state_parallel.state_parallel import StateParallel
from moto.stepfunctions.parser.asl.component.state.wait.wait_function import timestamp
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventManager
from moto.stepfunctions.parser.asl.eval.program_state import ProgramStopped, ProgramTimedOut

_LAST_EVENTS = {"ExecutionSucceeded", "ExecutionFailed", "ExecutionAborted", "ExecutionTimedOut"}


class _Ended(BaseException):
    """The execution or branch ended during a running state. Not an Exception, because no definition may catch it."""


def _end_at_once():
    """Gap: a stopped or timed-out execution lingers until its running state (a slow Lambda, a task
    token, a retry's back-off) returns, and then its late error replaces the real end. Here the
    state is abandoned, as on the service. Its thread, like its Lambda, may go on without effect."""

    def interruptible(evaluate):
        def interrupted(self, env, *args, **kwargs):
            results, errors, done = [], [], threading.Event()

            def run():
                try:
                    results.append(evaluate(self, env, *args, **kwargs))
                except BaseException as ex:
                    errors.append(ex)
                finally:
                    done.set()

            threading.Thread(target=run, daemon=True).start()
            while not done.wait(0.02):
                if not env.is_running():
                    raise _Ended
            if errors:
                raise errors[0]
            return results[0]

        return interrupted

    def left_behind(evaluate):
        def eval_state(self, env):
            try:
                evaluate(self, env)
            except _Ended:
                env.stack.append(None)

        return eval_state

    set_error, add_event = Environment.set_error, EventManager.add_event

    def set_error_unless_ended(self, error):
        if not isinstance(self._program_state, (ProgramStopped, ProgramTimedOut)):
            set_error(self, error=error)

    def add_event_unless_over(self, *args, **kwargs):
        if getattr(self, "over", False):
            return -1
        kind = kwargs.get("event_type")
        self.over = str(getattr(kind, "value", kind)) in _LAST_EVENTS
        return add_event(self, *args, **kwargs)

    for kind in (ExecutionState, StateParallel, StateMap):
        kind._eval_state = left_behind(kind._eval_state)
    ExecutionState._evaluate_with_timeout = interruptible(ExecutionState._evaluate_with_timeout)
    ExecutionState._handle_retry = interruptible(ExecutionState._handle_retry)
    Environment.set_error = set_error_unless_ended
    EventManager.add_event = add_event_unless_over


def _wait_exactly():
    """Gap: waits count in whole seconds, so a Timestamp resumes up to one second early (and in
    the local time zone), and a fraction of a second never ends."""

    def interval(self, env, wait_seconds):
        until = time.monotonic() + wait_seconds
        while env.is_running() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.02))

    def parse(text):
        if not timestamp.Timestamp._is_valid_timestamp_pattern(text):
            return None
        try:
            whole, _, fraction = text[:-1].partition(".")
            instant = datetime.datetime.strptime(whole + "Z", timestamp.TIMESTAMP_FORMAT)
            return instant + datetime.timedelta(seconds=float("0." + (fraction or "0")))
        except ValueError:
            return None

    def seconds(self, env):
        self.string.eval(env=env)
        text = env.stack.pop()
        instant = parse(text)
        if instant is None:
            raise FailureEventException(self._create_failure_event(env, text))
        now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
        return max(0.0, (instant - now).total_seconds())

    WaitFunction._wait_interval = interval
    timestamp.Timestamp._from_timestamp_string = staticmethod(parse)
    timestamp.Timestamp._get_wait_seconds = seconds


def _errors_as_on_the_service():
    """Gaps: States.ALL catches States.Runtime and States.DataLimitExceeded; a States.* error that leaves a Parallel branch, or that a Fail state
    names, is refused and cannot be caught; a Choice without a match is States.Runtime; an error in
    a Task's Output ends the execution instead of going to its Retry and Catch."""
    not_all = {StatesErrorNameType.StatesRuntime.to_name(), "States.DataLimitExceeded"}
    choose, matches, evaluate = StateChoice._eval_state, ErrorEqualsDecl._eval_body, ExecutionState._evaluate_with_timeout

    def error_equals(self, env):
        name = env.stack[-1].error_name
        if name in not_all:
            env.stack.pop()
            env.stack.append(any(name == listed.error_name for listed in self.error_names))
        else:
            matches(self, env)

    def choice(self, env):
        try:
            choose(self, env)
        except RuntimeError as ex:
            if not str(ex).startswith("No branching option"):
                raise
            kind = StatesErrorNameType.StatesNoChoiceMatched
            details = ExecutionFailedEventDetails(
                error=kind.to_name(), cause=f"No choice rule of state '{self.name}' matched."
            )
            raise FailureEventException(
                FailureEvent(
                    env=env,
                    error_name=StatesErrorName(typ=kind),
                    event_type=HistoryEventType.ExecutionFailed,
                    event_details=EventDetails(executionFailedEventDetails=details),
                )
            ) from ex

    def evaluate_then_try_output(self, env):
        evaluate(self, env)
        if self.output:
            before, depth = copy.copy(env.states._states_data), len(env.stack)
            self.output.eval(env)
            env.states._states_data.update(before)
            del env.stack[depth:]

    ErrorEqualsDecl._eval_body = error_equals
    CustomErrorName.__init__ = lambda self, error_name: ErrorName.__init__(self, error_name=error_name)
    StateChoice._eval_state = choice
    ExecutionState._evaluate_with_timeout = evaluate_then_try_output


def _entered_time_in_milliseconds():
    """Gap: $$.State.EnteredTime is spelled 2026-11-21T03:00:00.123456+00:00; on the service …123Z."""

    def state_data(EnteredTime, **members):
        instant = datetime.datetime.fromisoformat(EnteredTime).isoformat(timespec="milliseconds")
        return {"EnteredTime": instant.replace("+00:00", "Z"), **members}

    state_module.StateData = state_data


def install():
    _errors_as_on_the_service()
    _end_at_once()
    _wait_exactly()
    _entered_time_in_milliseconds()
