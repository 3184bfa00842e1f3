"""Threads that want one lock of python_dynamodb_lock, each again as soon as it has released it.

Says "ready", waits for a line, then tells a line per event: client, nanoseconds since the epoch, what happened.
Ends with its input.
"""

import argparse
import os
import sys
import threading
import time

import boto3
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient, DynamoDBLockError

AFTER_A_FAILURE = 0.1


def connection(endpoint):
    """What a process of its own would have: sessions are not for sharing between threads."""
    session = boto3.Session(
        aws_access_key_id="local", aws_secret_access_key="local", region_name="us-east-1"
    )
    return session.resource("dynamodb", endpoint_url=endpoint)


def told(error):
    return " ".join(str(error).split())


class Diary:
    def __init__(self):
        self._writing = threading.Lock()

    def write(self, client, what):
        at = time.time_ns()
        with self._writing:
            sys.stdout.write(f"{client} {at} {what}\n")
            sys.stdout.flush()


def go_round(client, locks, arguments, diary):
    while True:
        diary.write(client, "asked")
        lock = None
        while lock is None:
            try:
                lock = locks.acquire_lock(arguments.key)
            except DynamoDBLockError as error:
                diary.write(client, f"failed: {told(error)}")
                time.sleep(AFTER_A_FAILURE)
        diary.write(client, "entered")
        time.sleep(arguments.hold)
        diary.write(client, "left")
        try:
            lock.release(best_effort=False)
        except DynamoDBLockError as error:
            diary.write(client, f"failed: {told(error)}")
        time.sleep(arguments.rest)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--waiters", type=int, required=True)
    parser.add_argument("--hold", type=float, required=True, help="seconds")
    parser.add_argument("--rest", type=float, required=True, help="seconds")
    arguments = parser.parse_args()

    DynamoDBLockClient.create_dynamodb_table(connection(arguments.endpoint).meta.client)
    clients = [DynamoDBLockClient(connection(arguments.endpoint)) for _ in range(arguments.waiters)]
    diary = Diary()
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    for number, locks in enumerate(clients):
        threading.Thread(
            target=go_round, args=(number, locks, arguments, diary), daemon=True
        ).start()
    sys.stdin.read()
    # The threads have nothing to finish.
    os._exit(0)


if __name__ == "__main__":
    main()
