"""Installs leasehold-cdk as users do, in empty folders: the three lines of its page, the app of examples/cdk, and the wheel. What they
synthesise is checked, linted, and created in an emulator. Argument: the directory of the packages. Run it with the pinned tools' Python.

    target/tools/sam-*/bin/python tools/packages/test_cdk.py DIRECTORY

Environment
    LEASEHOLD   the program that checks state machines, by default target/debug/leasehold

The emulator creates nested stacks, and neither alarms nor the dashboard: emulator.py has what it is given instead. Its functions answer
only if the zips are for this machine: those made for a test of the package itself contain no program.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
PACKAGES = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(Path(__file__).parent))

import cdk  # noqa: E402
import clients  # noqa: E402
import trial  # noqa: E402
from emulator import Emulator  # noqa: E402
from trial import VERSION, blocks  # noqa: E402

ROOT = clients.ROOT
LEASEHOLD = Path(os.environ.get("LEASEHOLD", ROOT / "target" / "debug" / "leasehold")).resolve()
SOURCES = ROOT / "clients" / "cdk"
EXAMPLE = ROOT / "examples" / "cdk"
PAGE = SOURCES / "README.md"
TGZ, WHEEL = PACKAGES / f"leasehold-cdk-{VERSION}.tgz", PACKAGES / f"leasehold_cdk-{VERSION}-py3-none-any.whl"
ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64"}.get(platform.machine())
NESTED = "aws:asset:path"
# The permissions of a role that starts an execution and waits for its end.
NEEDED = [{"states:StartExecution"}, {"states:DescribeExecution", "states:StopExecution"},
          {"events:DescribeRule", "events:PutRule", "events:PutTargets"}]


def run(*command, **options):
    """As `trial.run`, for the tools of CDK."""
    return trial.run(*command, CDK_DISABLE_CLI_TELEMETRY="true", JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION="1", **options)


def packed():
    """The instruction sets of the package: both, or that of this machine if the functions were built for it alone."""
    with tarfile.open(TGZ) as archive:
        names = archive.getnames()
    return [one for one in cdk.ARCHITECTURES if f"package/assets/functions/acquire-{one}.zip" in names]


def with_architecture(lines):
    """The lines of the page, which say nothing of arm64; with the other one, if the package has only that."""
    if "arm64" in packed():
        return lines
    for before, after in (("'Leasehold')", "'Leasehold', { architecture: lambda.Architecture.X86_64 })"), ("{ App,", "{ App, aws_lambda as lambda,"),
                          ('"Leasehold")', '"Leasehold", architecture=aws_lambda.Architecture.X86_64)'), ("import App,", "import App, aws_lambda,")):
        lines = lines.replace(before, after)
    return lines


def templates(assembly):
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(assembly.glob("*.template.json"))}


def walk(value):
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from walk(inner)


def definition(machine):
    """A definition with each reference in it as the text `<Name>`."""
    text = machine["Properties"]["DefinitionString"]
    if isinstance(text, dict):
        text = "".join(part if isinstance(part, str) else f"<{reference(part)}>" for part in text["Fn::Join"][1])
    return json.loads(text)


def reference(value):
    target = value.get("Ref") or value["Fn::GetAtt"]
    return target if isinstance(target, str) else ".".join(target)


def actions(statement):
    return {statement["Action"]} if isinstance(statement["Action"], str) else set(statement["Action"])


def of_type(template, kind):
    return {name: one for name, one in template["Resources"].items() if one["Type"] == kind}


def leasehold_of(files):
    """The stack that is Leasehold, in the template of the app: its name, its resource and its own template."""
    (logical, stack), = of_type(json.loads(files["Orders.template.json"]), "AWS::CloudFormation::Stack").items()
    return logical, stack, json.loads(files[stack["Metadata"][NESTED]])


def problems_of_construct(files, assembly, architecture):
    """What is wrong with Leasehold's stack, in the template of any app."""
    app = json.loads(files["Orders.template.json"])
    logical, stack, nested = leasehold_of(files)
    given = stack["Properties"]["Parameters"]
    found = [f"parameter {name}: the template has none of that name" for name in given.keys() - nested["Parameters"].keys()]
    required = {name for name, parameter in nested["Parameters"].items() if "Default" not in parameter}
    found += [f"parameter {name}: has to be given" for name in required - given.keys()]
    got = {one["Fn::GetAtt"][1] for one in walk(app) if isinstance(one, dict) and one.get("Fn::GetAtt", [""])[0] == logical}
    found += [f"{name} is read, and is no output" for name in got if name.removeprefix("Outputs.") not in nested["Outputs"]]
    if given.get("Architecture") != architecture:
        found.append(f"Architecture is {given.get('Architecture')}")

    # Each file that a resource names is an asset, with the content that the package has for it.
    assets = json.loads((assembly / "Orders.assets.json").read_text(encoding="utf-8"))["files"]
    sources = {where["objectKey"]: one["source"]["path"] for one in assets.values() for where in one["destinations"].values()}
    written = json.loads((ROOT / "local" / "template.json").read_text(encoding="utf-8"))["Resources"]
    seen = {"AWS::Lambda::Function": 0, "AWS::StepFunctions::StateMachine": 0}
    for text in files.values():
        for name, resource in json.loads(text)["Resources"].items():
            properties = resource.get("Properties", {})
            code, machine = properties.get("Code"), properties.get("DefinitionS3Location")
            if not code and not machine:
                continue
            seen[resource["Type"]] += 1
            source = sources.get(code["S3Key"] if code else machine["Key"])
            if source is None:
                found.append(f"{name}: its file is no asset")
            elif code:
                if content(assembly / source) != content(zip_of(written[name]["Properties"]["Code"]["S3Key"], architecture)):
                    found.append(f"{name}: its code is another function's, or for another architecture")
            elif not (assembly / source).read_bytes() in {path.read_bytes() for path in (ROOT / "templates" / "statemachines").iterdir()}:
                found.append(f"{name}: its definition is none of this repository")
    functions = len(list((ROOT / "functions").iterdir()))
    if seen != {"AWS::Lambda::Function": functions, "AWS::StepFunctions::StateMachine": 6}:
        found.append(f"files are given to {seen}")
    return found


def zip_of(name, architecture):
    return Installed.folder / "node_modules" / "leasehold-cdk" / "assets" / f"{name}-{architecture}.zip"


def content(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def problems_of_example(files):
    app = json.loads(files["Orders.template.json"])
    logical, stack, _ = leasehold_of(files)
    given = stack["Properties"]["Parameters"]
    found = []
    machines = list(of_type(app, "AWS::StepFunctions::StateMachine").values())
    allowed = {reference(one) for one in walk(given.get("StartedStateMachine")) if isinstance(one, dict) and "Ref" in one}
    tasks = [(machine, state) for machine in machines for state in definition(machine)["States"].values() if state["Type"] == "Task"]
    guards = [state for _, state in tasks if "StateMachineArn" in state["Arguments"]]
    if len(guards) != 2:
        found.append(f"{len(guards)} guards, not 2")
    for guard in guards:
        arguments = guard["Arguments"]
        child = arguments["Input"]["state_machine_arn"].strip("<>")
        if child not in allowed:
            found.append(f"{child} is guarded, and is not in StartedStateMachine")
        if arguments["StateMachineArn"] != f"<{logical}.Outputs.WithLeaseStateMachineArn>":
            found.append(f"{child}: {arguments['StateMachineArn']} is started, not with-lease")
        if not re.search(r":states:startExecution\.sync:2$", guard["Resource"]):
            found.append(f"{child}: {guard['Resource']} does not wait for the end")
    inputs = sorted(json.dumps(guard["Arguments"]["Input"]["if_held"]) for guard in guards)
    if inputs != ['"skip"', '"wait"']:
        found.append(f"if_held is {inputs}")
    allowing = [actions(one) for one in walk(app) if isinstance(one, dict) and "Action" in one]
    for needed in NEEDED:
        if allowing.count(needed) != 2:
            found.append(f"{allowing.count(needed)} of 2 roles may {sorted(needed)}")

    # The section: its machine may have execution leases, and may invoke the three functions.
    may = [reference(one) for statement in walk(app) if isinstance(statement, dict) and statement.get("Action") == "lambda:InvokeFunction"
           for one in walk(statement["Resource"]) if isinstance(one, dict) and "Fn::GetAtt" in one]
    pattern = "".join(part for part in given["LeasingStateMachine"]["Fn::Join"][1] if isinstance(part, str))
    prefix = re.search(r":stateMachine:(.*)\*$", pattern)
    for machine, acquire in tasks:
        if acquire["Arguments"].get("FunctionName") == f"<{logical}.Outputs.AcquireFunctionArn>":
            name = machine["Properties"].get("StateMachineName", "")
            if not prefix or not name.startswith(prefix[1]):
                found.append(f"{name} is not in LeasingStateMachine, {pattern}")
    for function in ("Acquire", "Extend", "Release"):
        called = [state for _, state in tasks if state["Arguments"].get("FunctionName") == f"<{logical}.Outputs.{function}FunctionArn>"]
        if not called:
            found.append(f"the section does not call {function}")
        if f"{logical}.Outputs.{function}FunctionArn" not in may:
            found.append(f"nobody may invoke {function}")
    return found


FAULTS = [
    ('"Ref": "SettleB9C75F15"', '"Ref": "ReportC847FC22"'),
    ('"LogLevel": "WARN"', '"LogLvl": "WARN"'),
    ('"Architecture": "', '"Architecture": "not '),
    ('"Outputs.LeaseTableArn"', '"Outputs.TableArn"'),
    ("startExecution.sync:2", "startExecution"),
    ('"Outputs.WithLeaseStateMachineArn"', '"Outputs.InspectFunctionArn"'),
    ('\\"if_held\\":\\"skip\\"', '\\"if_held\\":\\"wait\\"'),
    ('"states:StopExecution"', '"states:ListExecutions"'),
    ("Orders-Leasehold_leasing_*", "Orders_leasing_*"),
    ('"StateMachineName": "Orders-Leasehold_leasing_ship"', '"StateMachineName": "ship"'),
    ('"Outputs.ReleaseFunctionArn"', '"Outputs.ExtendFunctionArn"'),
    ('"lambda:InvokeFunction"', '"lambda:GetFunction"'),
]


class Installed(unittest.TestCase):
    """One folder with the package and what a CDK app has besides, each in the version that examples/cdk names."""

    @classmethod
    def setUpClass(cls):
        if hasattr(Installed, "folder"):
            return
        Installed.folder = Path(unittest.enterModuleContext(tempfile.TemporaryDirectory()))
        shims = cls.folder / ".shims"
        shims.mkdir()
        Installed.path = f"{cdk.path_of_node(shims)}:/usr/bin:/bin"
        package = json.loads((EXAMPLE / "package.json").read_text(encoding="utf-8"))
        needed = {**package["dependencies"], **package["devDependencies"]}
        del needed["leasehold-cdk"]
        run("npm", "init", "-y", cwd=cls.folder, PATH=cls.path)
        run("npm", "install", "--no-audit", "--no-fund", "--loglevel", "error", TGZ, *(f"{name}@{version}" for name, version in needed.items()),
            cwd=cls.folder, PATH=cls.path)

    def synth(self, app, name, *more):
        """The directory that `cdk synth` wrote. Offline: nothing of an account or a Region is known."""
        assembly = self.folder / name
        run("npx", "cdk", "synth", "--quiet", "--no-notices", "--app", app, "--output", assembly, *more, cwd=self.folder, PATH=self.path,
            ARCHITECTURE=packed()[0])
        return assembly

    def lint(self, assembly, names="*.template.json"):
        """Without W3005, because CDK writes DependsOn beside each GetAtt."""
        tool = clients.node_home().parents[3] / "bin" / "cfn-lint"
        run(tool, "--regions", "us-east-1", "--ignore-checks", "W3005", "--", *sorted(assembly.glob(names)), cwd=self.folder)

    def deploy(self, assembly):
        lock = clients.HERE / "requirements-emulator.txt"

        def install(directory):
            subprocess.run([sys.executable, "-m", "venv", directory], check=True)
            pip = [directory / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r", lock]
            subprocess.run(pip, check=True)

        python = clients.installed(clients.TOOLS / f"emulator-{clients.digest(lock)}", install) / "bin" / "python"
        real = runs_here(zip_of("functions/acquire", ARCHITECTURE))
        with Emulator(python) as emulator:
            outputs = emulator.deploy(assembly, "Orders")
            functions = emulator.client("lambda").list_functions()["Functions"]
            architectures = {one["Architectures"][0] for one in functions}
            if architectures == {ARCHITECTURE} and real:
                function = outputs.get("AcquireFunctionArn") or self.acquire_of(emulator)
                ask = json.dumps({"key": "orders/42", "holder": "me", "ttl_seconds": 60})
                answer = json.load(emulator.client("lambda").invoke(FunctionName=function, Payload=ask)["Payload"])
                self.assertEqual((answer["grant"], answer["lease"]["key"]), ("new", "orders/42"))
            elif architectures == {ARCHITECTURE}:
                print("the zips contain no program for this machine: the stack was created, and nothing was invoked", file=sys.stderr)
        return architectures

    def acquire_of(self, emulator):
        cloudformation = emulator.client("cloudformation")
        nested = next(one["StackName"] for one in cloudformation.list_stacks()["StackSummaries"] if one["StackName"] != "Orders")
        outputs = cloudformation.describe_stacks(StackName=nested)["Stacks"][0]["Outputs"]
        return next(one["OutputValue"] for one in outputs if one["OutputKey"] == "AcquireFunctionArn")


def runs_here(path):
    """Whether the program in a zip is one of Linux for this machine."""
    with zipfile.ZipFile(path) as archive:
        start = archive.open("bootstrap").read(20)
    return start[:4] == b"\x7fELF" and int.from_bytes(start[18:20], "little") == {"x86_64": 62, "arm64": 183}.get(ARCHITECTURE)


class Page(Installed):
    def page(self):
        """What the three lines synthesise, by the command of the page."""
        (self.folder / "app.mts").write_text(with_architecture(blocks(PAGE, "typescript")[0]), encoding="utf-8")
        command = next(line for block in blocks(PAGE, "") for line in block.splitlines() if "cdk deploy" in line)
        return self.synth(re.fullmatch(r"npx cdk deploy --app '(.*)'", command)[1], "page.out")

    def test_pages_three_lines_make_stack(self):
        self.assertEqual(len(blocks(PAGE, "typescript")[0].splitlines()), 3)
        assembly = self.page()
        self.assertEqual(problems_of_construct(templates(assembly), assembly, packed()[0]), [])
        self.lint(assembly)
        self.assertEqual(self.deploy(assembly), {packed()[0]})

    def test_python_package_synthesises_same_stack(self):
        run(sys.executable, "-m", "venv", "env", cwd=self.folder)
        pip = self.folder / "env" / "bin" / "pip"
        run(pip, "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", WHEEL, cwd=self.folder, PATH=self.path)
        (self.folder / "app.py").write_text(with_architecture(blocks(PAGE, "python")[0]), encoding="utf-8")
        assembly = self.synth("env/bin/python app.py", "python.out")
        self.assertEqual(problems_of_construct(templates(assembly), assembly, packed()[0]), [])
        self.assertEqual(resources(assembly), resources(self.page()))


def resources(assembly):
    """Of the nested templates, without what CDK says about its own use, and without the hashes of assets that contain it."""
    read = {name: json.loads(re.sub("[0-9a-f]{64}", "hash", text))["Resources"] for name, text in templates(assembly).items() if "nested" in name}
    return {name: {logical: one for logical, one in found.items() if logical != "CDKMetadata"} for name, found in read.items()}


class Example(Installed):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shutil.copytree(EXAMPLE, cls.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("package.json", "cdk.json", "node_modules"))
        # As in the example's own package.json.
        (cls.folder / "bin" / "package.json").write_text('{"type": "module"}', encoding="utf-8")
        read = json.loads((EXAMPLE / "cdk.json").read_text(encoding="utf-8"))
        cls.context = [part for name, value in read["context"].items() for part in ("--context", f"{name}={json.dumps(value)}")]
        cls.app = read["app"]

    def test_the_app_has_types(self):
        run("npx", "tsc", cwd=self.folder, PATH=self.path)

    def test_app_uses_what_template_has(self):
        for architecture in packed():
            with self.subTest(architecture):
                assembly = self.synth(self.app, f"{architecture}.out", *self.context, "--context", f"architecture={architecture}")
                files = templates(assembly)
                self.assertEqual(problems_of_construct(files, assembly, architecture) + problems_of_example(files), [])
                self.lint(assembly)
                run(LEASEHOLD, "check", assembly / "Orders.template.json", cwd=self.folder)
                self.assertEqual(self.deploy(assembly), {architecture})

    def test_each_fault_is_noticed(self):
        architecture = packed()[0]
        assembly = self.synth(self.app, "faults.out", *self.context, "--context", f"architecture={architecture}")
        files, name = templates(assembly), "Orders.template.json"
        for before, after in FAULTS:
            with self.subTest(before):
                self.assertIn(before, files[name])
                faulty = {**files, name: files[name].replace(before, after, 1 if before.startswith('"Ref"') else -1)}
                self.assertNotEqual(problems_of_construct(faulty, assembly, architecture) + problems_of_example(faulty), [])
        # A function with another's code.
        _, stack, nested = leasehold_of(files)
        functions = of_type(nested, "AWS::Lambda::Function")
        functions["AcquireFunction"]["Properties"]["Code"] = functions["ReleaseFunction"]["Properties"]["Code"]
        self.assertNotEqual(problems_of_construct({**files, stack["Metadata"][NESTED]: json.dumps(nested)}, assembly, architecture), [])


class Sections(Installed):
    """The package's own tests, with the packed package."""

    def test_what_is_refused_and_written(self):
        shutil.copy(SOURCES / "test" / "leasehold.test.ts", self.folder / "leasehold.test.mts")
        run("node", "--test", "leasehold.test.mts", cwd=self.folder, PATH=self.path, ARCHITECTURE=packed()[0])

    def test_no_shape_has_lease_fault(self):
        shutil.copy(SOURCES / "test" / "shapes.ts", self.folder / "shapes.mts")
        assembly = self.synth("node shapes.mts", "shapes.out")
        told = run(LEASEHOLD, "check", assembly / "Orders.template.json", cwd=self.folder)
        machines = len(re.findall("^machine\\(", (SOURCES / "test" / "shapes.ts").read_text(encoding="utf-8"), re.MULTILINE))
        self.assertRegex(told, rf"nothing found in {machines} state machines")
        self.lint(assembly, "Orders.template.json")


if __name__ == "__main__":
    unittest.main()
