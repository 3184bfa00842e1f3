"""One piece of work under the idempotency utility of Powertools: an order begins it, the next one ends it.

Answers "inside" or "refused"; inside, an order with "fail" lets the work fail, any other ends it well. Orders and answers are
JSON objects, a line each.
"""

import argparse
import json
import os
import sys

import boto3
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError


def tell(state):
    print(json.dumps({"client": "", "state": state}), flush=True)


def order():
    return json.loads(sys.stdin.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--expires", type=int, required=True, help="seconds")
    arguments = parser.parse_args()
    session = boto3.Session(
        aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1",
        aws_session_token=os.environ["AWS_SESSION_TOKEN"],
    )
    layer = DynamoDBPersistenceLayer(
        table_name=arguments.table,
        boto3_client=session.client("dynamodb", endpoint_url=arguments.endpoint),
    )
    config = IdempotencyConfig(expires_after_seconds=arguments.expires)

    @idempotent_function(data_keyword_argument="subject", persistence_store=layer, config=config)
    def work(subject):
        tell("inside")
        if order().get("fail"):
            raise ValueError("the work has failed")
        return subject

    order()
    try:
        work(subject=arguments.key)
        tell("done")
    except IdempotencyAlreadyInProgressError:
        tell("refused")
    except ValueError:
        tell("failed")


if __name__ == "__main__":
    main()
