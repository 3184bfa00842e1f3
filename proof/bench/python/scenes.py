"""Clients of python_dynamodb_lock that play scenes as they are told: a JSON object a line in, one a line out.

Says "ready" when it can be told. An answer has "error" if the client told one, and "seconds" in any case. Ends with its input.
"""

import argparse
import datetime
import json
import logging
import os
import sys
import time

import boto3
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLock, DynamoDBLockClient, DynamoDBLockError


def connection(endpoint):
    session = boto3.Session(
        aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1"
    )
    return session.resource("dynamodb", endpoint_url=endpoint)


def seconds(number):
    return datetime.timedelta(seconds=number)


class Player:
    def __init__(self, arguments):
        self._client = DynamoDBLockClient(
            connection(arguments.endpoint),
            heartbeat_period=seconds(arguments.heartbeat),
            safe_period=seconds(arguments.lease * 0.7),
            lease_duration=seconds(arguments.lease),
        )
        self._period = seconds(arguments.period)
        # Longer than by default, so that it is still there when the lease has run out.
        self._patience = seconds(arguments.lease * 4 + 10)
        self._locks = {}

    def acquire(self, key):
        self._locks[key] = self._client.acquire_lock(
            key, retry_period=self._period, retry_timeout=self._patience
        )

    def extend(self, key):
        """What its background thread does once in a heartbeat period, done now."""
        lock = self._locks[key]
        before = lock.record_version_number
        self._client._send_heartbeat(lock)
        if lock.status != DynamoDBLock.LOCKED:
            raise DynamoDBLockError(DynamoDBLockError.LOCK_STOLEN, "the lock is " + lock.status)
        if lock.record_version_number == before:
            raise DynamoDBLockError(DynamoDBLockError.UNKNOWN, "the heartbeat was not sent")

    def release(self, key):
        self._locks.pop(key).release(best_effort=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--lease", type=float, required=True, help="seconds")
    parser.add_argument("--heartbeat", type=float, required=True, help="seconds")
    parser.add_argument("--period", type=float, required=True, help="seconds between two tries")
    parser.add_argument("--create", action="store_true", help="create the table first")
    arguments = parser.parse_args()
    # It tells in its log what the answers here tell, too.
    logging.disable()
    if arguments.create:
        DynamoDBLockClient.create_dynamodb_table(connection(arguments.endpoint).meta.client)
    player = Player(arguments)
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        answer = {}
        began = time.monotonic()
        try:
            getattr(player, order["do"])(order["key"])
        except DynamoDBLockError as error:
            answer["error"] = f"{error.code}: {' '.join(error.message.split())}"
        answer["seconds"] = time.monotonic() - began
        print(json.dumps(answer), flush=True)
    # The heartbeats have nothing to finish.
    os._exit(0)


if __name__ == "__main__":
    main()
