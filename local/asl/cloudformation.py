"""CloudFormation, for the rehearsal of a deployment: moto's, which creates a template's resources behind the services' own
APIs, with the gaps filled through which a template could be wrong unnoticed.

Loaded only when it is wanted: it takes a second.
"""

import json
import sys
import types


def _without_api_gateway():
    """Gap: moto loads every service that it can create, and API Gateway's needs a package that nothing here does."""
    names = ("openapi_spec_validator", "openapi_spec_validator.validation", "openapi_spec_validator.validation.exceptions")
    for name in names:
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules[names[0]].validate_spec = None
    sys.modules[names[2]].OpenAPIValidationError = type("OpenAPIValidationError", (Exception,), {})


_without_api_gateway()

from moto.awslambda.models import LambdaFunction  # noqa: E402
from moto.awslambda.utils import get_backend as lambda_backend  # noqa: E402
from moto.cloudformation import parsing  # noqa: E402
from moto.cloudformation.exceptions import UnformattedGetAttTemplateException, ValidationError  # noqa: E402
from moto.core.common_models import CloudFormationModel  # noqa: E402
from moto.dynamodb.models import dynamodb_backends  # noqa: E402
from moto.dynamodb.models.table import Table  # noqa: E402
from moto.iam.models import Role  # noqa: E402
from moto.logs.models import LogGroup  # noqa: E402
from moto.sqs.models import sqs_backends  # noqa: E402
from moto.stepfunctions.models import StateMachine  # noqa: E402
from moto.stepfunctions.responses import get_backend as sfn_backend  # noqa: E402

# What moto has no service for: its references are resolved, and that is all.
RESOLVED_ONLY = [
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::CompositeAlarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::Logs::MetricFilter",
    "AWS::SNS::TopicPolicy",
]


def _kind(name, create):
    """Gap: a type that moto knows no CloudFormation for is left out with a warning."""

    def made(cls, resource_name, cloudformation_json, account_id, region_name, **_):
        resource = cls()
        resource.physical_resource_id = resource_name
        resource.arn = f"arn:aws:{name.split('::')[1].lower()}:{region_name}:{account_id}:{name.split('::')[2].lower()}:{resource_name}"
        create(cloudformation_json["Properties"], account_id, region_name)
        return resource

    def attribute(self, attribute):
        if attribute != "Arn":
            raise UnformattedGetAttTemplateException()
        return self.arn

    # moto takes the service from the module's name, and only looks at direct subclasses.
    return type(name.replace("::", ""), (CloudFormationModel,), {
        "__module__": f"moto.{name.split('::')[1].lower()}.models",
        "cloudformation_name_type": staticmethod(lambda: None),
        "cloudformation_type": staticmethod(lambda: name),
        "create_from_cloudformation_json": classmethod(made),
        "delete_from_cloudformation_json": classmethod(lambda cls, *_, **__: None),
        "update_from_cloudformation_json": classmethod(lambda cls, original_resource, *_, **__: original_resource),
        "get_cfn_attribute": attribute,
        "has_cfn_attr": classmethod(lambda cls, attribute: attribute == "Arn"),
    })  # fmt: skip


def _queue_policy(properties, account, region):
    for url in properties["Queues"]:
        policy = json.dumps(properties["PolicyDocument"])
        sqs_backends[account][region].set_queue_attributes(url.rsplit("/", 1)[1], {"Policy": policy})


def _event_invoke_config(properties, account, region):
    settings = {name: value for name, value in properties.items() if name not in ("FunctionName", "Qualifier")}
    lambda_backend(account, region).put_function_event_invoke_config(properties["FunctionName"], settings)


def _complete(model, complete):
    """Gap: moto drops properties. What completes a resource gets it with its properties."""
    create = model.create_from_cloudformation_json.__func__

    def created(cls, resource_name, cloudformation_json, account_id, region_name, **named):
        made = create(cls, resource_name, cloudformation_json, account_id, region_name, **named)
        return complete(made, cloudformation_json["Properties"], account_id, region_name) or made

    model.create_from_cloudformation_json = classmethod(created)


def _table(table, properties, account, region):
    backend = dynamodb_backends[account][region]
    if ttl := properties.get("TimeToLiveSpecification"):
        backend.update_time_to_live(table.name, ttl)
    if recovery := properties.get("PointInTimeRecoverySpecification"):
        backend.update_continuous_backups(table.name, recovery)


def _function(function, properties, *_):
    function.architectures = properties.get("Architectures", ["x86_64"])
    function.logging_config = properties.get("LoggingConfig")


def _show_logging():
    show = LambdaFunction.get_configuration

    def shown(self, *arguments, **named):
        return show(self, *arguments, **named) | {"LoggingConfig": getattr(self, "logging_config", None) or {}}

    LambdaFunction.get_configuration = shown


def _state_machine():
    """Gap: the definition's substitutions are not made, and the machine is created where nothing runs."""

    def create(cls, resource_name, cloudformation_json, account_id, region_name, **_):
        properties = cloudformation_json["Properties"]
        definition = properties["DefinitionString"]
        for name, value in properties.get("DefinitionSubstitutions", {}).items():
            definition = definition.replace("${" + name + "}", str(value))
        if "${" in definition:
            raise ValidationError(message=f"{resource_name}: a substitution is missing: {definition.split('${')[1][:40]}")
        name = properties.get("StateMachineName", resource_name)
        return sfn_backend(account_id, region_name).create_state_machine(name, definition, properties["RoleArn"])

    StateMachine.create_from_cloudformation_json = classmethod(create)


def _strict_references():
    """Gap: a reference to nothing is an internal error, or a warning and nothing."""
    find = parsing.ResourceMap.__getitem__

    def found(self, name):
        try:
            return find(self, name)
        except KeyError:
            raise ValidationError(
                message=f"Template format error: Unresolved resource dependencies [{name}] in the Resources block of the template"
            ) from None

    parsing.ResourceMap.__getitem__ = found

    def complain(message, *arguments):
        raise ValidationError(message=str(message) % arguments)

    # An attribute that a resource does not have, and a type that nobody knows, are said there and nowhere else.
    parsing.logger = types.SimpleNamespace(warning=complain)


def _no_value():
    """Gap: what is AWS::NoValue in a list stays there as nothing."""
    clean = parsing.clean_json

    def cleaned(resource_json, resources_map):
        value = clean(resource_json, resources_map)
        return [one for one in value if one is not None] if isinstance(value, list) else value

    parsing.clean_json = cleaned


def install():
    kinds = [
        _kind("AWS::SQS::QueuePolicy", _queue_policy),
        _kind("AWS::Lambda::EventInvokeConfig", _event_invoke_config),
    ]
    known = parsing.get_model_map()
    kinds += [_kind(name, lambda *_: None) for name in RESOLVED_ONLY if name not in known]
    install.kinds = kinds  # subclasses are known for as long as they live
    for cache in (parsing.get_model_map, parsing.get_model_list, parsing.get_name_type_map):
        cache.cache_clear()
    _complete(Table, _table)
    _complete(LambdaFunction, _function)
    _show_logging()
    _state_machine()
    _strict_references()
    _no_value()
    # Gap: the ARN of a log group is that of its streams.
    LogGroup.get_cfn_attribute = lambda self, _: f"{self.arn}:*"
