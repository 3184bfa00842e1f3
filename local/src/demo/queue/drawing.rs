//! `line.svg`: one bar per execution in the order of joining, waiting and then holding; above them the resource,
//! by its own record.

use super::super::picture::{BAR, Mark, Picture, THIN};
use super::cast::{KEY, Part};
use super::evidence::{Evidence, Waiter};

/// The picture of the act.
pub(super) fn draw(evidence: &Evidence, passed: bool) -> String {
    let seconds = |at: u64| evidence.seconds(at);
    let turns = evidence.turns();
    let ends = evidence.waiters.iter().filter_map(|one| one.story.ended);
    let last = ends.max().unwrap_or(evidence.began);
    let mut picture = Picture::new((seconds(last) + 0.5).max(1.0));
    let middle = picture.lane(KEY, "the resource, by its record");
    for turn in &turns {
        let until = turn.until.unwrap_or(turn.from);
        picture.bar("holding", seconds(turn.from), seconds(until), middle, BAR);
    }
    for waiter in &evidence.waiters {
        row(&mut picture, evidence, waiter);
    }
    let title = format!(
        "{} executions in line for one key: {}",
        evidence.waiters.len(),
        if passed {
            "first come, first served"
        } else {
            "a promise was broken"
        }
    );
    picture.finish(&title, legend)
}

fn row(picture: &mut Picture, evidence: &Evidence, waiter: &Waiter) {
    let seconds = |at: u64| evidence.seconds(at);
    let story = &waiter.story;
    let middle = picture.row(&waiter.name, &outcome(evidence, waiter));
    let end = story.ended.map_or(picture.end(), seconds);
    if let Some(asked) = story.asked {
        let until = story.woken.map_or(end, seconds);
        picture.bar("waiting", seconds(asked), until, middle, THIN);
    }
    if let (Some(woken), Some(confirmed)) = (story.woken, story.confirmed) {
        picture.bar("asks", seconds(woken), seconds(confirmed), middle, THIN);
    }
    if let Some(confirmed) = story.confirmed {
        let until = story.released.map_or(end, seconds);
        picture.bar("holding", seconds(confirmed), until, middle, BAR);
        let next = evidence.turn_after(&waiter.arn);
        if let (None, Some(next)) = (story.released, next) {
            picture.bar("rest", end, seconds(next.from), middle, BAR);
        }
    }
    if waiter.stopped.is_some() {
        picture.mark(Mark::Stop, end, middle);
    }
}

/// What stands behind a bar.
fn outcome(evidence: &Evidence, waiter: &Waiter) -> String {
    let story = &waiter.story;
    let since_asked =
        |until: u64| evidence.seconds(until) - story.asked.map_or(0.0, |at| evidence.seconds(at));
    match (waiter.part, story.confirmed) {
        (Part::StoppedWaiting, _) => "stopped; gave up its place".to_owned(),
        (Part::StoppedHolding, _) => "stopped; its grace, then sweep".to_owned(),
        (Part::Waits, Some(confirmed)) => format!("waited {:.1} s", since_asked(confirmed)),
        (Part::Waits, None) => "never had its turn".to_owned(),
    }
}

fn legend(picture: &mut Picture) {
    let mut x = 20.0;
    for (class, height, label) in [
        ("waiting", THIN, "waits in line"),
        ("asks", THIN, "woken, confirms"),
        ("holding", BAR, "holds (above: is inside)"),
        ("rest", BAR, "left behind, until the next came in"),
    ] {
        x = picture.swatch(class, height, label, x);
    }
    picture.mark_swatch(Mark::Stop, "stopped", x);
}
