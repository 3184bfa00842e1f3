"""Builds the wheel of leasehold-local for one instruction set, from the programs in a directory: `NAME` or `NAME/bootstrap` each.

    python tools/packages/local.py target/lambda x86_64 DESTINATION
    python tools/packages/local.py target/debug x86_64 DESTINATION         quickly, for a machine like this one
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import clients

ROOT = clients.ROOT
SOURCES = ROOT / "local" / "python"
PROGRAMS = ["leasehold", "leasehold-local", "step", *sorted(path.name for path in (ROOT / "functions").iterdir())]


def program(directory, name):
    built = [path for path in (directory / name / "bootstrap", directory / name) if path.is_file()]
    if not built:
        raise SystemExit(f"{directory}: no program {name}")
    return built[0]


def fill(package, programs):
    """Adds the programs, and what they read of the repository."""
    (package / "bin").mkdir()
    for name in PROGRAMS:
        target = package / "bin" / name
        shutil.copyfile(program(programs, name), target)
        # Built for tests, a program is mostly debug information.
        subprocess.run(["strip", target], check=False, stderr=subprocess.DEVNULL)
        target.chmod(0o755)
    home = package / "home"
    for pattern in ("local/*.json", "local/asl/*.py", "templates/statemachines/*.asl.json"):
        for path in ROOT.glob(pattern):
            target = home / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def needed(package):
    """The minor version of the C library that the programs need, and at least that of the oldest tag."""
    versions = [re.findall(rb"GLIBC_2[.](\d+)", path.read_bytes()) for path in (package / "bin").iterdir()]
    return max([17, *(int(minor) for found in versions for minor in found)])


def dependencies():
    """What the engine needs, as local/asl/requirements.in lists it."""
    lines = (ROOT / "local" / "asl" / "requirements.in").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def build(programs, cpu, destination):
    destination.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sources = shutil.copytree(SOURCES, Path(folder) / "local", ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile)
        fill(sources / "leasehold_local", programs)
        for name in ("LICENSE-APACHE", "LICENSE-MIT"):
            shutil.copyfile(ROOT / name, sources / name)
        project = sources / "pyproject.toml"
        text = project.read_text(encoding="utf-8").replace("dependencies = []", f"dependencies = {dependencies()}")
        project.write_text(text, encoding="utf-8")
        backend = "import sys; from flit_core import buildapi as it; print(it.build_wheel(sys.argv[1]))"
        environment = {**os.environ, "SOURCE_DATE_EPOCH": clients.EPOCH}
        ran = subprocess.run([clients.python(), "-c", backend, folder], cwd=sources, env=environment, check=True, capture_output=True, text=True)
        wheel = Path(folder) / ran.stdout.split()[-1]
        # The backend knows only wheels for every platform.
        platform = f"manylinux_2_{needed(sources / 'leasehold_local')}_{cpu}"
        tags = [clients.node_home().parents[3] / "bin" / "wheel", "tags", "--platform-tag", platform, wheel]
        tagged = subprocess.run(tags, env=environment, check=True, capture_output=True, text=True).stdout.split()[-1]
        shutil.copyfile(Path(folder) / tagged, destination / tagged)
    return destination / tagged


if __name__ == "__main__":
    print(build(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
