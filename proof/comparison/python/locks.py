"""Clients of python_dynamodb_lock that do as ordered: a JSON object a line in, one a line out.

Each order names its client, which has a thread and a boto3 session of its own, as a process of its own would have; the answer
names it too. Ends with its input.
"""

import argparse
import datetime
import json
import logging
import os
import queue
import sys
import threading
import time

import boto3
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLock, DynamoDBLockClient, DynamoDBLockError


def connection(endpoint):
    session = boto3.Session(
        aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1",
        aws_session_token=os.environ["AWS_SESSION_TOKEN"],
    )
    return session.resource("dynamodb", endpoint_url=endpoint)


def seconds(number):
    return datetime.timedelta(seconds=number)


class Client:
    def __init__(self, endpoint):
        self._endpoint = endpoint
        self._locks = {}
        self._events = {}

    def create_table(self, order):
        DynamoDBLockClient.create_dynamodb_table(connection(self._endpoint).meta.client)
        return {}

    def new(self, order):
        """Sets the client up; what is not named keeps its default."""
        settings = {}
        if "lease" in order:
            settings = {
                "heartbeat_period": seconds(order["heartbeat"]),
                "safe_period": seconds(order["lease"] * 0.7),
                "lease_duration": seconds(order["lease"]),
            }
        if "expiry" in order:
            settings["expiry_period"] = seconds(order["expiry"])
        self._client = DynamoDBLockClient(connection(self._endpoint), **settings)
        return {}

    def acquire(self, order):
        key = order["key"]
        limits = {}
        if "timeout" in order:
            limits = {"retry_period": seconds(order["period"]), "retry_timeout": seconds(order["timeout"])}
        events = self._events.setdefault(key, [])
        began = time.monotonic()
        lock = self._client.acquire_lock(key, app_callback=lambda code, _: events.append(code), **limits)
        self._locks[key] = lock
        return {"owner": lock.owner_name, "seconds": time.monotonic() - began}

    def extend(self, order):
        """What its background thread does once in a heartbeat period, done now."""
        lock = self._locks[order["key"]]
        before = lock.record_version_number
        self._client._send_heartbeat(lock)
        if lock.status != DynamoDBLock.LOCKED:
            raise DynamoDBLockError(DynamoDBLockError.LOCK_STOLEN, "the lock is " + lock.status)
        if lock.record_version_number == before:
            raise DynamoDBLockError(DynamoDBLockError.UNKNOWN, "the heartbeat was not sent")
        return {}

    def release(self, order):
        self._locks.pop(order["key"]).release(best_effort=False)
        return {}

    def status(self, order):
        return {"status": self._locks[order["key"]].status, "events": self._events[order["key"]]}

    def fail_inside(self, order):
        """Raises inside the protected block; tells whether whoever called would have noticed."""
        try:
            with self._locks[order["key"]]:
                raise ValueError("the work has failed")
        except ValueError as error:
            return {"raised": str(error)}
        return {"raised": None}

    def write(self, order):
        """The work: a write to the resource, which knows nothing of the lock."""
        table = connection(self._endpoint).Table(order["table"])
        table.put_item(Item={"pk": order["key"], "sk": "RESOURCE", "writer": order["client"]})
        return {}


def serve(client, orders):
    while True:
        order = orders.get()
        try:
            answer = getattr(client, order["do"])(order)
        except DynamoDBLockError as error:
            answer = {"error": error.code, "message": " ".join(error.message.split())}
        answer["client"] = order["client"]
        # One write for one line, whichever thread it is.
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", required=True)
    endpoint = parser.parse_args().endpoint
    # It tells in its log what the answers here tell, too.
    logging.disable()
    clients = {}
    for line in sys.stdin:
        order = json.loads(line)
        name = order["client"]
        if name not in clients:
            clients[name] = queue.Queue()
            serving = threading.Thread(target=serve, args=(Client(endpoint), clients[name]), daemon=True)
            serving.start()
        clients[name].put(order)
    # The heartbeats have nothing to finish.
    os._exit(0)


if __name__ == "__main__":
    main()
