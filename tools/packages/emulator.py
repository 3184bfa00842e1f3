"""CloudFormation, S3 and Lambda on this machine, for test_cdk.py: MiniStack, a third-party emulator, on 127.0.0.1 and a free port.

It runs this file, to refuse everybody without the session token of its start: by itself it would run what any web page uploads.
Functions run as processes. Nothing is checked against roles, and nothing stays after the end.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

REGION, ACCOUNT = "us-east-1", "123456789012"
# The emulator compares a whole list with the AllowedValues of its items, takes an empty list for one with items in a condition,
# and has no alarms on metric math.
NOT_HERE = {"ReapStatuses": "SUCCEEDED", "Monitoring": "disabled",
            "StartedStateMachine": f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:other_*"}


def serve():
    """In the emulator's process."""
    from ministack import app as ministack

    application, token = ministack.app, os.environ["AWS_SESSION_TOKEN"].encode()

    async def guarded(scope, receive, send):
        headers = dict(scope.get("headers", []))
        if scope["type"] == "lifespan" or headers.get(b"x-amz-security-token") == token:
            return await application(scope, receive, send)
        await send({"type": "http.response.start", "status": 403, "headers": []})
        return await send({"type": "http.response.body", "body": b""})

    ministack.app = guarded
    ministack.main()


class Emulator:
    def __init__(self, python):
        """`python` has the packages of requirements-emulator.txt."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url, self.token, self.scratch = f"http://127.0.0.1:{port}", secrets.token_hex(16), tempfile.mkdtemp()
        self.log = open(Path(self.scratch) / "log", "wb")
        environment = {
            "PATH": os.environ["PATH"], "HOME": self.scratch, "TMPDIR": self.scratch, "STATE_DIR": self.scratch, "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port), "MINISTACK_REGION": REGION, "MINISTACK_ACCOUNT_ID": ACCOUNT, "LOG_LEVEL": "WARNING",
            # The functions inherit these two.
            "AWS_SESSION_TOKEN": self.token, "AWS_ENDPOINT_URL": self.url,
            # It would end containers of other programs.
            "DOCKER_HOST": "unix:///nonexistent"}
        self.process = subprocess.Popen(
            [python, __file__], env=environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)

    def __enter__(self):
        for _ in range(240):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", int(self.url.rpartition(":")[2]))) == 0:
                    return self
            if self.process.poll() is not None:
                break
            time.sleep(0.25)
        self.__exit__()
        raise RuntimeError("the emulator does not respond")

    def __exit__(self, *_):
        """Ends the functions too, which are in its session."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def client(self, service):
        import botocore.session
        from botocore.config import Config

        return botocore.session.Session().create_client(
            service, region_name=REGION, endpoint_url=self.url, aws_access_key_id="test", aws_secret_access_key="test", aws_session_token=self.token,
            config=Config(retries={"max_attempts": 0}, read_timeout=120, s3={"addressing_style": "path"}))

    def deploy(self, assembly, stack):
        """What `cdk deploy` does after synth: the assets go where their manifest says, and the stack is created. Returns its outputs."""
        s3, cloudformation = self.client("s3"), self.client("cloudformation")
        self.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String", Overwrite=True)
        for asset in json.loads((assembly / f"{stack}.assets.json").read_text(encoding="utf-8"))["files"].values():
            for where in asset["destinations"].values():
                bucket = where["bucketName"].replace("${AWS::AccountId}", ACCOUNT).replace("${AWS::Region}", REGION)
                s3.create_bucket(Bucket=bucket)
                content = (assembly / asset["source"]["path"]).read_bytes()
                if asset["source"]["path"] == f"{stack}.template.json":
                    content, top = adapted(content), f"https://s3.{REGION}.amazonaws.com/{bucket}/{where['objectKey']}"
                s3.put_object(Bucket=bucket, Key=where["objectKey"], Body=content)
        cloudformation.create_stack(StackName=stack, TemplateURL=top, Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"])
        for _ in range(480):
            described = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
            if not described["StackStatus"].endswith("_IN_PROGRESS"):
                break
            time.sleep(0.25)
        if described["StackStatus"] != "CREATE_COMPLETE":
            events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
            failed = [f"{one['LogicalResourceId']}: {one.get('ResourceStatusReason')}" for one in events if "FAILED" in one["ResourceStatus"]]
            raise AssertionError(f"the stack is {described['StackStatus']}: {failed}")
        return {one["OutputKey"]: one["OutputValue"] for one in described.get("Outputs", [])}


def adapted(template):
    """A stack that nests Leasehold, with the parameters that the emulator needs."""
    read = json.loads(template)
    for resource in read["Resources"].values():
        if resource["Type"] == "AWS::CloudFormation::Stack":
            resource["Properties"]["Parameters"] = {**NOT_HERE, **resource["Properties"].get("Parameters", {})}
    return json.dumps(read).encode()


if __name__ == "__main__":
    serve()
