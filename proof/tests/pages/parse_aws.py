"""Whether each command line is one of the AWS CLI: its service, operation and options exist, their values fit, and what it asks of
the answer is in an answer. Nothing is sent.

    python parse_aws.py FILE

In the file each argument ends with \\x1f, and each command with \\x1e. Prints what is wrong.
"""

import contextlib
import io
import sys
from pathlib import Path

import jmespath
from awscli.clidriver import create_clidriver
from botocore.client import BaseClient

SENT = []


class Sent(Exception):
    pass


def note(_client, operation, *_):
    """In place of the request, which was made from the arguments, and so fits the service's description."""
    SENT.append(operation)
    raise Sent


def fields(query):
    """The names that a query asks for."""
    if query["type"] == "field":
        yield query["value"]
    for child in query.get("children", []):
        if isinstance(child, dict):
            yield from fields(child)


def members(shape, seen=()):
    """The names in an answer."""
    if shape is None or shape.name in seen:
        return
    seen = (*seen, shape.name)
    for name, member in getattr(shape, "members", {}).items():
        yield name
        yield from members(member, seen)
    for part in ("member", "value"):
        yield from members(getattr(shape, part, None) if shape.type_name in ("list", "map") else None, seen)


def wrong(driver, arguments):
    said = io.StringIO()
    SENT.clear()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        driver.main(arguments)
    if len(SENT) != 1:
        return said.getvalue().strip()[-300:] or "not understood"
    if "--query" in arguments:
        query = jmespath.compile(arguments[arguments.index("--query") + 1])
        unknown = set(fields(query.parsed)) - set(members(SENT[0].output_shape))
        return f"no {', '.join(sorted(unknown))} in the answer" if unknown else None
    return None


def main():
    BaseClient._make_request = note
    driver = create_clidriver()
    for command in Path(sys.argv[1]).read_text(encoding="utf-8").split("\x1e")[:-1]:
        arguments = command.split("\x1f")[:-1]
        if said := wrong(driver, arguments):
            print("aws", *arguments, "\n ", said)


if __name__ == "__main__":
    main()
