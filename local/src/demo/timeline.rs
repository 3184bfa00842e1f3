//! `timeline.svg`: one bar per execution, grouped by key, in the order of the grants.

use super::MARGIN_MS;
use super::picture::{BAR, LEGEND, Mark, Picture, THIN};
use super::plan::KEYS;
use super::record::{Execution, Hold, Record};

const GROUP_GAP: f64 = 18.0;

/// The picture of a run.
pub(super) fn draw(record: &Record, passed: bool) -> String {
    let mut picture = Picture::new(axis(record));
    for key in KEYS {
        group(&mut picture, record, key);
    }
    picture.y -= GROUP_GAP;
    let title = format!(
        "{} executions, {} keys: {}",
        record.executions.len(),
        KEYS.len(),
        if passed {
            "one holder at a time"
        } else {
            "a promise was broken"
        }
    );
    picture.finish(&title, legend)
}

/// What the axis ends with, in seconds.
fn axis(record: &Record) -> f64 {
    let ends = record.executions.iter().filter_map(|one| one.ended);
    let late = record
        .executions
        .iter()
        .flat_map(|one| one.refused_writes.iter().map(|(at, _)| *at));
    let last = ends.chain(late).max().unwrap_or(record.began);
    (record.seconds(last) + 0.5).max(1.0)
}

fn group(picture: &mut Picture, record: &Record, key: &str) {
    let mut here: Vec<_> = record
        .executions
        .iter()
        .filter(|execution| execution.key == key)
        .collect();
    here.sort_by_key(|execution| {
        let hold = record.holds_of(&execution.arn).next();
        hold.map_or(u64::MAX, |hold| hold.from)
    });
    let middle = picture.lane(key, "all holders of the key");
    for hold in record.holds.iter().filter(|hold| hold.key == key) {
        let (from, until) = (record.seconds(hold.from), record.seconds(hold.until()));
        picture.bar("holding", from, until, middle, BAR);
    }
    for execution in here {
        row(picture, record, execution);
    }
    picture.y += GROUP_GAP;
}

fn row(picture: &mut Picture, record: &Record, execution: &Execution) {
    let hold = record.holds_of(&execution.arn).next();
    let middle = picture.row(&execution.name, &outcome(record, execution, hold));
    let seconds = |instant: u64| record.seconds(instant);
    if let Some(asked) = execution.asked {
        let until = hold.map(|hold| hold.from).or(execution.ended);
        let until = until.map_or(picture.end(), seconds);
        picture.bar("waiting", seconds(asked), until, middle, THIN);
    }
    for refused in &execution.refusals {
        let x = picture.x(seconds(*refused));
        asks(picture, x, middle);
    }
    if let Some(hold) = hold {
        bar(picture, record, execution, hold, middle);
    }
    for death in &execution.deaths {
        picture.mark(Mark::Kill, seconds(death.at), middle);
    }
    for (at, _) in &execution.refused_writes {
        if let Some(stopped) = execution.stopped {
            let (from, until) = (picture.x(seconds(stopped)), picture.x(seconds(*at)) - 6.0);
            picture.put(format_args!(
                r#"<line class="late" x1="{from:.1}" x2="{until:.1}" y1="{middle:.1}" y2="{middle:.1}"/>"#
            ));
        }
        picture.mark(Mark::Kill, seconds(*at), middle);
    }
}

fn bar(picture: &mut Picture, record: &Record, execution: &Execution, hold: &Hold, middle: f64) {
    let seconds = |instant: u64| record.seconds(instant);
    let stopped = execution.stopped.filter(|_| hold.released.is_none());
    let until = stopped.unwrap_or_else(|| hold.until());
    picture.bar("holding", seconds(hold.from), seconds(until), middle, BAR);
    if let Some(stopped) = stopped {
        let (expires, free) = (hold.expires_at, hold.expires_at + MARGIN_MS);
        picture.bar("rest", seconds(stopped), seconds(expires), middle, BAR);
        picture.bar("margin", seconds(expires), seconds(free), middle, BAR);
        picture.mark(Mark::Stop, seconds(stopped), middle);
    }
    for extend in &hold.extends {
        let x = picture.x(seconds(*extend));
        extends(picture, x, middle);
    }
    let expired = |hold: &Hold| {
        let previous = hold.previous.as_ref();
        previous.is_some_and(|previous| previous.ended == "expired")
    };
    if expired(hold) {
        picture.mark(Mark::Takeover, seconds(hold.from), middle);
    }
    if hold.kind == "replayed" {
        picture.mark(Mark::Replay, seconds(hold.from), middle);
    }
}

fn asks(picture: &mut Picture, x: f64, y: f64) {
    picture.put(format_args!(
        r#"<circle class="asks" cx="{x:.1}" cy="{y:.1}" r="2"/>"#
    ));
}

fn extends(picture: &mut Picture, x: f64, y: f64) {
    let half = BAR / 2.0;
    picture.put(format_args!(
        r#"<line class="extend" x1="{x:.1}" x2="{x:.1}" y1="{:.1}" y2="{:.1}"/>"#,
        y - half,
        y + half
    ));
}

fn legend(picture: &mut Picture) {
    let mut x = 20.0;
    let swatches = [
        ("waiting", THIN, "waits"),
        ("holding", BAR, "holds"),
        ("rest", BAR, "left to expire"),
        ("margin", BAR, "clock margin"),
        ("holding", BAR, "extends"),
    ];
    for (class, height, label) in swatches {
        let next = picture.swatch(class, height, label, x);
        match label {
            "waits" => asks(picture, x + 11.0, LEGEND),
            "extends" => extends(picture, x + 11.0, LEGEND),
            _ => {}
        }
        x = next;
    }
    for (mark, label) in [
        (Mark::Stop, "stopped"),
        (Mark::Takeover, "takes over"),
        (Mark::Replay, "granted by replay"),
        (Mark::Kill, "killed; late write refused"),
    ] {
        x = picture.mark_swatch(mark, label, x);
    }
}

/// What stands behind a bar.
fn outcome(record: &Record, execution: &Execution, hold: Option<&Hold>) -> String {
    let waited = execution.waited(record).unwrap_or_default();
    let previous = hold.and_then(|hold| hold.previous.as_ref());
    let status = execution.status.to_lowercase();
    let notes: Vec<String> = [
        execution
            .stopped
            .map(|_| match execution.refused_writes.len() {
                0 => "stopped".to_owned(),
                _ => "stopped; late write refused".to_owned(),
            }),
        previous
            .filter(|previous| previous.ended == "expired")
            .map(|previous| format!("takes over from {}", record.name(&previous.holder))),
        hold.filter(|hold| hold.kind == "replayed")
            .map(|_| "killed, same lease by replay".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if execution.status != execution.expected_status {
        return format!("{status}, unexpectedly");
    }
    match notes.as_slice() {
        [] => format!("waited {waited:.1} s"),
        [note, ..] => note.clone(),
    }
}
