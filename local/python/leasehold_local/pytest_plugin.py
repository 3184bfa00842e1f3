"""The fixture `leasehold_stack`: one stack for all tests of a run.

In pyproject.toml or pytest.ini, `leasehold_local` is a line of arguments of `leasehold-local up`, such as `--sweep-every 5`.
"""

from __future__ import annotations

import os
import shlex
from typing import Iterator

import pytest

from leasehold_local import Stack


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("leasehold_local", "arguments of `leasehold-local up` for the fixture leasehold_stack", default="")


@pytest.fixture(scope="session")
def leasehold_stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """The running stack. While it runs, os.environ points the SDKs at it."""
    arguments = shlex.split(request.config.getini("leasehold_local"))
    with Stack(arguments) as stack:
        before = {name: os.environ.get(name) for name in (*stack.hiding, *stack.environment)}
        for name in stack.hiding:
            os.environ.pop(name, None)
        os.environ.update(stack.environment)
        try:
            yield stack
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
