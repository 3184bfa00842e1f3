"""Runs the test programs that cargo has built: one alone, then in two lanes those that mostly wait beside those that compute. Ends with one
line of counts, and with status 1 if a test failed, or if a test of the tree was not run. What failed is printed before that line; everything
is in target/tests/. Without a browser the program that needs one is left out, which the last line says.

    cargo test --workspace --no-run --message-format=json-render-diagnostics | python3 tools/tests.py [COMMAND...]

A COMMAND is one more job of the lane that computes, such as "cargo test --doc".
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

LOGS = Path("target/tests")
# First, and nothing beside it: each call to the interpreter of its stacks has a limit of half a second, thrice, which a busy machine
# does not keep; and what is left to sweep then is left for good, where no sweep runs.
ALONE = ["machines"]
# Those that wait most of their time: for executions, deadlines, processes. The longest first.
WAITING = ["real", "wiring", "commands", "console", "pages", "demo", "up", "deaths", "race", "roles", "local", "doctor"]
# Those that need a browser and its driver.
BROWSING = ["console"]
# How many programs of a lane run at once, and how many tests of each. More, and time limits of seconds are not kept.
LANES = {"alone": (1, os.cpu_count()), "waiting": (1, 2 * os.cpu_count()), "computing": (1, os.cpu_count())}
# More than any takes on a busy machine. What hangs is ended, and has failed.
LIMIT = 1200
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
RAN = re.compile(r"^test (?:\S+::)?(\w+)(?: - should panic)? \.\.\. ", re.MULTILINE)
WRITTEN = re.compile(r"^\s*#\[(?:tokio::)?test\b[^\n]*\]\n(?:\s*(?:#\[|//)[^\n]*\n)*\s*(?:pub )?(?:async )?fn (\w+)", re.MULTILINE)
TIMED = re.compile(r"^test (.*) \.\.\. ok <([0-9.]+)s>$", re.MULTILINE)


class Job:
    def __init__(self, name, command, directory):
        self.name, self.command, self.directory, self.output = name, command, directory, ""
        self.log = LOGS / f"{name}.log"
        self.counts = [0, 0, 0]

    def run(self, threads):
        environment = {"RUST_TEST_THREADS": str(threads), **os.environ}
        # Allows the harness unstable options, by which it reports times; for the compiler nothing may be different.
        if self.command[0] != "cargo":
            environment["RUSTC_BOOTSTRAP"] = "1"
        began = time.monotonic()
        with self.log.open("w", encoding="utf-8") as log:
            process = subprocess.Popen(self.command, cwd=self.directory, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            RUNNING.add(process)
            try:
                status = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
                log.write(f"\n{self.name}: ended after {LIMIT} s\n")
            RUNNING.discard(process)
        self.output = self.log.read_text(encoding="utf-8", errors="replace")
        found = [tuple(map(int, counts)) for counts in RESULT.findall(self.output)]
        self.counts = [sum(column) for column in zip(*found)] if found else [0, 0, 0]
        # A program that ended without a result, or by a signal, counts as one failed test.
        if status != 0 and self.counts[1] == 0:
            self.counts[1] = 1
        word = "FAILED" if self.counts[1] else "ok"
        print(f"{word:6}  {self.counts[0]:4} passed  {time.monotonic() - began:6.1f} s  {self.name}", flush=True)


RUNNING = set()


def built(lines):
    """The test programs that cargo tells of, and whether everything was built."""
    jobs, complete = [], False
    for line in lines:
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") == "build-finished":
            complete = message["success"]
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            kind = message["target"]["kind"][0]
            name, package = message["target"]["name"], Path(message["manifest_path"]).parent
            if name == "main":
                name = package.name
            if kind != "test":
                name = f"{name}-{kind}"
            command = [message["executable"], "-Zunstable-options", "--report-time"]
            jobs.append(Job(name, command, package))
    return jobs, complete


def not_run(jobs, left_out):
    """The tests that stand in the sources of the packages that were built, and that no program has named."""
    packages = {job.directory for job in jobs if job.directory != "."}
    ran = {name for job in jobs for name in RAN.findall(job.output)}
    missing = []
    for package in sorted(packages):
        for source in package.rglob("*.rs"):
            own = next(above for above in source.parents if (above / "Cargo.toml").exists())
            is_left_out = any(f"tests/{name}/" in source.as_posix() for name in left_out)
            if own == package and not is_left_out and "target" not in source.parts:
                names = WRITTEN.findall(source.read_text(encoding="utf-8"))
                missing += [f"{source.relative_to(package.parent)}: {name}" for name in names if name not in ran]
    return missing


def lane(jobs, at_once, threads):
    """Threads that run these jobs, from first to last."""
    left, lock = list(jobs), threading.Lock()

    def work():
        while True:
            with lock:
                if not left:
                    return
                job = left.pop(0)
            job.run(threads)

    return [threading.Thread(target=work, daemon=True) for _ in range(at_once)]


def main():
    jobs, complete = built(sys.stdin)
    if not complete or not jobs:
        sys.exit("tests: not everything was built")
    left_out = [] if shutil.which("chromedriver") else BROWSING
    jobs = [job for job in jobs if job.name not in left_out]
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    jobs += [Job(command.rpartition("-")[2], command.split(), ".") for command in sys.argv[1:]]
    waiting = sorted((job for job in jobs if job.name in WAITING), key=lambda job: WAITING.index(job.name))
    alone = [job for job in jobs if job.name in ALONE]
    computing = [job for job in jobs if job.name not in ALONE + WAITING]
    beside = lane(waiting, *LANES["waiting"]) + lane(computing, *LANES["computing"])
    for threads in lane(alone, *LANES["alone"]), beside:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    slowest = sorted(((float(seconds), name, job.name) for job in jobs for name, seconds in TIMED.findall(job.output)), reverse=True)
    print("the slowest ten:", *(f"{seconds:8.1f} s  {job}: {name}" for seconds, name, job in slowest[:10]), sep="\n")
    for job in jobs:
        if job.counts[1]:
            # From the first failure on: before it are the names of the tests.
            _, mark, failures = job.output.partition("\nfailures:\n")
            print(f"== {job.name}, {job.log}:", failures if mark else job.output[-20_000:], sep="\n")
    missing = not_run(jobs, left_out)
    if missing:
        print(f"== {len(missing)} tests were not run:", *missing, sep="\n  ")
    passed, failed, skipped = (sum(job.counts[place] for job in jobs) for place in range(3))
    counts = f"test: {passed} passed, {failed} failed, {skipped} skipped"
    if left_out:
        counts += f"; NOT RUN, because there is no chromedriver: {', '.join(left_out)}"
    (LOGS / "counts").write_text(f"{counts}\n", encoding="utf-8")
    print(counts, flush=True)
    sys.exit(1 if failed or missing else 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        for process in RUNNING:
            os.killpg(process.pid, signal.SIGTERM)
        sys.exit(130)
