//! The panel's lines: who holds, who waits and who is done, per key.

use super::plan::KEYS;
use super::record::{Execution, Hold, Record};

const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// The width of the bar that empties as a lease runs out.
const BAR: usize = 20;

/// The panel at an instant, each line at most `width` wide.
pub(super) fn lines(record: &Record, now: u64, width: usize) -> Vec<String> {
    let ended = record
        .executions
        .iter()
        .filter(|one| one.ended.is_some())
        .count();
    let title = format!(
        "Leasehold  {:5.1} s   {ended} of {} executions ended   {} grants   Ctrl-C ends it",
        record.seconds(now),
        record.executions.len(),
        record.holds.len()
    );
    let mut lines = vec![painted(BOLD, &cut(&title, width))];
    for key in KEYS {
        lines.push(String::new());
        lines.push(painted(BOLD, &cut(key, width)));
        lines.extend(on_key(record, key, now, width));
    }
    lines
}

fn on_key(record: &Record, key: &str, now: u64, width: usize) -> [String; 3] {
    let here = || record.executions.iter().filter(|one| one.key == key);
    let holder = match record.holder_of(key, now) {
        Some(hold) => holding(record, hold, now, width),
        None => match record.holds.iter().rev().find(|hold| hold.key == key) {
            Some(hold) if hold.released.is_none() => {
                let name = record.name(&hold.holder);
                painted(
                    RED,
                    &cut(&format!("  left by   {name}, who did not release"), width),
                )
            }
            _ => painted(DIM, &cut("  free", width)),
        },
    };
    let waiting = here().filter(|one| {
        let asks = one.asked.is_some() && one.ended.is_none() && one.stopped.is_none();
        asks && record.holds_of(&one.arn).next().is_none()
    });
    let waiting: Vec<_> = waiting.map(|one| waits(record, one, now)).collect();
    let done = here().filter(|one| one.ended.is_some());
    let done: Vec<_> = done
        .map(|one| match one.status.as_str() {
            "SUCCEEDED" => one.name.clone(),
            status => format!("{} ({})", one.name, status.to_lowercase()),
        })
        .collect();
    let list = |label: &str, names: &[String], colour| {
        painted(
            colour,
            &cut(&format!("  {label:<9} {}", names.join("  ")), width),
        )
    };
    [
        holder,
        list("waiting", &waiting, YELLOW),
        list("done", &done, DIM),
    ]
}

fn holding(record: &Record, hold: &Hold, now: u64, width: usize) -> String {
    let left = hold.safe_until.saturating_sub(now);
    let whole = hold
        .safe_until
        .saturating_sub(hold.extends.last().copied().unwrap_or(hold.from));
    let full = share(left, whole.max(1));
    let bar = "█".repeat(full) + &"░".repeat(BAR - full);
    let execution = record.execution(&hold.holder);
    let stopped = execution.is_some_and(|one| one.stopped.is_some());
    let extends = match hold.extends.len() {
        0 => String::new(),
        1 => ", extended".to_owned(),
        times => format!(", extended {times} times"),
    };
    let how = match hold.kind.as_str() {
        "new" => String::new(),
        kind => format!(", {kind}"),
    };
    let text = format!(
        "  {:<9} {:<11} {bar} {:4.1} s  token …{:05}{how}{extends}",
        if stopped { "stopped" } else { "holds" },
        record.name(&hold.holder),
        record.seconds(record.began + left),
        hold.fencing_token % 100_000,
    );
    painted(if stopped { RED } else { GREEN }, &cut(&text, width))
}

fn waits(record: &Record, execution: &Execution, now: u64) -> String {
    let since = execution.asked.unwrap_or(now);
    let waited = record.seconds(now) - record.seconds(since);
    format!("{} {waited:.0}s", execution.name)
}

/// How much of the bar is full.
fn share(left: u64, whole: u64) -> usize {
    let bar = u64::try_from(BAR).unwrap_or(0);
    usize::try_from((left * bar).div_ceil(whole).min(bar)).unwrap_or(0)
}

fn painted(colour: &str, text: &str) -> String {
    format!("{colour}{text}{PLAIN}")
}

/// The text, cut to a width; everything here is one column per character.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_never_wider_than_the_screen() {
        assert_eq!(cut("orders/42", 9), "orders/42");
        assert_eq!(cut("orders/42", 8), "orders/…");
        let record = Record::new(0);
        for width in [1, 20, 200] {
            for line in lines(&record, 1_000, width) {
                let bare = line.replace(BOLD, "").replace(DIM, "").replace(YELLOW, "");
                assert!(bare.replace(PLAIN, "").chars().count() <= width, "{line:?}");
            }
        }
    }

    #[test]
    fn the_bar_is_full_at_first_and_empty_at_last() {
        assert_eq!((share(10, 10), share(1, 10), share(0, 10)), (BAR, 2, 0));
        assert_eq!(share(11, 10), BAR);
    }
}
