"""Takes the payment of an order, at most once at a time."""

import json

import boto3
from leasehold import LeaseHeld, Leasehold

NAMES = {"acquire": "AcquireFunction", "extend": "ExtendFunction", "release": "ReleaseFunction"}


def bill(order, take_payment):
    leases = Leasehold(boto3.client("lambda"), **NAMES, holder="billing")
    try:
        with leases.lease(f"orders/{order}", ttl_seconds=60):
            return take_payment(order)
    except LeaseHeld:
        return "somebody else is at it"


def behind_sqs(event, take_payment):
    """Behind a queue: an order whose key is held comes again."""
    failed = []
    for record in event["Records"]:
        order = json.loads(record["body"])["order"]
        if bill(order, take_payment) != "paid":
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}
