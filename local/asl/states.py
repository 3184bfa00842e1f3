"""The behaviour of states: stopping, waiting, errors and their names."""

import copy
import datetime
import threading
import time

import expressions
from moto.stepfunctions.parser.api import ExecutionFailedEventDetails, HistoryEventType, MapIterationEventDetails
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import ErrorEqualsDecl
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import StatesErrorNameType
from moto.stepfunctions.parser.asl.component.common.string.string_expression import StringJSONata
from moto.stepfunctions.parser.asl.component.state import state as state_module
from moto.stepfunctions.parser.asl.component.state.choice.state_choice import StateChoice
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.inline_iteration_component import InlineIterationComponent
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.itemprocessor.inline_item_processor_worker import (
    InlineItemProcessorWorker,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.iteration_worker import IterationWorker
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.iterator.inline_iterator_worker import InlineIteratorWorker
from moto.stepfunctions.parser.asl.component.state.exec.state_map.state_map import StateMap
from moto.stepfunctions.parser.asl.component.state.exec.state_parallel.branch_worker import BranchWorker
from moto.stepfunctions.parser.asl.component.state.exec.state_parallel.state_parallel import StateParallel
from moto.stepfunctions.parser.asl.component.state.exec.state_task.state_task import StateTask
from moto.stepfunctions.parser.asl.component.state.wait.state_wait import StateWait
from moto.stepfunctions.parser.asl.component.state.wait.wait_function import timestamp
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventHistoryContext, EventManager
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
        if getattr(self, "over", False) or getattr(kwargs["context"], "muted", False):
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
        instant = parse(text) if isinstance(text, str) else None
        if instant is None and isinstance(self.string, StringJSONata):
            cause = f"The Timestamp field cannot be parsed as an ISO-8601 extended offset date-time format string: {text}"
            raise expressions.failed(env, cause, "Timestamp")
        if instant is None:
            raise FailureEventException(self._create_failure_event(env, text))
        now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
        return max(0.0, (instant - now).total_seconds())

    WaitFunction._wait_interval = interval
    timestamp.Timestamp._from_timestamp_string = staticmethod(parse)
    timestamp.Timestamp._get_wait_seconds = seconds


def _errors_as_on_the_service():
    """Gaps: States.ALL catches States.Runtime, and the States.DataLimitExceeded of a state that is no Task; a States.* error that
    leaves a Parallel branch, or that a Fail state names, is refused and cannot be caught; a Choice without a match is
    States.Runtime; an error in a Task's Output ends the execution instead of going to its Retry and Catch; an error or a cause
    that was not given is an empty text, but only a time-out has an empty cause."""
    choose, matches, evaluate = StateChoice._eval_state, ErrorEqualsDecl._eval_body, ExecutionState._evaluate_with_timeout

    def error_equals(self, env):
        error = env.stack[-1]
        name = error and error.error_name
        # A Task's own is a name of the interpreter; what leaves a branch or an item is a text.
        is_large = name == "States.DataLimitExceeded" and not isinstance(error, StatesErrorName)
        if name == StatesErrorNameType.StatesRuntime.to_name() or is_large:
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

    def error_output(failure_event):
        [given] = failure_event.event_details.values()
        is_late = given.get("error") == StatesErrorNameType.StatesTimeout.to_name()
        return {"Error": given.get("error"), "Cause": given.get("cause", "" if is_late else None)}

    ErrorEqualsDecl._eval_body = error_equals
    ExecutionState._construct_error_output_value = staticmethod(error_output)
    CustomErrorName.__init__ = lambda self, error_name: ErrorName.__init__(self, error_name=error_name)
    StateChoice._eval_state = choice
    ExecutionState._evaluate_with_timeout = evaluate_then_try_output


def _entered_time_in_milliseconds():
    """Gap: $$.State.EnteredTime is spelled 2026-11-21T03:00:00.123456+00:00; on the service …123Z."""

    def state_data(EnteredTime, **members):
        instant = datetime.datetime.fromisoformat(EnteredTime).isoformat(timespec="milliseconds")
        return {"EnteredTime": instant.replace("+00:00", "Z"), **members}

    state_module.StateData = state_data


def _items_are_selected():
    """Gap: some states of an item have the item's data in their context and some have not. It is documented for ItemSelector, and
    here nothing else has it."""

    def selecting(select):
        def eval_input(self, env_frame):
            select(self, env_frame)
            env_frame.states.context_object.context_object_data.pop("Map")

        return eval_input

    for kind in (InlineItemProcessorWorker, InlineIteratorWorker):
        kind._eval_input = selecting(kind._eval_input)


def _abort_the_others():
    """Gap: what a failing branch or item aborts has no event, and may write later ones."""
    kinds = {
        StateTask: HistoryEventType.TaskStateAborted,
        StateWait: HistoryEventType.WaitStateAborted,
        StateParallel: HistoryEventType.ParallelStateAborted,
        StateMap: HistoryEventType.MapStateAborted,
    }
    stop, iterate, evaluate = BranchWorker.stop, InlineIterationComponent._eval_body, IterationWorker._eval_job

    def write(env, kind, details=None):
        events = env.event_manager
        # All of them follow the event of the failure.
        last = next(event for event in reversed(events.get_event_history()) if not event["type"].endswith("Aborted"))
        events.add_event(context=EventHistoryContext(last["id"]), event_type=kind, event_details=details)

    def abort(env):
        for frame in list(env._frames):
            abort(frame)
        state = getattr(env, "at", None)
        env.at = None
        env.event_history_context.muted = True
        for kind, event in kinds.items():
            if isinstance(state, kind):
                write(env, event)

    def stop_branch(self, *arguments, **named):
        abort(self.env)
        stop(self, *arguments, **named)

    def iterate_inline(self, env):
        env.map_items = []
        try:
            iterate(self, env)
        except Exception:
            for job, item in env.map_items:
                if not isinstance(job.job_output, Exception):
                    details = MapIterationEventDetails(name=job.map_name, index=job.job_index)
                    write(env, HistoryEventType.MapIterationAborted, EventDetails(mapIterationAbortedEventDetails=details))
                abort(item)
            raise

    def evaluate_item(self, env, job):
        job.map_name, begun = self._work_name, (job, env)
        self._env.map_items.append(begun)
        evaluate(self, env, job)
        if not isinstance(job.job_output, Exception):
            self._env.map_items.remove(begun)

    BranchWorker.stop = stop_branch
    InlineIterationComponent._eval_body = iterate_inline
    IterationWorker._eval_job = evaluate_item


def install():
    _errors_as_on_the_service()
    _end_at_once()
    _wait_exactly()
    _entered_time_in_milliseconds()
    _items_are_selected()
    _abort_the_others()
