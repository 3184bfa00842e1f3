"""What each lever of the cold start gives: builds the acquire function and the plain one in variants, one after the
other, and lists zip, instructions from the start of the process to its first answer over TLS, how many of them are spent
before there is an event, and those per warm call.

Arguments: the program that counts and, for some of the variants only, a part of their names. Everything else is built
here, below target/levers; half an hour on a cold tree. What has been found stays in target/levers/levers.json.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile

SMALL = {"LTO": "fat", "CODEGEN_UNITS": "1", "STRIP": "symbols"}
# What cargo does by itself, with nothing set.
USUAL = {"LTO": "false", "CODEGEN_UNITS": "16", "STRIP": "debuginfo"}
QUIET = {"AWS_LC_SYS_NO_JITTER_ENTROPY": "1"}

VARIANTS = [
    ("plain", "plain, as cargo builds it (opt-level 3)", "3", USUAL, {}),
    ("plain", "plain, without jitter entropy", "3", USUAL, QUIET),
    ("plain", "plain, opt-level 3, LTO", "3", SMALL, {}),
    ("acquire", "ours, opt-level 3, LTO", "3", SMALL, {}),
    ("acquire", "ours, opt-level 2, LTO", "2", SMALL, {}),
    ("acquire", "ours, opt-level s, LTO", "s", SMALL, {}),
    ("acquire", "ours, opt-level z, LTO (shipped)", "z", SMALL, {}),
]


FOUND = "target/levers/levers.json"
FIELDS = ["program", "zip", "cold", "started", "warm"]
WIDTHS = [11, 11, 13, 13, 11]


def main(count, some=""):
    heads = [f"{head:>{width}}" for head, width in zip(["program", "zip", "cold, TLS", "of that start", "warm"], WIDTHS)]
    print(f"{'':<50} {' '.join(heads)}", flush=True)
    found = {}
    if os.path.exists(FOUND):
        with open(FOUND, encoding="utf-8") as file:
            found = {line["name"]: line for line in json.load(file)}
    for package, name, level, profile, more in VARIANTS:
        if some not in name:
            continue
        binary = build(package, level, profile, more)
        with tempfile.TemporaryDirectory() as place:
            archive = os.path.join(place, "function.zip")
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
                packed.write(binary, "bootstrap")
            zipped = os.path.getsize(archive)
        told = json.loads(subprocess.check_output([count, "--one", binary]))
        line = {
            "name": name,
            "program": os.path.getsize(binary),
            "zip": zipped,
            "cold": told["cold"]["instructions"],
            "started": told["cold"]["started"],
            "warm": round(told["invoked"]["warm"]),
        }
        found[name] = line
        keep([found[name] for _, name, *_ in VARIANTS if name in found])
        figures = [f"{line[field]:>{width},}" for field, width in zip(FIELDS, WIDTHS)]
        print(f"{name:<50} {' '.join(figures)}", flush=True)


def keep(found):
    with open(FOUND, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=2)


def build(package, level, profile, more):
    environment = {**os.environ, **more, "CARGO_PROFILE_RELEASE_OPT_LEVEL": level}
    for setting, value in profile.items():
        environment[f"CARGO_PROFILE_RELEASE_{setting}"] = value
    # What the C compiler is told by its build script is no part of cargo's fingerprint: a directory for each.
    quiet = "-quiet" if more else ""
    target = os.path.abspath(f"target/levers/{package}{quiet}")
    where = "proof/instructions/plain" if package == "plain" else "."
    command = ["cargo", "build", "--quiet", "--release", "--locked", "-p", package, "--target-dir", target]
    subprocess.run(command, cwd=where, env=environment, check=True)
    return f"{target}/release/{package}"


main(*sys.argv[1:])
