"""Runs the first program of the crate's page in an empty project, with the crate as `cargo package` has packed it. `make package` runs
this after that, in the same target directory, so that nothing is compiled twice."""

import shutil
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

from trial import ROOT, VERSION, blocks

PROJECT = '''[package]
name = "first"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
leasehold = {{ path = "../{crate}" }}
tokio = {{ version = "1", features = ["macros", "rt"] }}
'''


class Crate(unittest.TestCase):
    def test_pages_first_program_gets_lease(self):
        packed = ROOT / "target" / "package" / f"leasehold-{VERSION}.crate"
        program, = blocks(ROOT / "lib" / "README.md", "rust")
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(packed) as archive:
                archive.extractall(folder, filter="data")
            project = Path(folder) / "first"
            (project / "src").mkdir(parents=True)
            (project / "src" / "main.rs").write_text(program, encoding="utf-8")
            (project / "Cargo.toml").write_text(PROJECT.format(crate=packed.stem), encoding="utf-8")
            # The versions that are compiled already. Cargo leaves out what is not needed.
            shutil.copy(ROOT / "Cargo.lock", project)
            run = ["cargo", "run", "--quiet", "--target-dir", ROOT / "target"]
            ran = subprocess.run(run, cwd=project, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(ran.stdout, r"\A[1-9][0-9]*\n\Z")


if __name__ == "__main__":
    unittest.main()
