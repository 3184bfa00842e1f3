"""The life of an execution: its start, its end as status events, and redrive, which moto lacks.

RedriveExecution resumes an execution at the state it ended in, under the same ARN, with that
state's input and the variables as they were on its entry, and $$.Execution.RedriveCount one
higher. In a Parallel at the top level every branch that had not succeeded resumes at the state it
was in, as on the service. Differences: the state is entered anew (new EnteredTime, a second
StateEntered event); a Map, and a Parallel inside a branch, start over as a whole; and the limit of
14 days is not checked.
"""

import copy
import datetime
import json
import os
import sys
import threading
import typing
import urllib.request
import uuid

from moto.stepfunctions.parser.api import ExecutionStartedEventDetails, HistoryEventExecutionDataDetails
from moto.stepfunctions.parser.api import HistoryEventType
from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.component.program.program import Program
from moto.stepfunctions.parser.asl.component.state.exec.state_parallel.state_parallel import StateParallel
from moto.stepfunctions.parser.asl.component.state.state import CommonStateField
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventManager
from moto.stepfunctions.parser.asl.eval.program_state import ProgramEnded
from moto.stepfunctions.parser.asl.utils.encoding import to_json_str
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

REDRIVABLE = {"FAILED", "ABORTED", "TIMED_OUT"}
_TOP, _ELSEWHERE = "top", "elsewhere"  # identify a Program; a branch of a top-level Parallel has its index


class Position(typing.NamedTuple):
    """The position of a program: a state, its input and variables on entry, and whether the program had succeeded."""

    state: str
    input: object
    variables: dict
    succeeded: bool = False


def redrive(execution):
    """Starts the execution again at the state it ended in."""
    before = execution.exec_worker.env
    programs = {**before.event_manager.branches, _TOP: before}
    execution.resume = {place: _position(env) for place, env in programs.items() if hasattr(env, "entered")}
    execution.history = before.event_manager.get_event_history()
    execution.redrive_count += 1
    execution.redrive_date = datetime.datetime.now(tz=datetime.timezone.utc)
    execution.exec_worker = execution.error = execution.cause = execution.stop_date = None
    execution.start()


def _position(env):
    if isinstance(env.program_state(), ProgramEnded):
        return env.entered._replace(input=env.states.get_input(), succeeded=True)
    return env.entered


def _start_worker(self):
    """Gap: the execution's own thread creates the environment, so a stop right after the start
    finds none. A redriven execution also resumes its history here."""
    execution = self._execution_communication.execution
    program, env = self._get_evaluation_entrypoint(), self._get_evaluation_environment()
    program.place = _TOP
    for state in program.states.states.values():
        if isinstance(state, StateParallel):
            for index, branch in enumerate(state.branches.programs):
                branch.place = index
    events = env.event_manager
    events.resume, events.branches = execution.resume, {}
    if execution.redrive_count:
        # A new manager, so that late reports of the earlier attempt's threads do not enter this history.
        events._history_event_list.extend(execution.history)
        events._event_id_gen._next_id = len(execution.history) + 1
        kind, details = HistoryEventType.ExecutionRedriven, {"redriveCount": execution.redrive_count}
        event = {"executionRedrivenEventDetails": details}
    else:
        kind = HistoryEventType.ExecutionStarted
        event = EventDetails(
            executionStartedEventDetails=ExecutionStartedEventDetails(
                input=to_json_str(self._evaluation_details.execution_details.inpt),
                inputDetails=HistoryEventExecutionDataDetails(truncated=False),
                roleArn=self._evaluation_details.aws_execution_details.role_arn,
            )
        )
    events.add_event(
        context=env.event_history_context, event_type=kind, event_details=event, update_source_event_id=False
    )
    env.next_state_name = program.start_at.start_at_name
    self.env = env

    def run():
        program.eval(env)
        self._execution_communication.terminated()

    threading.Thread(target=run, daemon=True).start()


def _eval_program(self, env):
    """As moto's, but it may start at the position of a redriven program, and a timed-out program
    writes its last event before the execution counts as ended."""
    events = env.event_manager
    if self.place not in (_TOP, _ELSEWHERE):
        events.branches[self.place] = env
    start, position = self.start_at.start_at_name, events.resume.pop(self.place, None)
    if position:
        env.entered = position
        env.states.reset(position.input)
        env.variable_store._inner_scope.update(copy.deepcopy(position.variables))
        start = position.state
    if env._program_state is None or env.is_running():
        env.next_state_name = start
    if position and position.succeeded:
        env.set_ended()
        return
    worker = threading.Thread(target=EvalComponent.eval, args=(self, env), daemon=True)
    worker.start()
    worker.join(timeout=self.timeout_seconds.timeout_seconds if self.timeout_seconds else None)
    if worker.is_alive():
        env.set_timed_out()
        worker.join(timeout=5)


def _environment(make):
    def environment(self):
        env = make(self)
        context = env.states.context_object.context_object_data["Execution"]
        # Gap: the context object has no RedriveCount, and its StartTime is not JSON.
        context["RedriveCount"] = self._execution_communication.execution.redrive_count
        if isinstance(context["StartTime"], datetime.datetime):
            context["StartTime"] = context["StartTime"].strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        return env

    return environment


def _remember_entry(evaluate):
    def eval_body(self, env):
        variables = copy.deepcopy(env.variable_store._inner_scope)
        env.entered = Position(self.name, env.states.get_input(), variables)
        if not env.is_frame():
            env.event_manager.branches = {}
        env.at = self
        evaluate(self, env)
        env.at = None

    return eval_body


def redrive_fields(execution):
    """The redrive fields of DescribeExecution and the status events."""
    redrivable = execution.status in REDRIVABLE
    reason = f"Execution is {execution.status} and cannot be redriven"
    return {
        "redriveCount": execution.redrive_count,
        "redriveDate": execution.redrive_date,
        "redriveStatus": "REDRIVABLE" if redrivable else "NOT_REDRIVABLE",
        "redriveStatusReason": None if redrivable else reason,
    }


def _status_event(execution):
    def millis(date):
        return int(date.timestamp() * 1000) if date else None

    status = execution.status
    output = to_json_str(execution.output, separators=(",", ":")) if status == "SUCCEEDED" else None
    redriven = redrive_fields(execution)
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Step Functions Execution Status Change",
        "source": "aws.states",
        "account": execution.account_id,
        "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": execution.region_name,
        "resources": [execution.exec_arn],
        "detail": {
            "executionArn": execution.exec_arn,
            "stateMachineArn": execution.state_machine_arn,
            "name": execution.name,
            "status": status,
            "startDate": millis(execution.start_date),
            "stopDate": millis(execution.stop_date),
            "input": execution.execution_input,
            "output": output,
            "stateMachineVersionArn": None,
            "stateMachineAliasArn": None,
            **redriven,
            "redriveDate": millis(redriven["redriveDate"]),
            "inputDetails": {"included": True},
            "outputDetails": {"included": True} if output is not None else None,
            "error": execution.error,
            "cause": execution.cause,
        },
    }


def _tell_status(change):
    """Gap: there are no events for executions that start and end, but reap depends on them. As on the service
    they are sent asynchronously, in any order, and best effort."""

    def changed(self):
        change(self)
        execution = getattr(self, "execution", self)
        url = os.environ.get("SFN_STATUS_EVENTS_URL")
        if not url:
            return
        headers = {"content-type": "application/json", "x-amz-security-token": os.environ["AWS_SESSION_TOKEN"]}
        request = urllib.request.Request(url, json.dumps(_status_event(execution)).encode(), headers)

        def deliver():
            try:
                urllib.request.urlopen(request, timeout=30).read()
            except Exception as ex:
                print("status event not delivered:", ex, file=sys.stderr)

        threading.Thread(target=deliver, daemon=True).start()

    return changed


def install():
    Execution.redrive_count, Execution.redrive_date, Execution.resume = 0, None, {}
    EventManager.resume, EventManager.branches = {}, {}
    Program.place = _ELSEWHERE
    Program.eval = _eval_program
    CommonStateField._eval_body = _remember_entry(CommonStateField._eval_body)
    ExecutionWorker.start = _start_worker
    ExecutionWorker._get_evaluation_environment = _environment(ExecutionWorker._get_evaluation_environment)
    Execution.start = _tell_status(Execution.start)
    BaseExecutionWorkerCommunication.terminated = _tell_status(BaseExecutionWorkerCommunication.terminated)
