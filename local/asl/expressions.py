"""JSONata. Gap: moto parses the definitions but ships no evaluator."""

import datetime
import hashlib
import json
import random
import threading
import uuid

import jsonata
from jsonata.jexception import JException
from jsonata.utils import Utils
from moto.stepfunctions.parser.api import EvaluationFailedEventDetails, HistoryEventType
from moto.stepfunctions.parser.asl.component.common.assign.assign_template_binding import AssignTemplateBinding
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import StatesErrorNameType
from moto.stepfunctions.parser.asl.component.common.jsonata.jsonata_template_binding import JSONataTemplateBinding
from moto.stepfunctions.parser.asl.component.common.query_language import QueryLanguageMode
from moto.stepfunctions.parser.asl.component.common.string.string_expression import (
    StringJSONata,
    StringVariableSample,
)
from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventManager

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

# The fields with expressions, by the parser's name of each.
_FIELDS = {
    "ArgumentsJSONataTemplateValueObject": "Arguments",
    "ArgumentsStringJSONata": "Arguments",
    "AssignDecl": "Assign",
    "Cause": "Cause",
    "ConditionStringJSONata": "Condition",
    "Error": "Error",
    "HeartbeatSecondsJSONata": "HeartbeatSeconds",
    "ItemSelector": "ItemSelector",
    "ItemsArray": "Items",
    "ItemsJSONata": "Items",
    "MaxConcurrencyJSONata": "MaxConcurrency",
    "Output": "Output",
    "RoleArn": "Credentials/RoleArn",
    "SecondsJSONata": "Seconds",
    "TimeoutSecondsJSONata": "TimeoutSeconds",
    "Timestamp": "Timestamp",
    "ToleratedFailureCountStringJSONata": "ToleratedFailureCount",
    "ToleratedFailurePercentageStringJSONata": "ToleratedFailurePercentage",
}
_place = threading.local()


class _Written(dict):
    """Details of a failure whose event is in the history already."""


class _Context(dict):
    """The context object outside of ItemSelector. An expression that reads Map there, which the service does not promise, would
    get nothing, and make an empty text of it."""

    def get(self, name, default=None):
        if name == "Map" and name not in self:
            raise ValueError("reads Map of the context object, which only ItemSelector has")
        return super().get(name, default)


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
    bindings = {name: _as_jsonata(value, exact) for name, value in bindings.items()}
    if "states" in bindings:
        bindings["states"]["context"] = _Context(bindings["states"]["context"])
    try:
        result = compiled.evaluate(None, bindings)
    except JException as ex:
        raise ValueError(f"threw an error during evaluation. {ex.error}: {ex}") from ex
    if result is None:
        raise ValueError("returned nothing (undefined).")
    result = Utils.convert_nulls(result)
    try:
        return json.loads(json.dumps(result))
    except TypeError:
        raise ValueError("returned an unsupported result type.") from None


def _bindings(env, states):
    variables = {**env.variable_store._outer_scope, **env.variable_store._inner_scope}
    return {**variables, "states": env.states._states_data} if states else variables


def _remember_place(evaluate):
    """Gap: the place of a failing expression is not known. An evaluation stays in its thread."""

    def eval_at_place(self, env):
        bound = isinstance(self, (AssignTemplateBinding, JSONataTemplateBinding))
        name = self.identifier if bound else _FIELDS.get(type(self).__name__)
        if name is None:
            return evaluate(self, env)
        path = getattr(_place, "path", ())
        _place.path = (*path, name)
        try:
            return evaluate(self, env)
        finally:
            _place.path = path

    return eval_at_place


def failed(env, cause, location):
    """The failure of an expression, or of its result, with its event."""
    name = StatesErrorName(typ=StatesErrorNameType.StatesQueryEvaluationError)
    details = EvaluationFailedEventDetails(error=name.error_name, cause=cause, location=location)
    failure = FailureEventException(
        FailureEvent(
            env=env,
            error_name=name,
            event_type=HistoryEventType.EvaluationFailed,
            event_details=_Written(evaluationFailedEventDetails=details),
        )
    )
    env.event_manager.add_event(
        context=env.event_history_context,
        event_type=HistoryEventType.EvaluationFailed,
        event_details=EventDetails(evaluationFailedEventDetails=failure.get_evaluation_failed_event_details()),
    )
    return failure


def _write_once(add_event):
    """Gap: a state with a Catch writes the event of a failing expression once more."""

    def add_unwritten(self, *arguments, **named):
        if isinstance(named.get("event_details"), _Written):
            return -1
        return add_event(self, *arguments, **named)

    return add_unwritten


def _eval_jsonata(self, env):
    """Gap: a type error inside an expression would be States.Runtime. The service raises
    States.QueryEvaluationError, as for an expression without a result, and that can be caught."""
    try:
        env.stack.append(_evaluate(self.expression, _bindings(env, states=True)))
    except Exception as ex:
        location = "/".join(getattr(_place, "path", ())) or None
        where = f" specified for the field '{location}'" if location else ""
        raise failed(env, f"The JSONata expression '{self.expression}'{where} {ex}", location) from ex


def _eval_variable(self, env):
    """A path of JSONPath into a variable leaves numbers as they are."""
    states = self.query_language_mode == QueryLanguageMode.JSONata
    env.stack.append(_evaluate(self.expression, _bindings(env, states), exact=not states))


def install():
    EvalComponent.eval = _remember_place(EvalComponent.eval)
    EventManager.add_event = _write_once(EventManager.add_event)
    StringJSONata._eval_body = _eval_jsonata
    StringVariableSample._eval_body = _eval_variable
