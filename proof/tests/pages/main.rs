//! Every command of a page, typed into one shell as a reader does.
#![allow(clippy::unwrap_used, missing_docs)]

mod guarded_writes;
mod runbook;
mod tutorial;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Lines, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use leasehold_proof::{program, root};
use rustix::process::{Pid, Signal, kill_process};

/// A page of the repository.
fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// A fenced block, with the word after its fence.
#[derive(Clone, Copy)]
struct Block<'a> {
    language: &'a str,
    text: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let fenced = page.split("\n```").skip(1).step_by(2);
    let parts = fenced.map(|block| block.split_once('\n').unwrap());
    parts
        .map(|(language, text)| Block { language, text })
        .collect()
}

/// The commands that stand in a sentence, and begin like this.
fn inline<'a>(page: &'a str, start: &str) -> Vec<&'a str> {
    let outside = page.split("\n```").step_by(2);
    let spans = outside.flat_map(|text| text.split('`').skip(1).step_by(2));
    spans.filter(|span| span.starts_with(start)).collect()
}

/// Where the AWS CLI is, and the Python that it runs on: in the pinned tools.
fn aws_cli() -> PathBuf {
    let tools = std::fs::read_dir(root().join("target/tools"));
    let tools = tools.into_iter().flatten().flatten();
    let mut directories = tools.map(|tool| tool.path().join("bin"));
    let found = directories.find(|directory| directory.join("aws").exists());
    found.expect("no AWS CLI below target/tools: run `make test`, which installs it")
}

/// The directory of a reader who has cloned the repository and built it, so that `cargo run` has nothing left to build. `make local` has built the
/// command line.
fn clone() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["asl", "events", "examples"] {
        symlink(root().join(name), directory.path().join(name)).unwrap();
    }
    for name in ["target", "bin"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    let cargo = directory.path().join("bin/cargo");
    let built = program("leasehold");
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do [ \"$1\" = --bin ] && name=$2; shift; done\nshift\nexec {}/$name \"$@\"\n",
        built.parent().unwrap().display()
    );
    std::fs::write(&cargo, script).unwrap();
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).unwrap();
    let lean = directory.path().join("target/lean");
    std::fs::create_dir(&lean).unwrap();
    for place in [
        lean.join("leasehold"),
        directory.path().join("bin/leasehold"),
    ] {
        symlink(&built, place).unwrap();
    }
    directory
}

/// What `make local` runs once everything is built.
struct Stack(Child);

impl Stack {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(program("leasehold-local"))
            .args(["up", "--run-directory"])
            .arg(directory.join("target/local"))
            .current_dir(root())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("sam local invoke")));
        std::thread::spawn(move || lines.count());
        Self(child)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap();
    }
}

/// Where a shell looks for programs: first here.
fn path_after(first: &[PathBuf]) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = first.iter().cloned().chain(std::env::split_paths(&path));
    std::env::join_paths(all).unwrap()
}

/// The reader's second terminal.
struct Shell {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Shell {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new("bash")
            .current_dir(directory)
            .env("PATH", path_after(&[directory.join("bin"), aws_cli()]))
            .env("AWS_PAGER", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"exec 2>&1\n").unwrap();
        Self {
            input,
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
        }
    }

    /// What the commands print, and the status of the last one.
    fn run(&mut self, commands: &str) -> (String, i32) {
        const END: &str = "-- the end of the commands:";
        writeln!(
            self.input,
            "{commands}\nstatus=$?; echo; echo \"{END} $status\""
        )
        .unwrap();
        let mut printed = String::new();
        for line in &mut self.output {
            let line = line.unwrap();
            if let Some(status) = line.strip_prefix(END) {
                return (printed, status.trim().parse().unwrap());
            }
            printed += &(line + "\n");
        }
        panic!("the shell ended: {printed}");
    }
}
