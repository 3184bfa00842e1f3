"""One piece of work under the idempotency utility of Powertools: told when it begins, ended by a line.

Says "inside" or "refused: …" first; inside, the line "fail" lets the work fail, any other ends it well.
"""

import argparse
import sys

import boto3
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError


def tell(text):
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--expires", type=int, required=True, help="seconds")
    arguments = parser.parse_args()
    session = boto3.Session(
        aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1"
    )
    layer = DynamoDBPersistenceLayer(
        table_name=arguments.table,
        boto3_client=session.client("dynamodb", endpoint_url=arguments.endpoint),
    )
    config = IdempotencyConfig(expires_after_seconds=arguments.expires)

    @idempotent_function(data_keyword_argument="order", persistence_store=layer, config=config)
    def work(order):
        tell("inside")
        if sys.stdin.readline().strip() == "fail":
            raise ValueError("the work has failed")
        return order

    try:
        work(order=arguments.key)
        tell("done")
    except IdempotencyAlreadyInProgressError as error:
        tell(f"refused: {type(error).__name__}")
    except ValueError:
        tell("failed")


if __name__ == "__main__":
    main()
