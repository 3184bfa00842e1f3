#!/usr/bin/env python3
"""Creates a translated template's stack through CloudFormation, and writes down what is there then, as the services tell it.

    python deploy.py http://127.0.0.1:8083 target/template.json . out/ [Parameter=value ...]

out/created.json has the form of a template in which every reference is what it came to: physical names for logical ones,
ARNs for attributes. Definitions of state machines are beside it, with their substitutions made. Whatever was in that
CloudFormation's account before is forgotten.
"""

import ast
import json
import pathlib
import sys
import urllib.request

import boto3
import botocore.exceptions

STACK = "leasehold"
ASIDE = {"ResponseMetadata"}


class Account:
    def __init__(self, url):
        self.url = url
        self.made = {}

    def __getattr__(self, service):
        if service not in self.made:
            self.made[service] = boto3.client(
                service, region_name="us-east-1", endpoint_url=self.url,
                aws_access_key_id="local", aws_secret_access_key="local",
            )  # fmt: skip
        return self.made[service]


def prepared(template, root):
    """The template with what `sam package` would have uploaded: definitions go in as they are, and code as none."""
    code = {}
    for name, resource in template["Resources"].items():
        properties = resource["Properties"]
        if resource["Type"] == "AWS::Lambda::Function":
            code[name] = properties["Code"]["S3Key"]
            properties["Code"] = {"ZipFile": "none"}
        if location := properties.pop("DefinitionS3Location", None):
            properties["DefinitionString"] = (root / location["Key"]).read_text()
    return code


def names(account):
    """Logical ids and physical names, in the order of the template."""
    found = account.cloudformation.describe_stack_resources(StackName=STACK)["StackResources"]
    # What a condition leaves out is nobody there.
    there = [r for r in found if "LogicalResourceId" in r]
    return [(r["LogicalResourceId"], r["ResourceType"], r.get("PhysicalResourceId")) for r in there]


def document(policy):
    # moto keeps what came from a template as Python would write it.
    return ast.literal_eval(policy) if isinstance(policy, str) else policy


def role(account, name):
    managed = account.iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
    inline = account.iam.list_role_policies(RoleName=name)["PolicyNames"]
    return {
        "AssumeRolePolicyDocument": account.iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"],
        "ManagedPolicyArns": [policy["PolicyArn"] for policy in managed],
        "Policies": [
            {"PolicyDocument": document(account.iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"])}
            for policy in inline
        ],
    }  # fmt: skip


def function(account, name, code):
    told = account.__getattr__("lambda").get_function_configuration(FunctionName=name)
    wanted = ("Timeout", "MemorySize", "Environment", "Role", "LoggingConfig", "Handler", "Runtime", "Architectures")
    return {name: told[name] for name in wanted if name in told} | {"CodeUri": code, "Events": {}}


def source(account, uuid):
    told = account.__getattr__("lambda").get_event_source_mapping(UUID=uuid)
    aside = ASIDE | {"UUID", "EventSourceArn", "FunctionArn", "EventSourceMappingArn", "LastModified", "LastProcessingResult",
                     "State", "StateTransitionReason"}  # fmt: skip
    properties = {name: value for name, value in told.items() if name not in aside}
    service = told["EventSourceArn"].split(":")[2]
    properties[{"dynamodb": "Stream", "sqs": "Queue"}[service]] = told["EventSourceArn"]
    kind = {"dynamodb": "DynamoDB", "sqs": "SQS"}[service]
    return told["FunctionArn"].rsplit(":", 1)[1], {"Type": kind, "Properties": properties}


def permissions(account, name):
    """Who is let in by the function's own policy; a function without one lets nobody in."""
    try:
        policy = json.loads(account.__getattr__("lambda").get_policy(FunctionName=name)["Policy"])
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return []
        raise
    return [
        {
            "Action": statement["Action"],
            "FunctionName": name,
            "Principal": statement["Principal"]["Service"],
            "SourceArn": statement["Condition"]["ArnLike"]["AWS:SourceArn"],
        }
        for statement in policy["Statement"]
    ]


def queue(account, url):
    told = account.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    properties = {name: told[name] for name in ("DelaySeconds", "VisibilityTimeout", "MessageRetentionPeriod", "SqsManagedSseEnabled")}
    if "RedrivePolicy" in told:
        properties["RedrivePolicy"] = json.loads(told["RedrivePolicy"])
    return properties, json.loads(told.get("Policy", "null"))


def rule(account, name):
    told = account.events.describe_rule(Name=name)
    properties = {name: told[name] for name in ("State", "ScheduleExpression") if name in told}
    if "EventPattern" in told:
        properties["EventPattern"] = json.loads(told["EventPattern"])
    properties["Targets"] = account.events.list_targets_by_rule(Rule=name)["Targets"]
    return properties


def table(account, name):
    told = account.dynamodb.describe_table(TableName=name)["Table"]
    wanted = ("AttributeDefinitions", "KeySchema", "StreamSpecification", "DeletionProtectionEnabled", "TableName")
    properties = {name: told[name] for name in wanted if name in told}
    properties["BillingMode"] = told["BillingModeSummary"]["BillingMode"]
    properties["GlobalSecondaryIndexes"] = [
        {part: index[part] for part in ("IndexName", "KeySchema", "Projection")} for index in told["GlobalSecondaryIndexes"]
    ]
    ttl = account.dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    properties["TimeToLiveSpecification"] = {
        "AttributeName": ttl.get("AttributeName"),
        "Enabled": ttl["TimeToLiveStatus"] == "ENABLED",
    }
    backups = account.dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    status = backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
    properties["PointInTimeRecoverySpecification"] = {"PointInTimeRecoveryEnabled": status == "ENABLED"}
    return properties


def machine(account, arn, out):
    told = account.stepfunctions.describe_state_machine(stateMachineArn=arn)
    (out / f"{told['name']}.asl.json").write_text(told["definition"])
    return told["name"], {"Name": told["name"], "Role": told["roleArn"], "DefinitionUri": f"{told['name']}.asl.json"}


def created(account, code, out):
    """Everything in the stack, by physical name, as its service tells it."""
    there, sources, told = {}, [], []
    for logical, kind, name in names(account):
        told.append({"id": logical, "type": kind, "name": name})
        match kind:
            case "AWS::IAM::Role":
                there[name] = (kind, role(account, name))
            case "AWS::Lambda::Function":
                there[name] = ("AWS::Serverless::Function", function(account, name, code[logical]))
                for at, permission in enumerate(permissions(account, name)):
                    there[f"{name}/permission/{at}"] = ("AWS::Lambda::Permission", permission)
            case "AWS::Lambda::EventSourceMapping":
                sources.append((logical, name))
            case "AWS::SQS::Queue":
                properties, policy = queue(account, name)
                queue_name = name.rsplit("/", 1)[1]
                there[queue_name] = (kind, properties)
                if policy:
                    there[f"{queue_name}/policy"] = ("AWS::SQS::QueuePolicy", {"PolicyDocument": policy})
            case "AWS::Events::Rule":
                there[name] = (kind, rule(account, name))
            case "AWS::DynamoDB::Table":
                there[name] = (kind, table(account, name))
            case "AWS::StepFunctions::StateMachine":
                machine_name, properties = machine(account, name, out)
                there[machine_name] = ("AWS::Serverless::StateMachine", properties)
    for logical, uuid in sources:
        of, event = source(account, uuid)
        there[of][1]["Events"][logical] = event
    return {
        "Metadata": {"Created": told},
        "Resources": {name: {"Type": kind, "Properties": properties} for name, (kind, properties) in there.items()},
    }


def main(url, template, root, out, *parameters):
    urllib.request.urlopen(urllib.request.Request(f"{url}/moto-api/reset", method="POST"))
    account, out = Account(url), pathlib.Path(out)
    template = json.loads(pathlib.Path(template).read_text())
    code = prepared(template, pathlib.Path(root))
    try:
        account.cloudformation.create_stack(
            StackName=STACK, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_IAM"],
            Parameters=[dict(zip(("ParameterKey", "ParameterValue"), given.split("=", 1))) for given in parameters],
        )  # fmt: skip
    except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError) as error:
        sys.exit(f"CreateStack: {error}")
    (out / "created.json").write_text(json.dumps(created(account, code, out), indent=1, default=str))


main(*sys.argv[1:])
