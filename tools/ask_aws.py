"""Lets Step Functions validate the state machines, and checks what they assume of the service. It deploys and runs nothing.

    python tools/ask_aws.py [--role ARN]

Each definition goes to ValidateStateMachineDefinition; each question is one state for TestState. Credentials and Region are the
AWS CLI's; they need states:ValidateStateMachineDefinition and states:TestState. Questions about names of errors need a role
without permissions that Step Functions may assume (and iam:PassRole on it): each call is then refused before it does anything,
and shows the error name of a refusal. Prints a line for each response, and fails if one differs from the expected.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ROOT = Path(__file__).resolve().parent.parent


def calls(resource, arguments, **more):
    return {"Type": "Task", "Resource": f"arn:{{partition}}:states:::{resource}", "Arguments": arguments, "End": True, **more}


def passes(output):
    return {"Type": "Pass", "Output": output, "End": True}


NOTHING = "{% $states.input.nothing %}"
FUNCTION = "arn:{partition}:lambda:{region}:{account}:function:leasehold-that-does-not-exist"
EXECUTION = "arn:{partition}:states:{region}:{account}:execution:leasehold-that-does-not-exist:a"
MACHINE = "arn:{partition}:states:{region}:{account}:stateMachine:leasehold-that-does-not-exist"
KEY = {"pk": {"S": "a"}}
MOCK = {"mock": {"result": "{}"}}

# The question, its state, further parameters (None: needs the role), and the expected error or output.
QUESTIONS = [
    ("a TimeoutSeconds without a value", calls("lambda:invoke", {"FunctionName": FUNCTION}, TimeoutSeconds=NOTHING), MOCK,
     {"error": "States.QueryEvaluationError"}),
    ("an output without a value", passes(NOTHING), {}, {"error": "States.QueryEvaluationError"}),
    # TestState has no such member of its own.
    ("RedriveCount, which an expression reads", passes("{% $states.context.Execution.RedriveCount %}"),
     {"context": '{"Execution": {"RedriveCount": 3}}'}, {"output": "3"}),
    ("a whole number above 2^53 through JSONata", passes("{% $states.input.n %}"), {"input": '{"n": 9007199254740993}'},
     {"output": "9007199254740992"}),
    ("a refusal of Lambda, by lambda:invoke", calls("lambda:invoke", {"FunctionName": FUNCTION}), None,
     {"error": "Lambda.AWSLambdaException"}),
    ("a refusal of DynamoDB, by aws-sdk", calls("aws-sdk:dynamodb:getItem", {"TableName": "none", "Key": KEY}), None,
     {"error": "DynamoDb.DynamoDbException"}),
    ("a refusal of Step Functions, by aws-sdk", calls("aws-sdk:sfn:getExecutionHistory", {"ExecutionArn": EXECUTION}), None,
     {"error": "Sfn.SfnException"}),
    ("a refusal of Step Functions, by states:startExecution", calls("states:startExecution.sync:2", {"StateMachineArn": MACHINE}),
     None, {"error": "StepFunctions.AWSStepFunctionsException"}),
]


def definitions(places):
    """The machines, with a value for each substitution."""
    def instead(match):
        name = match.group(1)
        if name.endswith("Partition"):
            return places["partition"]
        return f"arn:{places['partition']}:lambda:{places['region']}:{places['account']}:function:{name}" if name.endswith("Function") else name

    for path in sorted(ROOT.glob("templates/statemachines/*.asl.json")):
        yield path.name, re.sub(r"\$\{([\w:]+)\}", instead, path.read_text(encoding="utf-8"))


def validated(client, definition):
    """Whether a definition is valid, and all remarks on it."""
    answer = client.validate_state_machine_definition(definition=definition, type="STANDARD", severity="WARNING", maxResults=100)
    told = [f"{one['severity']} {one['code']} {one.get('location', '')}: {one['message']}" for one in answer["diagnostics"]]
    return answer["result"] == "OK", told


def answered(client, state, more, places):
    text = json.dumps({"QueryLanguage": "JSONata", **state})
    for name, value in places.items():
        text = text.replace("{%s}" % name, value)
    return client.test_state(definition=text, **{"input": "{}", **more})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", help="a role without permissions")
    role = parser.parse_args().role
    # boto3 reads only AWS_DEFAULT_REGION and the profile.
    session = boto3.Session(region_name=os.environ.get("AWS_REGION"))
    region = session.region_name or sys.exit("no Region: set AWS_REGION or AWS_DEFAULT_REGION")
    # TestState has a host of its own in the service; an endpoint from the environment is used unchanged.
    is_named = "AWS_ENDPOINT_URL_SFN" in os.environ or "AWS_ENDPOINT_URL" in os.environ
    client = session.client("stepfunctions", config=Config(inject_host_prefix=not is_named))
    places = {"partition": session.get_partition_for_region(region), "region": region, "account": "123456789012"}
    if role:
        places["account"] = role.split(":")[4]
    wrong = 0

    def tell(holds, what, found):
        nonlocal wrong
        wrong += not holds
        print(f"{'as expected' if holds else 'OTHERWISE'}: {what}: {found}")

    for name, definition in definitions(places):
        holds, told = validated(client, definition)
        tell(holds, name, "valid" if holds else "not valid")
        for line in told:
            print(f"  {line}")
    for what, state, more, expected in QUESTIONS:
        if more is None and not role:
            print(f"not asked: {what}: this needs a role without permissions (ROLE=arn)")
            continue
        try:
            answer = answered(client, state, {"roleArn": role} if more is None else more, places)
        except ClientError as refused:
            tell(False, what, refused)
            continue
        found = {name: answer[name] for name in ("error", "output") if name in answer}
        holds = all(found.get(name) == value for name, value in expected.items())
        tell(holds, what, json.dumps(found) + ("" if holds else f", not {json.dumps(expected)}"))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    try:
        main()
    except (BotoCoreError, ClientError) as error:
        sys.exit(f"ask-aws: {error}")
