//! A peer's program in a Python process, driven line by line.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use leasehold_local::{PythonEnvironment, prepare_python};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// How long an answer may take, imports on a busy machine included.
const PATIENCE: Duration = Duration::from_mins(1);

pub struct Python {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Python {
    /// Starts a program of `peers/`.
    pub async fn start(program: &str, arguments: &[&str]) -> Self {
        let home = Path::new(env!("CARGO_MANIFEST_DIR"));
        let started = Command::new(interpreter().await)
            .arg(home.join("peers").join(program))
            .args(arguments)
            .env_clear()
            .env("LANG", "C.UTF-8")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // What they warn of is what the entries are about.
            .env("PYTHONWARNINGS", "ignore")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = started.unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            input,
            lines,
        }
    }

    pub async fn write(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    pub async fn read(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("an answer in time").unwrap();
        line.expect("the process goes on")
    }

    /// An order and its answer, both JSON objects.
    pub async fn ask(&mut self, order: Value) -> Value {
        self.write(&order.to_string()).await;
        self.answer().await
    }

    pub async fn answer(&mut self) -> Value {
        serde_json::from_str(&self.read().await).unwrap()
    }

    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// As when a Lambda function runs into its time limit: without a word.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }
}

/// The Python that has the peers; the benchmark has them there, too.
async fn interpreter() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    let requirements = root.join("proof/bench/python/requirements.txt");
    let environment = PythonEnvironment {
        name: "bench-venv",
        requirements: &requirements,
        purpose: "the peers in Python",
        without: "install python3 and python3-venv",
    };
    prepare_python(root, &environment).await.unwrap()
}
