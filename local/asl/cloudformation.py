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

from moto.awslambda.utils import get_backend as lambda_backend  # noqa: E402
from moto.cloudformation import parsing  # noqa: E402
from moto.cloudformation.exceptions import ValidationError  # noqa: E402
from moto.core.common_models import CloudFormationModel  # noqa: E402
from moto.sqs.models import sqs_backends  # noqa: E402


def _kind(name, create):
    """Gap: a type that moto knows no CloudFormation for is left out with a warning."""

    def made(cls, resource_name, cloudformation_json, account_id, region_name, **_):
        resource = cls()
        resource.physical_resource_id = resource_name
        create(cloudformation_json["Properties"], account_id, region_name)
        return resource

    # moto takes the service from the module's name, and only looks at direct subclasses.
    return type(name.replace("::", ""), (CloudFormationModel,), {
        "__module__": f"moto.{name.split('::')[1].lower()}.models",
        "cloudformation_name_type": staticmethod(lambda: None),
        "cloudformation_type": staticmethod(lambda: name),
        "create_from_cloudformation_json": classmethod(made),
        "delete_from_cloudformation_json": classmethod(lambda cls, *_, **__: None),
        "update_from_cloudformation_json": classmethod(lambda cls, original_resource, *_, **__: original_resource),
        "has_cfn_attr": classmethod(lambda cls, attribute: False),
    })  # fmt: skip


def _queue_policy(properties, account, region):
    for url in properties["Queues"]:
        policy = json.dumps(properties["PolicyDocument"])
        sqs_backends[account][region].set_queue_attributes(url.rsplit("/", 1)[1], {"Policy": policy})


def _event_invoke_config(properties, account, region):
    backend = lambda_backend(account, region)
    settings = {name: value for name, value in properties.items() if name not in ("FunctionName", "Qualifier")}
    backend.put_function_event_invoke_config(properties["FunctionName"], settings)


# What moto has no service for, or would have to make up: its references are resolved, and that is all.
RESOLVED_ONLY = ["AWS::CloudWatch::Dashboard", "AWS::SNS::TopicPolicy"]


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

    def complete(message, *arguments):
        raise ValidationError(message=str(message) % arguments)

    # An attribute that a resource does not have, and a type that nobody knows, are said there and nowhere else.
    parsing.logger = types.SimpleNamespace(warning=complete)


def install():
    kinds = [
        _kind("AWS::SQS::QueuePolicy", _queue_policy),
        _kind("AWS::Lambda::EventInvokeConfig", _event_invoke_config),
    ]
    known = parsing.get_model_map()
    kinds += [_kind(name, lambda *_: None) for name in RESOLVED_ONLY if name not in known]
    install.kinds = kinds  # subclasses are known for as long as they live
    parsing.get_model_map.cache_clear()
    parsing.get_model_list.cache_clear()
    parsing.get_name_type_map.cache_clear()
    _strict_references()
