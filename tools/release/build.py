"""Fills dist/leasehold-<version>/, from which Leasehold is installed without Rust. `make dist` calls it, step by step:

    python tools/release/build.py pack DIRECTORY arm64     the functions and the command line that cargo-lambda has just built
    python tools/release/build.py finish DIRECTORY         everything else, and SHA256SUMS of all of it
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import quote

import templates

sys.path.insert(0, str(templates.ROOT / "tools" / "packages"))

import cdk  # noqa: E402
import clients  # noqa: E402

ROOT = templates.ROOT
BUILT = ROOT / "target" / "lambda"
FUNCTIONS = sorted(path.name for path in (ROOT / "functions").iterdir())
# Copied unchanged, if it exists.
COPIED = ["templates/statemachines", "events", "examples", "docs", "LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md"]
# So that the same sources give the same bytes, every entry has this time, the earliest that a zip can have.
FIRST = (1980, 1, 1, 0, 0, 0)


def pack(directory, architecture):
    functions = directory / "functions"
    functions.mkdir(parents=True, exist_ok=True)
    for name in FUNCTIONS:
        entry = zipfile.ZipInfo("bootstrap", FIRST)
        entry.external_attr, entry.create_system, entry.compress_type = 0o100755 << 16, 3, zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(functions / f"{name}-{architecture}.zip", "w") as archive:
            archive.writestr(entry, (BUILT / name / "bootstrap").read_bytes(), compresslevel=9)
    binary = directory / "bin" / f"leasehold-linux-{architecture}"
    binary.parent.mkdir(exist_ok=True)
    shutil.copy(BUILT / "leasehold" / "bootstrap", binary)
    binary.chmod(0o755)


def manual(directory, program):
    """The completions and the man pages, which the program itself writes."""
    completions = directory / "completions"
    completions.mkdir(exist_ok=True)
    for shell, name in (("bash", "leasehold.bash"), ("zsh", "_leasehold"), ("fish", "leasehold.fish")):
        (completions / name).write_bytes(subprocess.run([program, "completions", shell], check=True, capture_output=True).stdout)
    subprocess.run([program, "man", "--to", directory / "man"], check=True)


def runs_here(binary):
    try:
        return subprocess.run([binary, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def tree(*wanted):
    """Name and version of every package that is compiled into these, with their enabled features."""
    asked = ["cargo", "tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--target", "x86_64-unknown-linux-gnu", *wanted]
    lines = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {(line.split()[0], line.split()[1].removeprefix("v")) for line in lines if line}


def bill_of_materials():
    """In CycloneDX: every package that is compiled into a function or the command line for Linux."""
    asked = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(asked, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    needs = {
        node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        for node in metadata["resolve"]["nodes"]
    }
    compiled = tree(*(part for name in FUNCTIONS for part in ("-p", name))) | tree("-p", "leasehold-cli")
    reached = {name for name, package in packages.items() if (package["name"], package["version"]) in compiled}
    sums = {
        (name, version): checksum
        for name, version, checksum in re.findall(
            r'name = "(\S+)"\nversion = "(\S+)"\nsource = ".*"\nchecksum = "(\w+)"', (ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    }

    def purl(package):
        return f"pkg:cargo/{quote(package['name'])}@{quote(package['version'])}"

    def component(package):
        one = {"type": "library", "bom-ref": purl(package), "name": package["name"], "version": package["version"], "purl": purl(package)}
        if package["license"]:
            # Old packages write a slash for "or".
            one["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = sums.get((package["name"], package["version"]))
        if checksum:
            one["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return one

    chosen = sorted((packages[name] for name in reached), key=purl)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "leasehold", "version": templates.version()}},
        "components": [component(package) for package in chosen],
        "dependencies": [
            {"ref": purl(package), "dependsOn": sorted({purl(packages[need]) for need in needs[package["id"]] if need in reached})} for package in chosen
        ],
    }


def finish(directory):
    templates.main(directory)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, directory / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        elif source.exists():
            shutil.copy(source, directory / name)
    clients.build(directory / "packages")
    cdk.build(directory, directory / "packages")
    readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    (directory / "README.md").write_text(readme.replace("{version}", templates.version()), encoding="utf-8")
    binaries = [binary for binary in sorted((directory / "bin").iterdir()) if runs_here(binary)]
    if not binaries:
        raise SystemExit(f"{directory}/bin: none of them runs on this machine, so nothing can write completions and man pages")
    manual(directory, binaries[0].resolve())
    (directory / "sbom.cdx.json").write_text(json.dumps(bill_of_materials(), indent=1) + "\n", encoding="utf-8")
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(directory)}\n" for path in files]
    (directory / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    total = sum(os.path.getsize(path) for path in files)
    print(f"dist: {len(files)} files, {total / 1e6:.1f} MB, in {directory}")


if __name__ == "__main__":
    step, where, *more = sys.argv[1:]
    {"pack": pack, "finish": finish}[step](Path(where), *more)
