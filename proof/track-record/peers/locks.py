"""Clients of python_dynamodb_lock that do what they are told: a JSON object per line in, one per line out.

Each client has its own boto3 session, as a process of its own would have. Ends with its input.
"""

import argparse
import datetime
import json
import logging
import os
import sys
import time

import boto3
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient, DynamoDBLockError


def connection(endpoint):
    session = boto3.Session(
        aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1"
    )
    return session.resource("dynamodb", endpoint_url=endpoint)


def seconds(number):
    return datetime.timedelta(seconds=number)


class Desk:
    def __init__(self, endpoint):
        self._endpoint = endpoint
        self._clients = {}
        self._locks = {}
        self._told = {}

    def create_table(self, order):
        DynamoDBLockClient.create_dynamodb_table(connection(self._endpoint).meta.client)
        return {}

    def client(self, order):
        """A new client with short times; what is not named keeps its default."""
        self._clients[order["client"]] = DynamoDBLockClient(
            connection(self._endpoint),
            heartbeat_period=seconds(order["heartbeat"]),
            safe_period=seconds(order["lease"] * 0.75),
            lease_duration=seconds(order["lease"]),
            expiry_period=seconds(order["expiry"]),
        )
        return {}

    def acquire(self, order):
        name, key = order["client"], order["key"]
        limits = {}
        if "timeout" in order:
            limits = {"retry_period": seconds(order["period"]), "retry_timeout": seconds(order["timeout"])}
        told = self._told.setdefault((name, key), [])
        began = time.monotonic()
        try:
            lock = self._clients[name].acquire_lock(
                key, app_callback=lambda code, _: told.append(code), **limits
            )
        except DynamoDBLockError as error:
            return {"error": error.code, "seconds": time.monotonic() - began}
        self._locks[name, key] = lock
        return {"owner": lock.owner_name, "seconds": time.monotonic() - began}

    def status(self, order):
        at = order["client"], order["key"]
        return {"status": self._locks[at].status, "told": self._told[at]}

    def fail_inside(self, order):
        """Raises inside the protected block; tells whether whoever called would have noticed."""
        try:
            with self._locks[order["client"], order["key"]]:
                raise ValueError("the work has failed")
        except ValueError as error:
            return {"raised": str(error)}
        return {"raised": None}

    def check_then_write(self, order):
        """Looks whether the lock is held, and writes once it is told to go on."""
        lock = self._locks[order["client"], order["key"]]
        table = connection(self._endpoint).Table(order["table"])
        print(json.dumps({"status": lock.status}), flush=True)
        sys.stdin.readline()
        table.put_item(Item={"pk": order["key"], "sk": "RESOURCE", "writer": order["client"]})
        return {"wrote": order["client"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", required=True)
    # It tells in its log what the answers here tell, too.
    logging.disable()
    desk = Desk(parser.parse_args().endpoint)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(getattr(desk, order["do"])(order)), flush=True)
    # The heartbeats have nothing to finish.
    os._exit(0)


if __name__ == "__main__":
    main()
