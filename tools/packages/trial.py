"""What the tests of the packages have in common: the version, the code on a page, and commands in an environment that is nearly empty."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]


def blocks(page, language=None):
    """The code blocks of a page: those of one language, or language and text of all."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return found if language is None else [text for name, text in found if name == language]


def run(*command, cwd, **environment):
    """The output of a command that has to succeed. Of this environment it has what says how registries are reached, and not more."""
    kept = {name: value for name, value in os.environ.items() if name.lower().endswith(("_certs", "_cert", "_cert_file", "_proxy"))}
    given = {**kept, "PATH": "/usr/bin:/bin", "HOME": str(cwd), **environment}
    done = subprocess.run(command, cwd=cwd, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join(line[:300] for line in (done.stdout + done.stderr).splitlines()[-60:])
        raise AssertionError(f"{command} ended with status {done.returncode}\n{said}")
    return done.stdout
