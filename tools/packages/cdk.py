"""Builds the packages of clients/cdk from a release's zips: a tgz for npm, and by jsii a wheel for PyPI.

    python tools/packages/cdk.py dist/leasehold-0.1.0 DESTINATION
    python tools/packages/cdk.py --types       only compiles, and checks the types of the tests and of examples/cdk

The sources are copied to target/packages/cdk and get the assets there: the zips, the templates of local/ and templates/statemachines/.
Node, and what the wheel is built with, are those of the pinned tools (tools/tools.mk).
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import clients
from clients import ROOT

COPY = ROOT / "target" / "packages" / "cdk"
TEMPLATES = ["template.json", "monitoring.json", "samples.json"]
ARCHITECTURES = ["arm64", "x86_64"]
# What jsii requires of package.json, and the packages do not say: one licence, and a repository, which there is none of yet.
LICENCE, NOWHERE = "Apache-2.0", {"type": "git", "url": "."}


def stage():
    """The sources, and the packages that they need."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(ROOT / "clients" / "cdk", COPY, ignore=shutil.ignore_patterns("node_modules", "test"), copy_function=shutil.copyfile)
    (COPY / "node_modules").symlink_to(clients.node_modules("cdk", ROOT / "clients" / "cdk"))


def fill(assets, dist):
    shutil.copytree(ROOT / "templates" / "statemachines", assets / "templates" / "statemachines", copy_function=shutil.copyfile)
    for name in TEMPLATES:
        shutil.copyfile(ROOT / "local" / name, assets / name)
    (assets / "functions").mkdir()
    # A test on one machine may have built for its own instruction set only.
    built = [one for one in ARCHITECTURES if (dist / "functions" / f"acquire-{one}.zip").exists()] or ARCHITECTURES
    for name in sorted(path.name for path in (ROOT / "functions").iterdir()):
        for architecture in built:
            zipped = f"{name}-{architecture}.zip"
            shutil.copyfile(dist / "functions" / zipped, assets / "functions" / zipped)


def path_of_node(directory):
    """A PATH with node and npm, of which the wheel of Node has the second under no name that works. Writes into the directory."""
    home = clients.node_home()
    for name, program in (("npm", "npm-cli.js"), ("npx", "npx-cli.js")):
        shim = directory / name
        shim.write_text(f'#!/bin/sh\nexec "{home}/bin/node" "{home}/lib/node_modules/npm/bin/{program}" "$@"\n', encoding="utf-8")
        shim.chmod(0o755)
    return f"{directory}:{home / 'bin'}"


def run(program, *arguments):
    """Runs a Node program of the packages. jsii-pacmak calls npm."""
    shims = COPY / "bin"
    shims.mkdir(exist_ok=True)
    environment = {**os.environ, "PATH": f"{path_of_node(shims)}:{os.environ['PATH']}"}
    subprocess.run([COPY / "node_modules" / ".bin" / program, *arguments], cwd=COPY, env=environment, check=True)


def compile_it():
    """Writes lib/ and .jsii, and package.json as jsii wants it."""
    package = COPY / "package.json"
    wanted = {"repository": NOWHERE, **json.loads(package.read_text(encoding="utf-8")), "license": LICENCE}
    package.write_text(json.dumps(wanted, indent=2), encoding="utf-8")
    run("jsii", "--silence-warnings", "reserved-word")


def build_wheel(destination):
    """From the sources that jsii-pacmak writes; they contain the tgz. setuptools is that of the pinned tools."""
    run("jsii-pacmak", "--code-only", "--targets", "python", "--outdir", COPY / "dist")
    sources = COPY / "dist" / "python"
    setup = (sources / "setup.py").read_text(encoding="utf-8")
    setup = setup.replace(f'"license": "{LICENCE}"', '"license": "MIT OR Apache-2.0"')
    setup = re.sub(r'    ("url": "[.]"|"project_urls": \{\s*"Source": "[.]"\s*\}),\n', "", setup)
    (sources / "setup.py").write_text(setup, encoding="utf-8")
    (sources / "LICENSE").unlink()
    for path in COPY.glob("LICENSE-*"):
        shutil.copyfile(path, sources / path.name)
    tools = clients.node_home().parents[3] / "bin" / "python"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": clients.EPOCH}
    subprocess.run([tools, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index",
                    "--wheel-dir", destination, sources], env=environment, check=True)


def build(dist, destination):
    dist, destination = Path(dist).resolve(), Path(destination).resolve()
    destination.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)  # The modes of files are part of the packages.
    stage()
    fill(COPY / "assets", dist)
    compile_it()
    build_wheel(destination)
    shutil.copyfile(ROOT / "clients" / "cdk" / "package.json", COPY / "package.json")
    clients.npm("pack", "--ignore-scripts", "--pack-destination", destination, cwd=COPY, stdout=subprocess.DEVNULL)


def check_types():
    stage()
    compile_it()
    user = shutil.copytree(ROOT / "examples" / "cdk", COPY / "user", ignore=shutil.ignore_patterns("node_modules"))
    for path in (ROOT / "clients" / "cdk" / "test").iterdir():
        shutil.copy(path, user / "bin")
    (user / "node_modules").mkdir()
    (user / "node_modules" / "leasehold-cdk").symlink_to(COPY)
    run("tsc", "--project", user)


if __name__ == "__main__":
    check_types() if sys.argv[1:] == ["--types"] else build(*sys.argv[1:])
