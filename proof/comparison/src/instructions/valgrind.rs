//! One process under valgrind, and how many instructions it took.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::Error;

/// Nothing that is counted here takes so long, even where every instruction takes fifty.
const LIMIT: Duration = Duration::from_mins(3);

/// valgrind runs one thread of a process at a time: so many processes keep so many cores busy.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// What to run, with this environment and nothing else in it.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
}

/// A process that has ended.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    instructions: u64,
    /// What it said, if it did not do what it was to do.
    failure: Option<String>,
}

impl Counted {
    /// The instructions, however it ended.
    pub(super) const fn in_any_case(&self) -> u64 {
        self.instructions
    }

    /// The instructions, if it did what it was to do.
    pub(super) fn of_a_success(self) -> u64 {
        assert_eq!(self.failure, None);
        self.instructions
    }
}

/// Sees whether there is a valgrind.
pub(super) async fn find() -> Result<(), Error> {
    match valgrind().arg("--version").output().await {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Error::NoValgrind),
    }
}

/// Runs a program to its end and counts the instructions of all its threads, from the first one of the dynamic linker on.
pub(super) async fn count(program: &Program) -> Result<Counted, Error> {
    let _place = AT_ONCE.acquire().await;
    if !program.path.is_file() {
        return Err(Error::NotBuilt(program.path.clone()));
    }
    let name = program.path.display();
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("counts");
    let child = valgrind()
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg("--")
        .arg(&program.path)
        .args(&program.arguments)
        .envs(&program.environment)
        .kill_on_drop(true)
        .spawn()
        .map_err(|_| Error::NoValgrind)?;
    let ended = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
    let ended = ended
        .unwrap_or_else(|_| panic!("{name} did not end"))
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    let counts = std::fs::read_to_string(&out).unwrap_or_default();
    let instructions =
        total(&counts).unwrap_or_else(|| panic!("nothing was counted of {name}: {said}"));
    let failure = (!ended.status.success()).then(|| format!("{name} failed: {said}"));
    Ok(Counted {
        instructions,
        failure,
    })
}

fn valgrind() -> Command {
    let mut command = Command::new("valgrind");
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The sum in a file of callgrind's.
fn total(text: &str) -> Option<u64> {
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    totals?.split_whitespace().next()?.parse().ok()
}
