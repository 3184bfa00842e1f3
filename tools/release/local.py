"""Leasehold on this machine, from a release alone: no AWS account, Docker, Rust or AWS CLI. Linux, and Python 3.10 or later.

    python3 local/run.py                                    start the stack, and keep it until Ctrl-C
    python3 local/run.py start critical-section '{"key": "orders/7", "ttl_seconds": 60}'
                                                            start an execution there, wait for its end, print its output
    python3 local/run.py invoke acquire events/acquire.json
                                                            invoke a function there, print its response

AWS is emulated. MiniStack (https://pypi.org/project/ministack) is the S3, CloudFormation, Lambda, DynamoDB and IAM. It runs the
programs in this release's zips as processes of yours. Step Functions is the engine in local/asl, which is moto's with patches.
Both listen on 127.0.0.1 only, refuse web pages and everybody without the token of this start,
and forget everything when they end. Roles are created, but allow and deny nothing. There are no
alarms and no dashboard. No event is sent when an execution ends, so nothing invokes reap.

The first start fetches the packages in two requirements.txt, by their hashes, into ~/.cache/leasehold-local.
"""

import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import importlib.util
import io
import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

# Nothing is written into the release, so that SHA256SUMS keeps naming all of it.
sys.dont_write_bytecode = True

HERE = Path(__file__).resolve().parent
DIST = HERE.parent
REGION, ACCOUNT, STACK, BUCKET = "us-east-1", "123456789012", "leasehold", "releases"
ARCHITECTURE = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}.get(os.uname().machine)
LOCKS = {"emulator": HERE / "requirements.txt", "engine": HERE / "asl" / "requirements.txt"}
# The emulator compares a whole list with the AllowedValues of its items, takes an empty list for one with items in a
# condition, and has no alarms on metric math.
NOT_HERE = {"ReapStatuses": "SUCCEEDED", "Monitoring": "disabled",
            **{name + "StateMachine": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{STACK}_{name.lower()}_*" for name in ["Leasing", "Started", "Wrapped"]}}
# The user's function, which the sample machines run.
STEP = """import time

def handler(event, context):
    time.sleep((event.get("work") or {}).get("seconds", 0))
    return {"step": event.get("step"), "token": (event.get("lease") or {}).get("fencing_token")}
"""
# A state machine of the user's, for with-lease. Its input {"seconds": 5} says how long it works.
SAMPLE = "wrapped_sample"
PR_SET_PDEATHSIG, LIBC = 1, ctypes.CDLL(None)


class Failed(Exception):
    """What the user reads instead of a traceback."""


def end_with_parent():
    """In a child process: kill -9 of this process ends it too."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def client(service, url):
    # Not at the top, because the Python that runs this file may lack it until `prepare` has run.
    import botocore.session
    from botocore.config import Config

    return botocore.session.Session().create_client(
        service, region_name=REGION, endpoint_url=url, aws_access_key_id="test", aws_secret_access_key="test",
        aws_session_token=os.environ["AWS_SESSION_TOKEN"],
        config=Config(retries={"max_attempts": 0}, read_timeout=120, s3={"addressing_style": "path"}))


class Emulator:
    """The emulator and the engine, and the stack in them. Their files are below one directory, which `end` removes."""

    def __init__(self, directory, emulator_python, engine_python, ports):
        """Starts both, on these two ports of 127.0.0.1."""
        self.url, self.states_url = (f"http://127.0.0.1:{port}" for port in ports)
        self.scratch, self.processes = tempfile.mkdtemp(prefix="run-", dir=directory), {}
        self.log = open(Path(self.scratch) / "log", "wb")
        self._start("engine", [engine_python, HERE / "asl" / "engine.py", "--port", str(ports[1])], {
            "AWS_ENDPOINT_URL_LAMBDA": self.url, "AWS_ENDPOINT_URL_DYNAMODB": self.url})
        self._start("emulator", [emulator_python, HERE / "emulator.py"], {
            "STATE_DIR": self.scratch, "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(ports[0]), "MINISTACK_REGION": REGION, "LOG_LEVEL": "WARNING",
            # The functions inherit these two. Waiters wait in the engine.
            "AWS_ENDPOINT_URL": self.url, "AWS_ENDPOINT_URL_SFN": self.states_url,
            # It would end containers of other programs.
            "DOCKER_HOST": "unix:///nonexistent",
            "MINISTACK_ACCOUNT_ID": ACCOUNT})

    def _start(self, name, command, environment):
        """In a session of its own, so that Ctrl-C does not reach it, and `end` reaches the functions that it runs."""
        base = {"PATH": os.environ["PATH"], "HOME": self.scratch, "TMPDIR": self.scratch, "PYTHONDONTWRITEBYTECODE": "1",
                "AWS_SESSION_TOKEN": os.environ["AWS_SESSION_TOKEN"]}
        self.processes[name] = subprocess.Popen(
            command, env={**base, **environment}, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True,
            preexec_fn=end_with_parent)

    def client(self, service):
        return client(service, self.url)

    def check(self):
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise Failed(f"the {name} has ended with status {process.returncode}. The end of its log:\n{self._log()}")

    def _log(self):
        return Path(self.log.name).read_text(encoding="utf-8", errors="replace")[-2000:]

    def wait(self):
        """Until both respond."""
        from botocore.exceptions import BotoCoreError, ClientError

        for _ in range(240):
            self.check()
            try:
                self.client("s3").list_buckets()
                return client("stepfunctions", self.states_url).list_state_machines()
            except (BotoCoreError, ClientError):
                time.sleep(0.5)
        raise Failed(f"the emulator does not respond. The end of its log:\n{self._log()}")

    def install(self):
        """The stack, as the README of the release says, with a function and a state machine of the user's."""
        step = self._create_step()
        s3, cloudformation = self.client("s3"), self.client("cloudformation")
        s3.create_bucket(Bucket=BUCKET)
        prefix = f"{DIST.name}/"
        for path in sorted(DIST.rglob("*")):
            if path.is_file():
                s3.put_object(Bucket=BUCKET, Key=prefix + str(path.relative_to(DIST)), Body=path.read_bytes())
        given = {"CodeBucket": BUCKET, "CodePrefix": prefix, "Architecture": ARCHITECTURE, "StepFunctionArn": step, **NOT_HERE}
        cloudformation.create_stack(
            StackName=STACK, Capabilities=["CAPABILITY_IAM"], TemplateURL=f"https://s3.{REGION}.amazonaws.com/{BUCKET}/{prefix}leasehold.json",
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()])
        for _ in range(480):
            stack = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
            if not stack["StackStatus"].endswith("_IN_PROGRESS"):
                break
            time.sleep(0.5)
        if stack["StackStatus"] != "CREATE_COMPLETE":
            events = cloudformation.describe_stack_events(StackName=STACK)["StackEvents"]
            failed = [f"{one['LogicalResourceId']}: {one.get('ResourceStatusReason')}" for one in events if "FAILED" in one["ResourceStatus"]]
            raise Failed(f"the stack is {stack['StackStatus']}: {failed}")
        self.outputs = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}
        self.machines = self._create_machines(step)

    def _create_step(self):
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("step.py", STEP)
        self.role = self.client("iam").create_role(RoleName="local", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        return self.client("lambda").create_function(
            FunctionName="step", Runtime="python3.12", Role=self.role, Handler="step.handler", Timeout=900,
            Code={"ZipFile": code.getvalue()})["FunctionArn"]

    def _create_machines(self, step):
        """In the engine, each as the stack has it: the emulator supports neither RedriveCount nor a time limit in JSONata."""
        created, states = self.client("stepfunctions"), client("stepfunctions", self.states_url)
        machines = {}
        for listed in created.list_state_machines()["stateMachines"]:
            machine = created.describe_state_machine(stateMachineArn=listed["stateMachineArn"])
            made = states.create_state_machine(name=machine["name"], definition=machine["definition"], roleArn=machine["roleArn"])
            if made["stateMachineArn"] != machine["stateMachineArn"]:
                raise Failed(f"{machine['stateMachineArn']} is {made['stateMachineArn']} in the engine")
            machines[machine["name"].removeprefix(f"{STACK}-")] = made["stateMachineArn"]
        sample = {"QueryLanguage": "JSONata", "StartAt": "Work", "States": {"Work": {
            "Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Output": "{% $states.result.Payload %}", "End": True,
            "Arguments": {"FunctionName": step, "Payload": {"step": "sample", "work": "{% $states.input %}"}}}}}
        made = states.create_state_machine(name=f"{STACK}_{SAMPLE}", definition=json.dumps(sample), roleArn=self.role)
        return {**machines, SAMPLE: made["stateMachineArn"]}

    def end(self):
        for process in reversed(self.processes.values()):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                pass
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.log.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


def invoke(url, outputs, function, event):
    """The function's response, and whether it is an error."""
    arn = outputs.get(f"{function.capitalize()}FunctionArn")
    if not arn:
        raise Failed(f"there is no function {function}")
    answer = client("lambda", url).invoke(FunctionName=arn, Payload=json.dumps(event))
    return json.loads(answer["Payload"].read()), "FunctionError" in answer


def ended(url, execution, limit=None):
    """The execution as described once it no longer runs. `limit` is in seconds."""
    states, until = client("stepfunctions", url), time.monotonic() + (limit or float("inf"))
    while time.monotonic() < until:
        described = states.describe_execution(executionArn=execution)
        if described["status"] != "RUNNING":
            return described
        time.sleep(0.25)
    raise Failed(f"{execution} still runs")


def free_ports():
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def usable_ports(first):
    for port in (first, first + 1):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", port))
            except (OSError, OverflowError) as error:
                raise Failed(f"port {port} cannot be used; choose another --port, or leave it out: {error}") from None
    return first, first + 1


def check_machine():
    if not sys.platform.startswith("linux") or not ARCHITECTURE:
        raise Failed(f"this is {os.uname().sysname} on {os.uname().machine}; the functions are built for Linux on x86_64 and arm64 (aarch64)")
    if sys.version_info < (3, 10):
        raise Failed(f"this is Python {sys.version.split()[0]}; the emulator needs 3.10 or later: python3.12 {sys.argv[0]}")
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        raise Failed("this Python cannot create virtual environments. On Debian and Ubuntu: sudo apt install python3-venv")
    wanted = ["leasehold.json", "samples.json", *LOCKS.values()]
    template = json.loads((DIST / "leasehold.json").read_text(encoding="utf-8")) if (DIST / "leasehold.json").exists() else {"Resources": {}}
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function":
            name = resource["Properties"]["Code"]["S3Key"]["Fn::Sub"]
            wanted.append(name.replace("${CodePrefix}", "").replace("${Architecture}", ARCHITECTURE))
    missing = [str(name) for name in wanted if not (DIST / name).exists()]
    if missing:
        raise Failed(f"{DIST} lacks {', '.join(missing)}. It has to be a whole release that was built for {ARCHITECTURE}")


def environment(directory, lock):
    """A virtual environment with exactly the packages of the lock. It is made once for each lock and each Python."""
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode() + sys.prefix.encode()).hexdigest()[:12]
    return directory / f"packages-{digest}"


def prepare(directory):
    for name, lock in LOCKS.items():
        place = environment(directory, lock)
        if (place / "complete").exists():
            continue
        say(f"Installing the packages of the {name} in {place}")
        # What an interrupted start has left.
        shutil.rmtree(place, ignore_errors=True)
        install = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--require-hashes", "-r", lock]
        for command in ([sys.executable, "-m", "venv", place], install):
            if subprocess.run(command, check=False, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent).returncode != 0:
                raise Failed(f"this failed, for the reason above: {shlex.join(map(str, command))}")
        (place / "complete").touch()


def use(directory):
    """Makes the emulator's packages importable here."""
    place = environment(directory, LOCKS["emulator"])
    sys.path[:0] = map(str, place.glob("lib/python*/site-packages"))


def say(line):
    print(line, flush=True)


@contextlib.contextmanager
def alone(directory):
    """Yields whether no other process has this directory; kill -9 frees it."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(directory / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def up(directory, port):
    check_machine()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with alone(directory) as free:
        if not free:
            raise Failed(f"another stack runs in {directory}, or is starting there. Use that one, or give --directory another")
        for left in directory.glob("run-*"):
            shutil.rmtree(left, ignore_errors=True)
        for left in ("stack.json", "env.sh"):
            (directory / left).unlink(missing_ok=True)
        ports = usable_ports(port) if port else free_ports()
        prepare(directory)
        use(directory)
        # Both refuse requests without it, because a web page in a browser here can send some: see asl/guard.py.
        os.environ["AWS_SESSION_TOKEN"] = secrets.token_hex(16)
        say("Starting the emulator and the engine")
        emulator = Emulator(directory, *(environment(directory, lock) / "bin" / "python" for lock in LOCKS.values()), ports)
        try:
            emulator.wait()
            say("Creating the stack")
            emulator.install()
            tell(directory, emulator)
            while True:
                emulator.check()
                time.sleep(0.5)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            for left in ("stack.json", "env.sh"):
                (directory / left).unlink(missing_ok=True)
            emulator.end()


def this(directory):
    """The command that the user types."""
    also = "" if directory == default_directory() else f" --directory {shlex.quote(str(directory))}"
    return f"python3 {shlex.quote(os.path.relpath(__file__))}{also}"


def write_privately(path, text):
    """A new file that no other user can read, because it has the token."""
    with open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)


def tell(directory, emulator):
    """Writes what other processes need, and prints what to do next."""
    variables = {
        "AWS_ENDPOINT_URL": emulator.url, "AWS_ENDPOINT_URL_SFN": emulator.states_url, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": os.environ["AWS_SESSION_TOKEN"],
        "LEASE_TABLE": emulator.outputs["LeaseTableName"]}
    write_privately(directory / "env.sh", "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()))
    kept = {"token": os.environ["AWS_SESSION_TOKEN"], "url": emulator.url, "states_url": emulator.states_url, "outputs": emulator.outputs, "machines": emulator.machines}
    write_privately(directory / "stack.json", json.dumps(kept, indent=1))
    program = shlex.quote(os.path.relpath(DIST / "bin" / f"leasehold-linux-{ARCHITECTURE}"))
    machines = "\n".join(f"  {arn}" for arn in emulator.machines.values())
    say(f"""
The stack runs.

  Step Functions (the engine)         {emulator.states_url}
  Lambda, DynamoDB, S3 and the rest   {emulator.url}
  log                                 {emulator.log.name}

State machines:
{machines}

In a second terminal, in this directory, run a first workflow under a lease. It takes 8 seconds:
  {this(directory)} start critical-section '{{"key": "orders/7", "ttl_seconds": 60, "first": {{"seconds": 5}}, "second": {{"seconds": 3}}}}'

Watch the lease meanwhile, in a third terminal:
  . {shlex.quote(str(directory / 'env.sh'))}
  {program} watch

Ctrl-C here ends the stack, and all that is in it.""")


def running(directory):
    with alone(directory) as free:
        try:
            stack = None if free else json.loads((directory / "stack.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            stack = None
    if not stack:
        raise Failed(f"no stack runs in {directory}. Start one, and wait until it says so: {this(directory)}")
    use(directory)
    os.environ["AWS_SESSION_TOKEN"] = stack["token"]
    return stack


def read_json(text):
    """A file, or JSON itself."""
    try:
        return json.loads(text if text.lstrip().startswith(("{", "[", '"')) else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failed(f"{text} is neither JSON nor a file with JSON: {error}") from None


def start_command(directory, machine, text):
    """Whether the execution succeeded."""
    given, stack = read_json(text), running(directory)
    arn = stack["machines"].get(machine, machine)
    if not arn.startswith("arn:"):
        raise Failed(f"there is no state machine {machine}, but {', '.join(stack['machines'])}")
    states = client("stepfunctions", stack["states_url"])
    execution = states.start_execution(stateMachineArn=arn, input=json.dumps(given))["executionArn"]
    say(execution)
    described = ended(stack["states_url"], execution)
    say(described["status"])
    said = ("output",) if described["status"] == "SUCCEEDED" else ("error", "cause")
    say("\n".join(described[name] for name in said if described.get(name)))
    return described["status"] == "SUCCEEDED"


def invoke_command(directory, function, text):
    """Whether the function responded with no error."""
    event, stack = read_json(text), running(directory)
    answer, failed = invoke(stack["url"], stack["outputs"], function, event)
    say(json.dumps(answer, indent=2))
    return not failed


def default_directory():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leasehold-local"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=default_directory(),
                        help="where packages and files of the stack are [default: %(default)s]")
    parser.add_argument("--port", type=int, help="the emulator's port; the engine has the next [default: free ones]")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    start = commands.add_parser("start", help="start an execution in the running stack, and wait for its end")
    start.add_argument("machine", help="its name without leasehold, or its ARN")
    start.add_argument("input", help="JSON, or a file with it")
    call = commands.add_parser("invoke", help="invoke a function of the running stack")
    call.add_argument("function", help="acquire, extend, release, inspect, operate, sweep or reap")
    call.add_argument("event", help="JSON, or a file with it")
    given = parser.parse_args()
    directory = given.directory.absolute()
    try:
        if given.command == "start":
            sys.exit(0 if start_command(directory, given.machine, given.input) else 1)
        elif given.command == "invoke":
            sys.exit(0 if invoke_command(directory, given.function, given.event) else 1)
        else:
            up(directory, given.port)
    except (Failed, OSError) as failed:
        sys.exit(f"{Path(sys.argv[0]).name}: {failed}")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # A refusal, or a stack that has just ended.
        if not type(error).__module__.startswith("botocore."):
            raise
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")


if __name__ == "__main__":
    main()
