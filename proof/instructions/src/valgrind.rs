//! One process under valgrind, and how many instructions it took.

use std::{collections::BTreeMap, path::PathBuf, process::Stdio, time::Duration};

use tokio::{process::Command, sync::Semaphore};

use crate::{Error, io};

/// Nothing that is counted here takes so long, even where every instruction takes fifty.
const LIMIT: Duration = Duration::from_mins(3);

/// valgrind runs one thread of a process at a time: so many processes keep so many cores busy.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// Where valgrind is looked for, and what it starts.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What to run, with this environment and nothing else in it.
#[derive(Clone, Debug)]
pub struct Program {
    /// The binary.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment.
    pub environment: BTreeMap<String, String>,
}

/// A process that has ended.
#[derive(Clone, Debug)]
pub struct Counted {
    instructions: u64,
    succeeded: bool,
    name: String,
    said: String,
}

impl Counted {
    /// The instructions, however it ended: a function that nobody calls any more ends with an error.
    #[must_use]
    pub const fn in_any_case(&self) -> u64 {
        self.instructions
    }

    /// The instructions, if it did what it was to do.
    ///
    /// # Errors
    /// [`Error::Counting`] with what it said.
    pub fn of_a_success(&self) -> Result<u64, Error> {
        if self.succeeded {
            return Ok(self.instructions);
        }
        let (name, said) = (&self.name, &self.said);
        Err(Error::Counting(format!("{name} failed: {said}")))
    }
}

/// What one of `calls` takes by which two runs differ. Everything that both do drops out.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub fn difference(few: u64, many: u64, calls: usize) -> f64 {
    (many as f64 - few as f64) / calls as f64
}

/// Sees whether there is a valgrind.
///
/// # Errors
/// [`Error::NoValgrind`], which tells what to install.
pub async fn find() -> Result<(), Error> {
    match valgrind().arg("--version").output().await {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Error::NoValgrind),
    }
}

/// Runs `program` to its end and counts the instructions of all its threads, from the first one of the dynamic linker on.
///
/// # Errors
/// [`Error::NoValgrind`]; [`Error::Io`]; [`Error::Counting`] if it does not end or nothing was counted.
pub async fn count(program: &Program) -> Result<Counted, Error> {
    let _place = AT_ONCE.acquire().await;
    let name = program.path.display().to_string();
    if !program.path.is_file() {
        return Err(Error::NotBuilt(program.path.clone()));
    }
    let scratch = tempfile::tempdir().map_err(io("create a temporary directory"))?;
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
    let ended = tokio::time::timeout(LIMIT, child.wait_with_output())
        .await
        .map_err(|_| Error::Counting(format!("{name} did not end")))?
        .map_err(io("wait for valgrind"))?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let counts = std::fs::read_to_string(&out).ok();
    let Some(instructions) = counts.as_deref().and_then(total) else {
        return Err(Error::Counting(format!(
            "nothing was counted of {name}: {said}"
        )));
    };
    Ok(Counted {
        instructions,
        succeeded: ended.status.success(),
        name,
        said,
    })
}

fn valgrind() -> Command {
    let mut command = Command::new("valgrind");
    command
        .env_clear()
        .env("PATH", PATH)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_read_and_nothing_else_is_taken_for_it() {
        let text = "# callgrind format\nevents: Ir\nsummary: 12\n\nfn=(1) main\n0 totals: 3\n\ntotals: 118230\n";
        assert_eq!(total(text), Some(118_230));
        assert_eq!(total("events: Ir\nsummary: 12\n"), None);
        assert_eq!(total("totals: many\n"), None);
    }

    #[test]
    fn what_both_runs_do_drops_out() {
        let run = |calls: u64| 5_000_000 + 1_250 * calls;
        assert!((difference(run(10), run(110), 100) - 1_250.0).abs() < 0.01);
    }

    fn program(path: &str, arguments: &[&str]) -> Program {
        Program {
            path: path.into(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            environment: BTreeMap::new(),
        }
    }

    /// Where there is no valgrind, that is what is told.
    #[tokio::test]
    async fn a_process_is_counted_and_one_that_failed_is_told_from_one_that_did_not() {
        let done = count(&program("/bin/sh", &["-c", ":"])).await;
        if find().await.is_err() {
            assert!(matches!(done, Err(Error::NoValgrind)), "{done:?}");
            return;
        }
        let done = done.unwrap().of_a_success().unwrap();
        let more = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; echo oh >&2; exit 1";
        let failed = count(&program("/bin/sh", &["-c", more])).await.unwrap();
        assert!(failed.in_any_case() > done + 100_000);
        let told = failed.of_a_success().unwrap_err().to_string();
        assert!(
            told.contains("/bin/sh failed") && told.contains("oh"),
            "{told}"
        );
    }

    #[tokio::test]
    async fn what_is_not_there_is_to_be_built() {
        let counted = count(&program("/nowhere/bootstrap", &[])).await;
        assert!(matches!(counted, Err(Error::NotBuilt(_))), "{counted:?}");
    }
}
