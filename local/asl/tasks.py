"""The calls of a Task state: the spelling of parameters and results, and the names of errors."""

import os
import re
import threading

import boto3
import botocore.exceptions
import botocore.session
import moto.stepfunctions.parser.asl.utils.boto_client as boto_client
from botocore.config import Config
from moto.settings import moto_server_port

_clients = {}
_clients_lock = threading.Lock()


def _endpoint(service):
    names = {"stepfunctions": ["SFN", "STEPFUNCTIONS"]}.get(service, [re.sub(r"[- ]", "_", service).upper()])
    urls = (os.environ.get(f"AWS_ENDPOINT_URL_{name}") for name in names)
    return next(filter(None, urls), None) or f"http://127.0.0.1:{moto_server_port()}"


def client_for(region, service, state_credentials=None):
    """Gap: every Task of the emulator calls the emulator itself. There is one client per service, Region and
    role, because creating one costs more than the call. No retries: they belong to the definition.
    The access key id is the name of the machine's role, by which the endpoint identifies the caller."""
    role = state_credentials.role_arn.rsplit("/", 1)[-1] if state_credentials else "local"
    with _clients_lock:
        if (region, service, role) not in _clients:
            _clients[region, service, role] = boto3.client(
                service,
                region_name=region,
                endpoint_url=_endpoint(service),
                aws_access_key_id=role,
                aws_secret_access_key="local",
                aws_session_token=os.environ["AWS_SESSION_TOKEN"],
                config=Config(
                    parameter_validation=False,
                    inject_host_prefix=False,
                    max_pool_connections=256,
                    retries={"total_max_attempts": 1},
                    connect_timeout=5,
                    read_timeout=900,
                ),
            )
        return _clients[region, service, role]


# Its users import the name, so it must be replaced before they are loaded, that is, before the imports below.
boto_client.boto_client_for = client_for

from moto.stepfunctions.parser.api import (  # noqa: E402
    HistoryEventType,
    LambdaFunctionFailedEventDetails,
    TaskFailedEventDetails,
)
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName  # noqa: E402
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import FailureEvent  # noqa: E402
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState  # noqa: E402
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (  # noqa: E402
    state_task_service as service,
    state_task_service_callback as callback,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_lambda import (  # noqa: E402
    StateTaskServiceLambda,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_sfn import (  # noqa: E402
    StateTaskServiceSfn,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.state_task_lambda import StateTaskLambda  # noqa: E402
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails  # noqa: E402


def _spell_as_the_service():
    """Gap: moto dropped the step that turns a definition's `StateMachineArn` into the API's
    `stateMachineArn` and the answer's members back."""
    models = botocore.session.get_session()

    def operation(task, service_name, action):
        model = models.get_service_model(task._get_boto_service_name(service_name))
        names = {service.camel_to_snake_case(name): name for name in model.operation_names}
        return model.operation_model(names[task._get_boto_service_action(action)])

    def parameters(self, parameters, boto_service_name=None, service_action_name=None):
        shape = operation(self, boto_service_name, service_action_name).input_shape
        if shape is not None:
            self._to_boto_request(parameters, shape)

    def response(self, response, boto_service_name=None, service_action_name=None):
        shape = operation(self, boto_service_name, service_action_name).output_shape
        if shape is not None:
            self._from_boto_response(response, shape)

    service.StateTaskService._normalise_parameters = parameters
    service.StateTaskService._normalise_response = response


def _name_client_errors():
    """Gap: a refused or broken connection is States.Runtime here, which nothing may catch, or, where a function is the resource,
    an Exception, as if the function had raised it; so is a refusal there. The service says <Service>.SdkClientException, and definitions retry on it. A
    Lambda endpoint that answers an error without a request id is forgiven."""
    unnamed, lambda_cause = ExecutionState._from_error, StateTaskServiceLambda._error_cause_from_client_error
    by_resource = StateTaskLambda._from_error

    def from_error(self, env, ex):
        if not isinstance(ex, botocore.exceptions.BotoCoreError) or not isinstance(self, service.StateTaskService):
            return unnamed(self, env, ex)
        api = self.resource.api_name
        names = {"dynamodb": "DynamoDb", "lambda": "Lambda", "states": "StepFunctions"}
        name = names.get(api, api.capitalize()) + ".SdkClientException"
        details = TaskFailedEventDetails(
            error=name, cause=str(ex), resource=self._get_sfn_resource(), resourceType=self._get_sfn_resource_type()
        )
        return FailureEvent(
            env=env,
            error_name=CustomErrorName(name),
            event_type=HistoryEventType.TaskFailed,
            event_details=EventDetails(taskFailedEventDetails=details),
        )

    def from_resource(self, env, ex):
        if isinstance(ex, botocore.exceptions.BotoCoreError):
            name, cause = "Lambda.SdkClientException", str(ex)
        elif isinstance(ex, botocore.exceptions.ClientError):
            name, cause = error_cause(ex)
        else:
            return by_resource(self, env, ex)
        details = LambdaFunctionFailedEventDetails(error=name, cause=cause)
        return FailureEvent(
            env=env,
            error_name=CustomErrorName(name),
            event_type=HistoryEventType.LambdaFunctionFailed,
            event_details=EventDetails(lambdaFunctionFailedEventDetails=details),
        )

    def error_cause(error):
        error.response.setdefault("ResponseMetadata", {}).setdefault("RequestId", "none")
        return lambda_cause(error)

    ExecutionState._from_error = from_error
    StateTaskLambda._from_error = from_resource
    StateTaskServiceLambda._error_cause_from_client_error = staticmethod(error_cause)


def _stop_children():
    """Gap: a nested execution goes on when the .sync Task that started it is stopped, times out or
    is aborted by a failing Parallel. The service stops it."""

    def with_stop(build):
        def resolver(self, env, resource_runtime_part, normalised_parameters, state_credentials):
            arn = env.stack[-1]["ExecutionArn"]
            resolve = build(self, env, resource_runtime_part, normalised_parameters, state_credentials)
            resolve.stop = lambda: client_for(
                resource_runtime_part.region, "stepfunctions", state_credentials
            ).stop_execution(executionArn=arn)
            return resolve

        return resolver

    wait_for_end = StateTaskServiceSfn._eval_sync

    def eval_sync(self, env, sync_resolver, *args, **kwargs):
        outcome = wait_for_end(self, env, sync_resolver, *args, **kwargs)
        if outcome is None and not env.is_running():
            sync_resolver.stop()
        return outcome

    StateTaskServiceSfn._build_sync_resolver = with_stop(StateTaskServiceSfn._build_sync_resolver)
    StateTaskServiceSfn._build_sync2_resolver = with_stop(StateTaskServiceSfn._build_sync2_resolver)
    StateTaskServiceSfn._eval_sync = eval_sync
    # Half a second between two looks at a child is long for tests that last one.
    callback._DELAY_SECONDS_SYNC_CONDITION_CHECK = 0.1


def install():
    _spell_as_the_service()
    _name_client_errors()
    _stop_children()
