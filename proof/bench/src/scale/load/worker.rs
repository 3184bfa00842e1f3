//! One process of a load: this same program, started with a hidden argument. It says that it is ready, waits for a line, works
//! through its plan, and tells on one line what it lived through.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

use super::choice::Choice;
use super::client::{Client, Name};

/// What one process is to do.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Plan {
    /// The endpoint.
    pub url: String,
    /// By whom it asks.
    pub name: Name,
    /// Which of the processes it is.
    pub process: u32,
    /// How many tasks it has.
    pub tasks: u32,
    /// How many sections each of them goes through.
    pub sections: u32,
    /// Among how many keys.
    pub keys: u32,
    /// How much more often the first ones are chosen: see [`Choice`].
    pub exponent: f64,
    /// Where chance begins.
    pub seed: u64,
}

/// What a process lived through.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Told {
    /// Its sections.
    pub sections: Vec<Section>,
    /// How often it was told that somebody else holds the key.
    pub refused: u64,
    /// What failed, and how often.
    pub errors: BTreeMap<String, u64>,
}

/// From knowing that a key is one's own to giving it back, by the one clock of this machine, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Section {
    /// Which key.
    pub key: u32,
    /// The token of the grant, if there are tokens.
    pub token: Option<u64>,
    /// After the answer.
    pub from: u64,
    /// Before the request that gives it back.
    pub until: u64,
}

/// What a worker says when its connections are there.
pub const READY: &str = "ready";

/// The life of the process.
///
/// # Errors
/// What kept it from working, as text.
pub async fn run(plan: &str) -> Result<(), String> {
    let plan: Plan = serde_json::from_str(plan).map_err(|error| error.to_string())?;
    let config = crate::site::config(plan.url.clone()).await;
    let mut clients = Vec::new();
    for task in 0..plan.tasks {
        let who = format!("process-{:02}/task-{task:02}", plan.process);
        clients.push(Client::new(plan.name, who, &config).await?);
    }
    say(READY)?;
    // Any byte will do, and so will the end of whoever started this.
    let _ = tokio::io::stdin().read_u8().await;
    let plan = Arc::new(plan);
    let mut tasks = JoinSet::new();
    for (task, client) in (0..plan.tasks).zip(clients) {
        tasks.spawn(go_through(Arc::clone(&plan), task, client));
    }
    let mut told = Told::default();
    for done in tasks.join_all().await {
        told.sections.extend(done.sections);
        told.refused += done.refused;
        for (error, times) in done.errors {
            *told.errors.entry(error).or_default() += times;
        }
    }
    say(&serde_json::to_string(&told).map_err(|error| error.to_string())?)
}

async fn go_through(plan: Arc<Plan>, task: u32, client: Client) -> Told {
    let seed = plan.seed ^ (u64::from(plan.process) << 32) ^ (u64::from(task) << 16);
    let mut choice = Choice::among(plan.keys, plan.exponent, seed);
    let mut told = Told::default();
    // A section that fails counts, so that this comes to an end.
    let mut left = plan.sections;
    while left > 0 {
        let key = choice.one();
        match section(&client, key).await {
            Ok(Some(section)) => told.sections.push(section),
            Ok(None) => {
                told.refused += 1;
                continue;
            }
            Err(error) => *told.errors.entry(error).or_default() += 1,
        }
        left -= 1;
    }
    told
}

async fn section(client: &Client, key: u32) -> Result<Option<Section>, String> {
    let Some(held) = client.acquire(&format!("load/{key:04}")).await? else {
        return Ok(None);
    };
    let (from, token) = (now(), held.fencing_token());
    let held = client.extend(held).await?;
    let until = now();
    client.release(held).await?;
    Ok(Some(Section {
        key,
        token,
        from,
        until,
    }))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn say(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{line}").and_then(|()| out.flush());
    said.map_err(|error| error.to_string())
}
