"""The service's API, where moto's answers differ from it."""

import datetime
import json
import re
import threading
import time
import uuid

import executions
from moto.core.exceptions import AWSError
from moto.core.responses import ActionResult
from moto.stepfunctions.parser import api
from moto.stepfunctions.parser.api import InvalidDefinition, InvalidExecutionInput, StateMachineAlreadyExists
from moto.stepfunctions.parser.asl.antlr.runtime.ASLParser import ASLParser
from moto.stepfunctions.parser.asl.parse import preprocessor
from moto.stepfunctions.parser.asl.parse.preprocessor import Preprocessor
from moto.stepfunctions.parser.asl.utils.encoding import to_json_str
from moto.stepfunctions.parser.models import StepFunctionsParserBackend
from moto.stepfunctions.responses import StepFunctionResponse

_TREES = 32
# A longer list of what the parser expects says nothing.
_EXPECTED = 10


class DefinitionRefused(AWSError):
    """Gap: the error has no name."""

    TYPE = "InvalidDefinition"
    STATUS = 400


class ExecutionNotRedrivable(AWSError):
    TYPE = "ExecutionNotRedrivable"
    STATUS = 400


def _now():
    return datetime.datetime.now(tz=datetime.timezone.utc)


def _start(self):
    """Gap: any name is accepted for an execution."""
    name = self._get_param("name") or str(uuid.uuid4())
    self.stepfunction_backend._validate_name(name)
    given = self._get_param("input", if_none="{}")
    try:
        json.loads(given)
    except ValueError as ex:
        raise InvalidExecutionInput(f"Invalid State Machine Execution Input: '{ex}'") from None
    return self.stepfunction_backend.start_execution(self._get_param("stateMachineArn"), name, given)


def _find(self):
    return self.stepfunction_backend.describe_execution(self._get_param("executionArn"))


def _described(execution):
    """Gap: an output that is not a string, error and cause of every end, the redrive fields."""
    fields = {
        "executionArn": execution.execution_arn,
        "stateMachineArn": execution.state_machine_arn,
        "name": execution.name,
        "status": execution.status,
        "startDate": execution.start_date,
        "stopDate": execution.stop_date if execution.status != "RUNNING" else None,
        "input": execution.execution_input,
        "inputDetails": {"included": True},
        "error": execution.error,
        "cause": execution.cause,
    }
    if execution.status == "SUCCEEDED":
        fields["output"] = to_json_str(execution.output, separators=(",", ":"))
        fields["outputDetails"] = {"included": True}
    return fields


def _answer(fields):
    return ActionResult({name: value for name, value in fields.items() if value is not None})


def start_execution(self):
    """Gap: an execution without a name must get one."""
    execution = _start(self)
    return _answer({"executionArn": execution.execution_arn, "startDate": execution.start_date})


def start_sync_execution(self):
    """Gap: not served."""
    execution = _start(self)
    while execution.status == "RUNNING":
        time.sleep(0.02)
    return _answer(_described(execution))


def describe_execution(self):
    execution = _find(self)
    return _answer(_described(execution) | executions.redrive_fields(execution))


def stop_execution(self):
    """Gap: error and cause are dropped, and an execution that has ended may be marked as stopped."""
    execution, when = _find(self), _now()
    if execution.status == "RUNNING":
        error, cause = self._get_param("error"), self._get_param("cause")
        execution.error, execution.cause = error, cause
        execution.stop(stop_date=when, error=error, cause=cause)
    return _answer({"stopDate": when})


def redrive_execution(self):
    """Gap: not served. See executions.py."""
    execution = _find(self)
    if execution.status not in executions.REDRIVABLE:
        raise ExecutionNotRedrivable(f"Execution is {execution.status} and cannot be redriven")
    executions.redrive(execution)
    return _answer({"redriveDate": execution.redrive_date})


def get_execution_history(self):
    """Gap: no order and no pages."""
    events = list(self.stepfunction_backend.get_execution_history(self._get_param("executionArn"))["events"])
    if self._get_param("reverseOrder"):
        events.reverse()
    start = int(self._get_param("nextToken") or 0)
    end = start + (int(self._get_param("maxResults") or 0) or 100)
    return _answer({"events": events[start:end], "nextToken": str(end) if end < len(events) else None})


def _check_targets(definition, path=""):
    """Gap: a Next, Default or StartAt that points nowhere is accepted; the service refuses it."""
    states = definition.get("States", {})

    def check(target, where):
        if target is not None and target not in states:
            raise InvalidDefinition(
                message=f"SCHEMA_VALIDATION_FAILED: MISSING_TRANSITION_TARGET: there is no state '{target}' at {path}/{where}"
            )

    check(definition.get("StartAt"), "StartAt")
    for name, state in states.items():
        here = f"States/{name}"
        check(state.get("Next"), f"{here}/Next")
        check(state.get("Default"), f"{here}/Default")
        for field in ("Catch", "Choices"):
            for number, rule in enumerate(state.get(field, [])):
                check(rule.get("Next"), f"{here}/{field}[{number}]/Next")
        for field in ("ItemProcessor", "Iterator"):
            _check_targets(state.get(field, {}), f"{path}/{here}/{field}")
        for number, program in enumerate(state.get("Branches", [])):
            _check_targets(program, f"{path}/{here}/Branches[{number}]")


def _brief(message):
    """Gap: a refused definition is answered with the parser's whole grammar, or with the definition itself. What is left here: the
    line and the column, both from 1, and what is wrong there."""
    if found := re.search(r"line (\d+):(\d+), at (.*?), (.*)", message, re.DOTALL):
        line, column, token, problem = found.groups()
        expected = re.search(r"expecting \{(.*?)\}", problem, re.DOTALL)
        short = expected and expected[1].count(",") < _EXPECTED
        instead = f", expected is one of {expected[1]}" if short else ""
        return f"SCHEMA_VALIDATION_FAILED: line {line}:{int(column) + 1}: {token} is not possible here{instead}"
    if found := re.search(r"Error=\w+ Args=\[([\"'])(.*)\1\] in definition", message, re.DOTALL):
        state = re.search(r"'name': '(.*?)'", found[2])
        problem = re.sub(r"<class '[\w.]*?(\w+)'>", r"\1", found[2].replace("\\'", "'")).split(" in context:")[0]
        problem = problem.split(": '(")[0].rstrip(".")
        return f"SCHEMA_VALIDATION_FAILED: {problem}" + (f" at /States/{state[1]}" if state else "")
    return message


def _own_query_languages():
    """Gap: the parser keeps the query languages of its scopes for the whole process, so definitions that are parsed
    at once, or after a refused one, are read in each other's language. Here each parse has its own."""
    inherited = Preprocessor.__init__

    def begin(self, *arguments, **named):
        inherited(self, *arguments, **named)
        self._query_language_per_scope = []

    Preprocessor.__init__ = begin


def _parse_once():
    """Gap: every start of an execution parses its definition anew, which took more than half of the engine's time. The trees of
    the last definitions are kept; nothing changes them."""
    parse, trees, lock = ASLParser.state_machine, {}, threading.Lock()

    def state_machine(self):
        definition = self.getTokenStream().tokenSource.inputStream.strdata
        if tree := trees.get(definition):
            return tree
        tree = parse(self)
        if not self.getNumberOfSyntaxErrors():
            with lock:
                if len(trees) >= _TREES:
                    trees.pop(next(iter(trees)))
                trees[definition] = tree
        return tree

    ASLParser.state_machine = state_machine


def _name_refusals():
    """Gap: the interpreter's refusals have no code."""
    for refusal in vars(api).values():
        if isinstance(refusal, type) and issubclass(refusal, AWSError) and refusal is not AWSError and not refusal.TYPE:
            refusal.TYPE = refusal.__name__


def _texts_are_json():
    """Gap: texts in a definition are read as Python's or not at all, so that escapes stay or become others."""

    def text(context):
        said = context.getText()
        if not said.startswith('"'):
            return said
        try:
            return json.loads(said, strict=False)
        except ValueError:
            return said[1:-1]

    def inner(parser_rule_context):
        return None if parser_rule_context.getText() == "null" else text(parser_rule_context)

    Preprocessor._inner_string_of = staticmethod(inner)
    preprocessor.from_string_literal = lambda parser_rule_context: text(parser_rule_context)


def _one_machine_per_name():
    """Gap: another definition under a name that exists is accepted, and forgotten."""
    create = StepFunctionsParserBackend.create_state_machine

    def create_state_machine(self, name, definition, *arguments, **named):
        for other in self.state_machines:
            if other.name == name and (other.definition, other.sm_type) != (definition, named.get("sm_type") or other.sm_type):
                raise StateMachineAlreadyExists(f"State Machine Already Exists: '{other.arn}'")
        return create(self, name, definition, *arguments, **named)

    StepFunctionsParserBackend.create_state_machine = create_state_machine


def install():
    _name_refusals()
    _texts_are_json()
    _one_machine_per_name()
    _own_query_languages()
    _parse_once()
    parse = StepFunctionsParserBackend._validate_definition

    def validate(definition):
        try:
            parse(definition)
            _check_targets(json.loads(definition))
        except InvalidDefinition as refused:
            raise DefinitionRefused(f"Invalid State Machine Definition: '{_brief(refused.message)}'") from None

    StepFunctionsParserBackend._validate_definition = staticmethod(validate)
    for handler in (start_execution, start_sync_execution, describe_execution, stop_execution,
                    redrive_execution, get_execution_history):  # fmt: skip
        setattr(StepFunctionResponse, handler.__name__, handler)
