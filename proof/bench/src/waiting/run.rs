//! One run: one contestant, so many clients, one window.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::site::{Site, Spent};
use crate::waiting::contestants::Name;
use crate::waiting::course::Course;
use crate::waiting::diary::{self, Diary};
use crate::waiting::measure::{Measured, Window, measure};

/// How long the edge of a window waits for a client to enter. With many who poll the key may lie free for seconds.
const FOR_AN_ENTRY: Duration = Duration::from_secs(10);

/// What came out of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Who ran.
    pub contestant: Name,
    /// What was asked of it.
    pub course: Course,
    /// How long the window was in fact.
    pub window: Duration,
    /// What was sent within the window.
    pub spent: Spent,
    /// What the clients lived through.
    pub measured: Measured,
}

/// Runs one contestant over one course. `root` is the repository: Python packages are kept in its `target`.
///
/// # Errors
/// [`Error`] when the contestant cannot be set up. What fails later is counted.
pub async fn run(root: &Path, contestant: Name, course: Course) -> Result<Run, Error> {
    let site = Site::start().await?;
    site.set_latency(course.latency);
    let diary = Arc::new(Diary::default());
    let crew = contestant.enter(root, &site, &course, &diary).await?;
    tokio::time::sleep(course.warm_up).await;
    let (from, before) = edge(&site, &diary, course.hold).await;
    tokio::time::sleep(course.window).await;
    let (until, after) = edge(&site, &diary, course.hold).await;
    crew.end().await;
    Ok(Run {
        contestant,
        course,
        window: Duration::from_nanos(until.saturating_sub(from)),
        spent: after.since(&before),
        measured: measure(&diary.read(), Window { from, until }),
    })
}

/// An edge of the window. Both lie in the middle of a hold: each cycle then has all its requests on one side of
/// an edge, and a window of six cycles is as exact as one of six hundred.
async fn edge(site: &Site, diary: &Diary, hold: Duration) -> (u64, Spent) {
    // If nobody enters, that is a result too.
    let _ = tokio::time::timeout(FOR_AN_ENTRY.max(hold * 2), diary.next_entry()).await;
    tokio::time::sleep(hold / 2).await;
    (diary::now(), site.spent())
}
