"""Task tokens: the tokens of `.waitForTaskToken` states, and the handling of answers to them.

On the service a token belongs to one attempt of one state. The first answer ends the attempt, even while
the called function still runs. After it, and once the attempt has ended in any other way (its function
failed, it timed out, its execution was stopped, its Parallel aborted it), an answer gets TaskTimedOut.
A text that was never a token gets InvalidToken.
"""

import base64
import json
import secrets
import threading
import types

from moto.core.exceptions import AWSError
from moto.core.responses import EmptyResult
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import ResourceCondition
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (
    StateTaskServiceCallback,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_lambda import (
    StateTaskServiceLambda,
)
from moto.stepfunctions.parser.asl.eval.callback.callback import CallbackOutcomeFailure, CallbackOutcomeSuccess
from moto.stepfunctions.parser.asl.eval.states import TaskData
from moto.stepfunctions.responses import StepFunctionResponse

_lock = threading.Lock()
_open = {}  # token -> its endpoint, while the attempt may still be answered
_closed = set()


class InvalidToken(AWSError):
    TYPE = "InvalidToken"
    STATUS = 400


class TaskTimedOut(AWSError):
    TYPE = "TaskTimedOut"
    STATUS = 400


class InvalidOutput(AWSError):
    TYPE = "InvalidOutput"
    STATUS = 400


def _new_token(machine):
    """Gap: moto's tokens have 36 characters. The service's have several hundred, which tables and logs must handle. The beginning says
    whose it is, because a role may answer the tokens of some machines only."""
    return f"{machine.encode().hex()}/{base64.b64encode(secrets.token_bytes(330)).decode()}"


def _close(token):
    with _lock:
        _open.pop(token, None)
        _closed.add(token)


def _find(token):
    # Under the lock.
    if token in _open:
        return _open[token]
    if token in _closed:
        raise TaskTimedOut("Task Timed Out: 'Provided task does not exist anymore'")
    raise InvalidToken("Invalid Token: 'Invalid token'")


def _answer(token, outcome):
    """Gap: an answered token may be answered again, and a token of an ended execution is unknown."""
    with _lock:
        endpoint = _find(token)
        del _open[token]
        _closed.add(token)
    endpoint.notify(outcome)
    return EmptyResult()


def send_task_success(self):
    """Gap: the output is judged before the token."""
    token, output = self._get_param("taskToken"), self._get_param("output")
    with _lock:
        _find(token)
    try:
        json.loads(output)
    except (TypeError, ValueError):
        raise InvalidOutput(f"Invalid Output: '{output}' is not JSON") from None
    return _answer(token, CallbackOutcomeSuccess(callback_id=token, output=output))


def send_task_failure(self):
    """Gap: the cause is dropped."""
    token = self._get_param("taskToken")
    error, cause = self._get_param("error"), self._get_param("cause")
    return _answer(token, CallbackOutcomeFailure(callback_id=token, error=error, cause=cause))


def send_task_heartbeat(self):
    with _lock:
        _find(self._get_param("taskToken")).notify_heartbeat()
    return EmptyResult()


def _waits(state):
    return state.resource.condition == ResourceCondition.WaitForTaskToken


def _has_token(state):
    """A state that waits for something else may be answered by its token, too."""
    return state.resource.condition and ResourceCondition.WaitForTaskToken in state._supported_integration_patterns


def _token_per_attempt():
    """Gap: all attempts of a Retry have the first attempt's token."""
    evaluate = StateTaskServiceCallback._evaluate_with_timeout

    def evaluate_with_token(self, env):
        if not _has_token(self):
            return evaluate(self, env)
        context = env.states.context_object.context_object_data
        token = _new_token(context["StateMachine"]["Id"])
        endpoint = env.callback_pool_manager.add(token)
        context["Task"] = TaskData(Token=token)
        with _lock:
            _open[token] = endpoint
        try:
            return evaluate(self, env)
        finally:
            _close(token)

    StateTaskServiceCallback._evaluate_with_timeout = evaluate_with_token


def _answer_beats_function():
    """Gap: an answer that comes while the function still runs is read only after the function has returned, and
    is lost if the function then fails."""
    call = StateTaskServiceLambda._eval_service_task

    def eval_service_task(self, env, *arguments, **named):
        if not _waits(self):
            return call(self, env, *arguments, **named)
        endpoint = env.callback_pool_manager.get(env.states.context_object.context_object_data["Task"]["Token"])
        # The function's result after its state was answered is discarded, so it has a stack of its own.
        aside = types.SimpleNamespace(is_mocked_mode=env.is_mocked_mode, stack=[])
        errors, done = [], threading.Event()

        def run():
            try:
                call(self, aside, *arguments, **named)
            except Exception as ex:
                errors.append(ex)
            finally:
                done.set()

        threading.Thread(target=run, daemon=True).start()
        while not done.wait(0.005) and endpoint.get_outcome() is None:
            pass
        if errors and endpoint.get_outcome() is None:
            raise errors[0]
        env.stack.append(aside.stack[-1] if aside.stack else {})

    StateTaskServiceLambda._eval_service_task = eval_service_task


def install():
    _token_per_attempt()
    _answer_beats_function()
    for handler in (send_task_success, send_task_failure, send_task_heartbeat):
        setattr(StepFunctionResponse, handler.__name__, handler)
