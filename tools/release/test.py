"""What a release has beside its packages, which have tests of their own in tools/packages: the sums, the command line, and the bill of
materials. Argument: the directory of the release."""

import hashlib
import json
import platform
import subprocess
import sys
import unittest
from pathlib import Path

DIST = Path(sys.argv.pop(1)).resolve()
ARCHITECTURE = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
PROGRAM = DIST / "bin" / f"leasehold-linux-{ARCHITECTURE}"


class Dist(unittest.TestCase):
    def test_sums_match_files(self):
        lines = (DIST / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
        told = dict(reversed(line.split("  ", 1)) for line in lines)
        there = {str(path.relative_to(DIST)): hashlib.sha256(path.read_bytes()).hexdigest()
                 for path in DIST.rglob("*") if path.is_file() and path.name != "SHA256SUMS"}
        self.assertEqual(told, there)

    def test_command_line_runs_by_itself(self):
        run = subprocess.run([PROGRAM, "--version"], env={}, capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout.split(), ["leasehold", DIST.name.removeprefix("leasehold-")])
        # No loader, hence no shared library.
        self.assertFalse(b"/ld-" in PROGRAM.read_bytes()[:4096], "it is linked dynamically")
        checked = subprocess.run([PROGRAM, "check", DIST / "templates" / "statemachines" / "critical-section.asl.json"], env={}, capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, "nothing found in 1 state machine" in checked.stdout), (0, True), checked.stdout + checked.stderr)
        for page in ("completions/leasehold.bash", "completions/_leasehold", "completions/leasehold.fish", "man/leasehold.1"):
            self.assertIn("acquire", (DIST / page).read_text(encoding="utf-8"), page)

    def test_bill_names_every_dependency(self):
        bill = json.loads((DIST / "sbom.cdx.json").read_text(encoding="utf-8"))
        references = {one["bom-ref"] for one in bill["components"]}
        names = {one["name"] for one in bill["components"]}
        self.assertLessEqual({"leasehold", "acquire", "leasehold-cli", "aws-sdk-dynamodb", "rustls", "aws-lc-rs"}, names)
        self.assertEqual({one["ref"] for one in bill["dependencies"]}, references)
        self.assertLessEqual({need for one in bill["dependencies"] for need in one["dependsOn"]}, references)
        ours = {one["name"] for one in bill["components"] if "hashes" not in one}
        self.assertEqual({name for name in ours if not name.startswith("leasehold")},
                         {path.name.split("-")[0] for path in (DIST / "functions").iterdir()})
        self.assertNotIn("leasehold-local", names)

    def test_every_package_is_there(self):
        version = DIST.name.removeprefix("leasehold-")
        packages = {path.name for path in (DIST / "packages").iterdir()}
        self.assertLessEqual({f"leasehold-{version}.tgz", f"leasehold-{version}-py3-none-any.whl", f"leasehold-{version}.tar.gz",
                              f"leasehold-cdk-{version}.tgz", f"leasehold_cdk-{version}-py3-none-any.whl"}, packages)
        machines = {"arm64": "aarch64"}.get(ARCHITECTURE, ARCHITECTURE)
        self.assertTrue([name for name in packages if name.startswith(f"leasehold_local-{version}-") and machines in name], packages)



if __name__ == "__main__":
    unittest.main()
