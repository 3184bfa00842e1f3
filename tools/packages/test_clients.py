"""Installs the packages of the clients as users do, in empty folders, and uses them. Arguments: the directory of the packages,
and the classes to run, if not all.

    python tools/packages/test_clients.py DIRECTORY
    python tools/packages/test_clients.py DIRECTORY Sources Python Node     without the wheel of leasehold-local

The oldest and the newest Node and Python that Lambda offers come from the lock of runtimes/. Those Pythons are CPython compiled to
WebAssembly: they have no threads, so they run no asynchronous acquire. proof/tests/clients.rs plays every scene on this machine's."""

import json
import platform
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
DIRECTORY = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(Path(__file__).parent))

import clients  # noqa: E402
from trial import VERSION, blocks, run  # noqa: E402

WHEEL, SDIST, TGZ = (DIRECTORY / f"leasehold-{VERSION}{end}" for end in ("-py3-none-any.whl", ".tar.gz", ".tgz"))
PYTHONS = {"oldest": "3.11", "newest": "3.15"}
NODES = {"oldest": "22", "newest": "26"}

# What a user writes. The functions are a small object, because this shows only that the package is found, typed, and runs.
PROGRAM_PY = '''
import io
import json
import sys

from leasehold import LeaseHeld, Leasehold

HANDLE = {"key": "orders/42", "holder": "me", "lease_id": "secret", "fencing_token": 7, "ttl_seconds": 60, "safe_until": "2999-01-01T00:00:00Z"}
HELD: dict[str, object] = {"errorType": "Lease.Held", "errorMessage": json.dumps({"message": "held", "holder": "me"})}
ANSWERS: list[dict[str, object]] = [
    {"lease": HANDLE, "grant": "new", "previous": None}, HELD, {"lease": HANDLE, "outcome": "extended"}, {"outcome": "released"}]


class Functions:
    def invoke(self, FunctionName: str, Payload: bytes) -> dict[str, object]:
        answer = ANSWERS.pop(0)
        return {"Payload": io.BytesIO(json.dumps(answer).encode()), **({"FunctionError": "Unhandled"} if answer is HELD else {})}


leases = Leasehold(Functions(), acquire="a", extend="e", release="r", holder="me")
with leases.lease("orders/42", ttl_seconds=60) as lease:
    token: int = lease.fencing_token
    try:
        leases.acquire("orders/42", ttl_seconds=60)
    except LeaseHeld as held:
        holder: object = held.details["holder"]
    outcome: str = lease.extend()
print(f"{sys.version_info.major}.{sys.version_info.minor}", token, holder, outcome, len(ANSWERS))
'''
PROGRAM_TS = '''
import { LeaseHeld, Leasehold, type Invoker } from "leasehold";

const handle = { key: "orders/42", holder: "me", lease_id: "secret", fencing_token: 7, ttl_seconds: 60, safe_until: "2999-01-01T00:00:00Z" };
const held = { errorType: "Lease.Held", errorMessage: JSON.stringify({ message: "held", holder: "me" }) };
const answers: object[] = [{ lease: handle, grant: "new", previous: null }, held, { lease: handle, outcome: "extended" }, { outcome: "released" }];
const functions: Invoker = {
  async invoke() {
    const answer = answers.shift()!;
    const Payload = Uint8Array.from([...JSON.stringify(answer)].map((one) => one.charCodeAt(0)));
    return answer === held ? { FunctionError: "Unhandled", Payload } : { Payload };
  },
};

const leases = new Leasehold(functions, { acquire: "a", extend: "e", release: "r", holder: "me" });
const told: [number, string, "extended" | "revived"] = await leases.withLease({ key: "orders/42", ttlSeconds: 60 }, async (lease) => {
  const error: unknown = await leases.acquire({ key: "orders/42", ttlSeconds: 60 }).catch((error: unknown) => error);
  const holder = error instanceof LeaseHeld ? String(error.details.holder) : "nobody";
  return [lease.fencingToken, holder, await lease.extend()];
});
export const result: string = [...told, answers.length].join(" ");
'''
RESULT = "7 me extended 0"
RUN_PYODIDE = '''
import { readFileSync } from "node:fs";
const [home, wheel, program] = process.argv.slice(2);
const { loadPyodide } = await import(`${home}/pyodide.mjs`);
const python = await loadPyodide({ indexURL: `${home}/` });
python.unpackArchive(new Uint8Array(readFileSync(wheel)), "wheel");
python.runPython(readFileSync(program, "utf8"));
'''


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    @classmethod
    def virtual_environment(cls):
        run(sys.executable, "-m", "venv", "user", cwd=cls.folder)
        return cls.folder / "user" / "bin"

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


class Sources(Case):
    def test_same_sources_give_same_bytes(self):
        clients.build(self.folder)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), sorted(path.name for path in (WHEEL, SDIST, TGZ)))
        for path in (WHEEL, SDIST, TGZ):
            self.assertEqual((self.folder / path.name).read_bytes(), path.read_bytes(), path.name)

    def test_metadata_has_version_and_needs(self):
        metadata = contents(WHEEL)[f"leasehold-{VERSION}.dist-info/METADATA"].decode()
        self.assertIn(f"\nVersion: {VERSION}\n", metadata)
        self.assertIn(f"\nRequires-Python: >={PYTHONS['oldest']}\n", metadata)
        self.assertNotIn("Requires-Dist", metadata)
        for version in PYTHONS.values():
            self.assertIn(f"\nClassifier: Programming Language :: Python :: {version}\n", metadata)
        with tarfile.open(TGZ) as archive:
            package = json.load(archive.extractfile("package/package.json"))
        self.assertEqual((package["version"], package["engines"], package.get("dependencies")), (VERSION, {"node": f">={NODES['oldest']}"}, None))

    def test_both_have_their_licences(self):
        with tarfile.open(SDIST) as sdist, tarfile.open(TGZ) as tgz:
            names = [*contents(WHEEL), *sdist.getnames(), *tgz.getnames()]
        for name in ("LICENSE-APACHE", "LICENSE-MIT"):
            self.assertEqual(sum(path.endswith(f"/{name}") for path in names), 3, names)

    def test_package_pages_have_absolute_links(self):
        for name in ("python", "typescript"):
            page = (clients.ROOT / "clients" / name / "README.md").read_text(encoding="utf-8")
            self.assertEqual(re.findall(r"\]\((?!https://)[^)]*\)", page), [], name)


class Python(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bin = cls.virtual_environment()
        run(cls.bin / "pip", "install", "--quiet", "--no-index", WHEEL, cwd=cls.folder)

    def check(self, text, version):
        """What mypy says of a program of a user."""
        program = self.file("checked.py", text)
        command = [clients.python(), "-m", "mypy", "--strict", "--python-version", version, "--python-executable", self.bin / "python", program]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False).stdout

    def test_it_brings_no_other_package(self):
        told = json.loads(run(self.bin / "pip", "list", "--format", "json", "--disable-pip-version-check", cwd=self.folder))
        self.assertEqual({one["name"] for one in told} - {"pip", "setuptools"}, {"leasehold"})

    def test_a_user_sees_its_types(self):
        for version in PYTHONS.values():
            with self.subTest(version):
                self.assertIn("Success", self.check(PROGRAM_PY, version))
                self.assertIn("[arg-type]", self.check(PROGRAM_PY.replace("lease.extend()", 'lease.extend("60")'), version))

    def test_its_own_types_are_strict(self):
        self.assertIn("Success", self.check(contents(WHEEL)["leasehold/__init__.py"].decode(), PYTHONS["oldest"]))

    def test_it_runs(self):
        told = run(self.bin / "python", self.file("program.py", PROGRAM_PY), cwd=self.folder)
        self.assertEqual(told.split(" ", 1)[1], RESULT + "\n")

    def test_runs_on_lambdas_pythons(self):
        packages = clients.node_modules("runtimes", clients.HERE / "runtimes")
        node, script = clients.node_home() / "bin" / "node", self.file("run.mjs", RUN_PYODIDE)
        for age, version in PYTHONS.items():
            with self.subTest(version):
                told = run(node, script, packages / f"python-{age}", WHEEL, self.file("program.py", PROGRAM_PY), cwd=self.folder)
                self.assertEqual(told, f"{version} {RESULT}\n")

    def test_sdist_gives_same_wheel(self):
        run(self.bin / "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", self.folder / "wheels", SDIST, cwd=self.folder)
        self.assertEqual(contents(self.folder / "wheels" / WHEEL.name), contents(WHEEL))


class Node(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        clients.npm("init", "-y", cwd=cls.folder, stdout=subprocess.DEVNULL)
        clients.npm("install", "--offline", "--no-audit", "--no-fund", TGZ, cwd=cls.folder, stdout=subprocess.DEVNULL)
        cls.packages = clients.node_modules("runtimes", clients.HERE / "runtimes")
        cls.compilers = [cls.packages, clients.node_modules("types", clients.ROOT / "clients" / "typescript")]

    def compile(self, compiler, name):
        """Status and output of the compiler, for a program of a user."""
        command = [clients.node_home() / "bin" / "node", compiler / "typescript" / "bin" / "tsc", "--strict", "--exactOptionalPropertyTypes",
                   "--module", "nodenext", "--target", "es2023", name]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def node(self, age, *arguments):
        machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"
        return run(self.packages / f"node-{age}-{machine}" / "bin" / "node", *arguments, cwd=self.folder)

    def test_it_brings_no_other_package(self):
        self.assertEqual([path.name for path in (self.folder / "node_modules").iterdir() if not path.name.startswith(".")], ["leasehold"])

    def test_types_check_and_program_runs(self):
        self.file("program.mts", PROGRAM_TS)
        self.file("wrong.mts", PROGRAM_TS.replace("lease.extend()", "lease.extend(60)"))
        for compiler in self.compilers:
            self.assertEqual(self.compile(compiler, "program.mts"), (0, ""))
            status, said = self.compile(compiler, "wrong.mts")
            self.assertIn("TS2559", said)
            self.assertNotEqual(status, 0)
        self.file("common.cjs", 'import("./program.mjs").then(({ result }) => console.log(result));')
        for age, version in NODES.items():
            with self.subTest(version):
                self.assertEqual(self.node(age, "--version").split(".")[0], f"v{version}")
                self.assertEqual(self.node(age, "common.cjs"), RESULT + "\n")


class WithLocalStack(Case):
    """The first programs of both READMEs, and both examples: each by the commands of its README, on the stack of leasehold-local."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        found = list(DIRECTORY.glob(f"leasehold_local-{VERSION}-*{platform.machine()}.whl"))
        if len(found) != 1:
            raise AssertionError(f"{DIRECTORY}: not one wheel of leasehold-local for this machine, but {found}")
        # Whatever a registry has under these names: these two are installed.
        constraint = cls.folder / "constraint.txt"
        constraint.write_text(f"leasehold @ {WHEEL.as_uri()}\nleasehold-local @ {found[0].as_uri()}\n", encoding="utf-8")
        cls.environment = {"PATH": f"{cls.virtual_environment()}:{cls.node_commands()}:/usr/bin:/bin", "PIP_CONSTRAINT": str(constraint)}

    @classmethod
    def node_commands(cls):
        """A directory with node, npm and npx of the pinned tools."""
        home, commands = clients.node_home(), cls.folder / "commands"
        commands.mkdir()
        (commands / "node").symlink_to(home / "bin" / "node")
        for name in ("npm", "npx"):
            program = home / "lib" / "node_modules" / "npm" / "bin" / f"{name}-cli.js"
            (commands / name).write_text(f'#!/bin/sh\nexec "{home}/bin/node" "{program}" "$@"\n', encoding="utf-8")
            (commands / name).chmod(0o755)
        return commands

    def follow(self, page, folder, replaced=""):
        """The output of the commands of a README, which are lines."""
        # What is made is of a clone.
        commands = next(text for language, text in blocks(page) if not language and not text.startswith("make "))
        if replaced:
            commands = re.sub(r"(?<= )leasehold(?= )", replaced, commands)
        # No package may run code while it is installed.
        return "".join(run("sh", "-c", line, cwd=folder, npm_config_ignore_scripts="true", **self.environment) for line in commands.splitlines())

    def first_program(self, client, name, replaced=""):
        page, folder = clients.ROOT / "clients" / client / "README.md", self.folder / client
        folder.mkdir()
        (folder / name).write_text(blocks(page)[0][1], encoding="utf-8")
        lines = self.follow(page, folder, replaced).splitlines()[-2:]
        self.assertRegex("\n".join(lines), r"^orders/42 is ours for \d\d seconds, with token [1-9]\d*\nreleased$")

    def example(self, name):
        ignored = shutil.ignore_patterns("node_modules", "__pycache__", ".pytest_cache")
        return shutil.copytree(clients.ROOT / "examples" / name, self.folder / name, ignore=ignored)

    def test_first_python_program_runs(self):
        self.first_program("python", "example.py")

    def test_first_typescript_program_runs(self):
        self.first_program("typescript", "example.mjs", str(TGZ))

    def test_the_example_with_pytest_passes(self):
        folder = self.example("python-pytest")
        self.assertIn("2 passed", self.follow(folder / "README.md", folder))

    def test_the_example_with_vitest_passes(self):
        folder = self.example("typescript-vitest")
        run("npm", "pkg", "set", f"dependencies.leasehold=file:{TGZ}", cwd=folder, **self.environment)
        self.assertRegex(self.follow(folder / "README.md", folder), r"Tests .*2 passed")
        compiler = clients.node_modules("runtimes", clients.HERE / "runtimes") / "typescript" / "bin" / "tsc"
        options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2023", "--allowImportingTsExtensions"]
        run("node", compiler, *options, "billing.ts", "billing.test.ts", cwd=folder, **self.environment)

    def durable(self, *program):
        """The names of the scenes that a program plays with durable functions, on AWS's local runner and the real functions."""
        packages = ["aws-durable-execution-sdk-python==3.0.0", "aws-durable-execution-sdk-python-testing==1.4.0", "boto3", "leasehold", "leasehold-local"]
        run("pip", "install", "--quiet", "--disable-pip-version-check", *packages, cwd=self.folder, **self.environment)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        stack = ["leasehold-local", "exec", "--no-engine", "--sweep-every", "1", "--parameter", "LookSeconds=1", "--parameter", "ReapGraceSeconds=0", "--durable-runner", f"http://127.0.0.1:{port}", "--"]
        said = run(*stack, *program, port, cwd=self.folder, **self.environment)
        return [line.removeprefix("ok ") for line in said.splitlines()]

    def test_durable_python_works_under_lease(self):
        sources = clients.ROOT / "clients" / "python" / "test_durable.py"
        self.assertEqual(len(self.durable("python", "-B", shutil.copy(sources, self.folder))), 20)

    def test_durable_typescript_works_under_lease(self):
        sources, folder = clients.ROOT / "clients" / "typescript", self.folder / "durable"
        folder.mkdir()
        for name in ("durable.test.ts", "leasehold.ts", "package.json"):
            shutil.copy(sources / name, folder)
        (folder / "node_modules").symlink_to(clients.node_modules("types", sources))
        played = self.durable("node", "--disable-warning=ExperimentalWarning", folder / "durable.test.ts")
        self.assertEqual(len(played), 19)


if __name__ == "__main__":
    unittest.main()
