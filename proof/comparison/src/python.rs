//! A lock written in Python, in a process of its own that does as ordered: a JSON object a line, both ways.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Mutex, oneshot};

use leasehold_local::session_token;
use leasehold_proof::root;

use crate::interpreter;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_mins(3);

type Waiting = Arc<StdMutex<HashMap<String, oneshot::Sender<Value>>>>;

/// A process. Killed when it is dropped, in the middle of whatever it does.
pub struct Python {
    child: Child,
    input: Mutex<ChildStdin>,
    waiting: Waiting,
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Value>>> {
    // Nothing panics while it holds the lock.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Python {
    /// Starts a program of `proof/comparison/python`.
    pub async fn start(program: &str, arguments: &[&str]) -> Self {
        let started = Command::new(interpreter().await)
            .arg(root().join("proof/comparison/python").join(program))
            .args(arguments)
            .env_clear()
            .env("LANG", "C.UTF-8")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_SESSION_TOKEN", session_token())
            // What they warn of is what the known bugs are about.
            .env("PYTHONWARNINGS", "ignore")
            // It ends when its input does, so that it does not outlive us whatever happens.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = started.unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let waiting = Waiting::default();
        let answering = Arc::clone(&waiting);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let answer: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
                let client = answer["client"].as_str().unwrap_or_default();
                if let Some(sender) = lock(&answering).remove(client) {
                    // A client that no longer waits needs no answer.
                    let _ = sender.send(answer);
                }
            }
            // A client that still waits learns that no answer will come.
            lock(&answering).clear();
        });
        Self {
            child,
            input: Mutex::new(input),
            waiting,
        }
    }

    /// The answer of `client` to an order. Each has one under way at a time.
    ///
    /// # Errors
    /// What the lock says, in text; or that there was no answer.
    pub async fn ask(&self, client: &str, order: Value) -> Result<Value, String> {
        let mut order = order;
        order["client"] = json!(client);
        let (sender, answer) = oneshot::channel();
        lock(&self.waiting).insert(client.to_owned(), sender);
        let mut input = self.input.lock().await;
        let written = input.write_all(format!("{order}\n").as_bytes()).await;
        written.map_err(|error| error.to_string())?;
        drop(input);
        let answer = tokio::time::timeout(LIMIT, answer).await;
        let answer = answer
            .map_err(|_| "no answer in time")?
            .map_err(|_| "the process has ended")?;
        match answer["error"].as_str() {
            None => Ok(answer),
            Some(code) => Err(format!(
                "{code}: {}",
                answer["message"].as_str().unwrap_or_default()
            )),
        }
    }

    /// The process's id, while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends it as a crash does, and waits until it is gone.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}
