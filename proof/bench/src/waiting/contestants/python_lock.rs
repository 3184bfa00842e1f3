//! `python_dynamodb_lock`, in a Python process of its own: a thread per waiter, each with a lock client of its own.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

use super::{KEY, told};
use crate::python::HOME;
use crate::site::Site;
use crate::waiting::course::Course;
use crate::waiting::crew::Crew;
use crate::waiting::diary::{Diary, What};

pub(super) const SETTINGS: &str = "0.9.1 with its defaults: asks every 5 s (its heartbeat period), gives up after 35 s, \
     lease 30 s; one process, one thread and one DynamoDBLockClient with its own boto3 session per waiter; \
     release_lock(best_effort=False), which tells errors instead of hiding them";

/// How long the process may take to import, to create its table and its clients.
const START_LIMIT: Duration = Duration::from_mins(1);

pub(super) async fn enter(
    python: &Path,
    root: &Path,
    site: &Site,
    course: &Course,
    diary: &Arc<Diary>,
) -> Result<Crew, String> {
    let started = Command::new(python)
        .arg(root.join(HOME).join("waiters.py"))
        .args(["--endpoint", &site.url(), "--key", KEY])
        .args(["--waiters", &course.waiters.to_string()])
        .args(["--hold", &course.hold.as_secs_f64().to_string()])
        .args(["--rest", &course.rest.as_secs_f64().to_string()])
        .env_clear()
        .env("LANG", "C.UTF-8")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        // It ends when its input does, so that it does not outlive us whatever happens.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = started.map_err(|error| told(&error))?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the process has no input or output".to_owned());
    };
    let mut lines = BufReader::new(output).lines();
    match tokio::time::timeout(START_LIMIT, lines.next_line()).await {
        Ok(Ok(Some(line))) if line == "ready" => {}
        Ok(_) => return Err("the process ended before it was ready".to_owned()),
        Err(_) => return Err(format!("the process was not ready within {START_LIMIT:?}")),
    }
    let go = input.write_all(b"go\n").await;
    go.map_err(|error| told(&error))?;
    Ok(Crew::in_process(
        child,
        listen(lines, input, Arc::clone(diary)),
    ))
}

/// Writes down what the process tells, a line per event, until its output ends.
async fn listen(mut lines: Lines<BufReader<ChildStdout>>, input: ChildStdin, diary: Arc<Diary>) {
    while let Ok(Some(line)) = lines.next_line().await {
        match event(&line) {
            Some((client, at, what)) => diary.write_at(client, at, what),
            None => diary.write(0, What::Failed(format!("not understood: {line}"))),
        }
    }
    diary.write(0, What::Failed("the process has ended".to_owned()));
    drop(input);
}

/// Reads `<client> <nanoseconds> asked`, or `entered`, `left`, `failed: …`.
fn event(line: &str) -> Option<(usize, u64, What)> {
    let mut parts = line.splitn(3, ' ');
    let (client, at) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let what = match parts.next()? {
        "asked" => What::Asked,
        "entered" => What::Entered,
        "left" => What::Left,
        other => What::Failed(other.strip_prefix("failed: ")?.to_owned()),
    };
    Some((client, at, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_event() {
        assert_eq!(event("3 17 entered"), Some((3, 17, What::Entered)));
        assert_eq!(event("3 17 left"), Some((3, 17, What::Left)));
        let failed = What::Failed("a b: c".to_owned());
        assert_eq!(event("0 1 failed: a b: c"), Some((0, 1, failed)));
        for line in [
            "",
            "x 1 left",
            "1 x left",
            "1 2",
            "1 2 gone",
            "1 2 left now",
        ] {
            assert_eq!(event(line), None, "{line}");
        }
    }
}
