"""The whole of Leasehold on this machine: leases in an embedded DynamoDB, the functions, and the state machines.

    with Stack() as stack:
        client = boto3.client("lambda", **stack.client_arguments("lambda"))

`leasehold-local up` and `leasehold-local exec -- COMMAND` are the same on the command line. Everything listens on 127.0.0.1, and ends
with the process that started it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Type

HERE = Path(__file__).resolve().parent
IS_PACKAGED = (HERE / "bin").is_dir()
# In a clone of the repository this is the program that `make local-programs` or `make test` has built last, which finds its
# files there.
BUILT = [HERE.parents[2] / "target" / profile / "leasehold-local" for profile in ("lean", "debug")]
PROGRAM = (
    HERE / "bin" / "leasehold-local"
    if IS_PACKAGED
    else max(BUILT, key=lambda program: program.stat().st_mtime if program.exists() else 0)
)
# The first words of what `up` prints when everything is ready.
READY = "Leasehold is up"
# What it prints is in this file of its directory.
OUTPUT = "output.txt"


class StackFailed(Exception):
    """The stack did not start, or ended by itself. The message is what it printed."""


def environment() -> Dict[str, str]:
    """This process's environment, with what the program needs to find its files and the packages of its engine."""
    if not IS_PACKAGED:
        if not PROGRAM.exists():
            raise StackFailed(f"{PROGRAM} is not built: `make local-programs` builds it")
        return dict(os.environ)
    own = {"LEASEHOLD_HOME": str(HERE / "home"), "LEASEHOLD_PYTHON": sys.executable, "LEASEHOLD_PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return {**os.environ, **own}


def main() -> NoReturn:
    """The command `leasehold-local`."""
    os.execve(PROGRAM, ["leasehold-local", *sys.argv[1:]], environment())


class Stack:
    """A running stack, for a `with` block. `arguments` are those of `leasehold-local up`.

    `environment` is what to add to the environment of whatever uses it: endpoints, Region, credentials, and the variables that the
    library reads. `hiding` are variables to remove there, because an SDK would heed them instead. `logs` is the directory with the log
    of each function.
    """

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self.arguments = list(arguments)
        self.environment: Dict[str, str] = {}
        self.hiding: List[str] = []
        self._directory: Optional[Path] = None
        self._process: Optional["subprocess.Popen[bytes]"] = None

    @property
    def logs(self) -> Path:
        """The directory with the logs, until the block ends."""
        assert self._directory is not None, "the stack is not running"
        return self._directory / "logs"

    def client_arguments(self, service: str) -> Dict[str, Any]:
        """Arguments for boto3.client: the endpoint of `dynamodb`, `lambda` or `stepfunctions`, the Region, and credentials."""
        name = {"stepfunctions": "SFN"}.get(service, service.upper())
        return {
            "endpoint_url": self.environment[f"AWS_ENDPOINT_URL_{name}"],
            "region_name": self.environment["AWS_REGION"],
            "aws_access_key_id": self.environment["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": self.environment["AWS_SECRET_ACCESS_KEY"],
            "aws_session_token": self.environment["AWS_SESSION_TOKEN"],
        }

    def __enter__(self) -> Stack:
        self._directory = Path(tempfile.mkdtemp(prefix="leasehold-local-"))
        try:
            self._start(self._directory)
        except BaseException:
            self._end()
            raise
        return self

    def _start(self, directory: Path) -> None:
        command: List[str] = [str(PROGRAM), "up", "--end-with-stdin", "--run-directory", str(directory), *self.arguments]
        with (directory / OUTPUT).open("w", encoding="utf-8") as output:
            # A session of its own: a Ctrl-C is for this process, which then ends the stack in order. If this process dies, its end
            # of the pipe closes, and that ends the stack.
            self._process = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=output,
                                             stderr=subprocess.STDOUT, start_new_session=True)
        while not any(line.startswith(READY) for line in self._printed().splitlines()):
            if self._process.poll() is not None:
                raise StackFailed(self._printed().strip())
            time.sleep(0.05)
        for line in (directory / "env.sh").read_text(encoding="utf-8").splitlines():
            command, *words = shlex.split(line)
            if command == "unset":
                self.hiding = words
            else:
                name, _, value = words[0].partition("=")
                self.environment[name] = value

    def _printed(self) -> str:
        assert self._directory is not None, "the stack is not running"
        return (self._directory / OUTPUT).read_text(encoding="utf-8", errors="replace")

    def _end(self) -> Optional[str]:
        """Ends the stack. Returns what it printed if it had failed before."""
        process, directory, failure = self._process, self._directory, None
        if process is not None:
            if process.poll() not in (None, 0):
                failure = self._printed().strip()
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
        self._process = self._directory = None
        self.environment = {}
        return failure

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        failure = self._end()
        if failure is not None and error is None:
            raise StackFailed(failure)
