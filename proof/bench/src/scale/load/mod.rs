//! Many keys under load from many processes, each with several tasks. A task chooses a key, asks for it once, extends
//! it once and releases it; if it is refused, it chooses another. Every request takes a while longer, as over a network.

pub mod choice;
pub mod client;
pub mod judge;
pub mod measures;
pub mod worker;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::cost::Cost;
use super::field::{Field, failed};
use crate::error::io;
use crate::{Error, ratio, rounded};
use client::Name;
use judge::judge;
use worker::{Plan, READY, Told};

/// The argument that makes this program a worker.
pub const ARGUMENT: &str = "--scale-worker";

/// One load.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Load {
    /// By whom the keys are asked for.
    pub name: Name,
    /// How many processes.
    pub processes: u32,
    /// Tasks of each.
    pub tasks: u32,
    /// Sections of each task.
    pub sections: u32,
    /// Keys.
    pub keys: u32,
    /// How unevenly they are chosen: see [`choice::Choice`].
    pub exponent: f64,
    /// How much longer each request takes.
    pub latency: Duration,
}

impl Load {
    /// The loads of a run, ours and the others' beside each other.
    #[must_use]
    pub fn all(quick: bool) -> Vec<Self> {
        let (exponents, processes, sections): (&[f64], &[u32], u32) = if quick {
            (&[0.8], &[1, 4], 20)
        } else {
            (&[0.0, 0.8], &[1, 4, 16], 40)
        };
        let mut loads = Vec::new();
        for exponent in exponents {
            for processes in processes {
                loads.extend(Name::value_variants().iter().map(|name| Self {
                    name: *name,
                    processes: *processes,
                    tasks: 4,
                    sections,
                    keys: 1000,
                    exponent: *exponent,
                    latency: Duration::from_millis(20),
                }));
            }
        }
        loads
    }
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Loaded {
    /// The load.
    pub load: Load,
    /// Sections that were gone through, in all processes.
    pub sections: u64,
    /// How often a key was held by somebody else.
    pub refused: u64,
    /// What failed, and how often.
    pub errors: BTreeMap<String, u64>,
    /// Sections that began before another one of the same key had ended.
    pub overlaps: u64,
    /// Tokens that did not rise.
    pub tokens_back: u64,
    /// Sections per second. A time of this machine, to be compared within one run only.
    pub per_second: f64,
    /// What it came to at the socket.
    pub cost: Cost,
}

impl Loaded {
    /// Requests for each section beside those that were refused: what a section is made of, if nothing is sent twice.
    #[must_use]
    pub fn per_section(&self) -> f64 {
        ratio(
            self.cost.requests.saturating_sub(self.refused),
            self.sections,
        )
    }

    /// Calls that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Starts as many processes of `program`, lets them begin at once, and waits for what they tell.
///
/// # Errors
/// [`Error`] when a process cannot be started, or does not tell what it lived through.
pub async fn run(program: &Path, load: Load) -> Result<Loaded, Error> {
    let field = Field::empty().await?;
    if load.name == Name::DynamodbLease {
        let created = crate::waiting::contestants::create_lease_table(&field.client).await;
        created.map_err(failed("create the table of dynamodb-lease"))?;
    }
    field.site.set_latency(load.latency);
    let mut workers = Vec::new();
    for process in 0..load.processes {
        let plan = Plan {
            url: field.site.url(),
            name: load.name,
            process,
            tasks: load.tasks,
            sections: load.sections,
            keys: load.keys,
            exponent: load.exponent,
            seed: 42,
        };
        workers.push(Worker::start(program, &plan)?);
    }
    for worker in &mut workers {
        let said = worker.line().await?;
        if said != READY {
            return Err(failed("start a worker")(said));
        }
    }
    let before = field.site.spent();
    for worker in &mut workers {
        worker.go().await?;
    }
    let mut sections = Vec::new();
    let mut refused = 0;
    let mut errors = BTreeMap::new();
    for worker in &mut workers {
        let told = worker.line().await?;
        let told: Told = serde_json::from_str(&told).map_err(failed("read what a worker told"))?;
        sections.extend(told.sections);
        refused += told.refused;
        for (error, times) in told.errors {
            *errors.entry(error).or_default() += times;
        }
    }
    let spent = field.site.spent().since(&before);
    let judged = judge(&sections);
    Ok(Loaded {
        load,
        sections: u64::try_from(sections.len()).unwrap_or(u64::MAX),
        refused,
        errors,
        overlaps: judged.overlaps,
        tokens_back: judged.tokens_back,
        per_second: rounded(judged.per_second),
        cost: Cost::from(&spent.cycle),
    })
}

/// A process, which is killed when this is dropped.
struct Worker {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(program: &Path, plan: &Plan) -> Result<Self, Error> {
        let plan = serde_json::to_string(plan).map_err(failed("write a plan"))?;
        let mut child = Command::new(program)
            .args([ARGUMENT, &plan])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(io(format!("start {}", program.display())))?;
        let out = child.stdout.take();
        let out = out.ok_or_else(|| failed("listen to a worker")("it has no output"))?;
        Ok(Self {
            child,
            said: BufReader::new(out).lines(),
        })
    }

    async fn line(&mut self) -> Result<String, Error> {
        let line = self
            .said
            .next_line()
            .await
            .map_err(io("listen to a worker"))?;
        line.ok_or_else(|| failed("listen to a worker")("it ended without a word"))
    }

    async fn go(&mut self) -> Result<(), Error> {
        let Some(input) = &mut self.child.stdin else {
            return Err(failed("start a worker")("it has no input"));
        };
        input.write_all(b"\n").await.map_err(io("start a worker"))
    }
}
