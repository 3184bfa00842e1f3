"""JSONata. Gap: moto parses the definitions but ships no evaluator."""

import datetime
import hashlib
import json
import random
import uuid

import jsonata
from jsonata.utils import Utils
from moto.stepfunctions.parser.api import EvaluationFailedEventDetails, HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import StatesErrorNameType
from moto.stepfunctions.parser.asl.component.common.query_language import QueryLanguageMode
from moto.stepfunctions.parser.asl.component.common.string.string_expression import (
    StringJSONata,
    StringVariableSample,
)
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

_HASHES = {"MD5": "md5", "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}

# What the service adds to the language.
_FUNCTIONS = {
    "hash": lambda text, algorithm: hashlib.new(_HASHES[algorithm], text.encode()).hexdigest(),
    "parse": lambda text: _as_jsonata(json.loads(text)),
    "partition": lambda items, size: [items[at : at + size] for at in range(0, len(items), size)],
    "random": lambda seed=None: random.Random(seed).random(),
    "range": lambda first, last, step: list(range(first, last + 1, step)),
    "uuid": lambda: str(uuid.uuid4()),
}


def _as_jsonata(value, exact=False):
    """A copy with the evaluator's types: its null differs from "nothing", and it has no dates.
    Gap: whole numbers are exact here, but every number is a double in the service's JSONata."""
    if value is None:
        return Utils.NULL_VALUE
    if type(value) is int and abs(value) > 2**53 and not exact:
        return int(float(value))
    if isinstance(value, dict):
        return {key: _as_jsonata(member, exact) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_jsonata(member, exact) for member in value]
    if isinstance(value, datetime.datetime):
        utc = value.astimezone(datetime.timezone.utc)
        return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value


def _evaluate(expression, bindings, exact=False):
    """The result, or an exception with the fault of the expression. Variables are bound as values.
    Pasted into the text, as moto does, quotes break them and 200 KB take seconds."""
    compiled = jsonata.Jsonata(expression)
    compiled.output_convert_nulls = False
    for name, function in _FUNCTIONS.items():
        compiled.register_lambda(name, function)
    result = compiled.evaluate(None, {name: _as_jsonata(value, exact) for name, value in bindings.items()})
    if result is None:
        raise ValueError("returned nothing (undefined)")
    result = Utils.convert_nulls(result)
    try:
        return json.loads(json.dumps(result))
    except TypeError:
        raise ValueError("returned an unsupported result type") from None


def _bindings(env, states):
    variables = {**env.variable_store._outer_scope, **env.variable_store._inner_scope}
    return {**variables, "states": env.states._states_data} if states else variables


def _eval_jsonata(self, env):
    """Gap: a type error inside an expression would be States.Runtime. The service raises
    States.QueryEvaluationError, as for an expression without a result, and that can be caught."""
    try:
        env.stack.append(_evaluate(self.expression, _bindings(env, states=True)))
    except Exception as ex:
        name = StatesErrorName(typ=StatesErrorNameType.StatesQueryEvaluationError)
        details = EvaluationFailedEventDetails(
            error=name.error_name, cause=f"The JSONata expression '{self.expression}' {ex}."
        )
        event = EventDetails(evaluationFailedEventDetails=details)
        failure = FailureEventException(
            FailureEvent(env=env, error_name=name, event_type=HistoryEventType.EvaluationFailed, event_details=event)
        )
        env.event_manager.add_event(
            context=env.event_history_context,
            event_type=HistoryEventType.EvaluationFailed,
            event_details=EventDetails(
                evaluationFailedEventDetails=failure.get_evaluation_failed_event_details()
            ),
        )
        raise failure from ex


def _eval_variable(self, env):
    """A path of JSONPath into a variable leaves numbers as they are."""
    states = self.query_language_mode == QueryLanguageMode.JSONata
    env.stack.append(_evaluate(self.expression, _bindings(env, states), exact=not states))


def install():
    StringJSONata._eval_body = _eval_jsonata
    StringVariableSample._eval_body = _eval_variable
