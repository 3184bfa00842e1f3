//! The table on the terminal.

use super::{Figures, Requests};

const HEAD: &str = "contestant            waiters    hold  cycles  req/cycle  aside  req/change  in use  mean wait  longest  ratio  to another  overlaps  errors";

/// A run in one line, in the columns of the table.
#[must_use]
pub fn row(run: &Figures) -> String {
    let change = run
        .requests_per_change
        .map_or_else(|| "none".to_owned(), |per| format!("{per:.2}"));
    let longest = format!(
        "{}{}",
        if run.wait.longest_goes_on { ">" } else { "" },
        length(run.wait.longest_ms)
    );
    let away = match run.latency_ms {
        0 => String::new(),
        ms => format!("  {ms} ms away"),
    };
    format!(
        "{:<20} {:>8} {:>7} {:>7} {:>10.2} {:>6.2} {:>11} {:>6.1}% {:>10} {:>8} {:>6.2} {:>10.1}% {:>9} {:>7}{away}",
        run.contestant.told(),
        run.waiters,
        length(f64::from(u32::try_from(run.hold_ms).unwrap_or(u32::MAX))),
        run.cycles,
        run.requests.per_cycle,
        run.aside.per_cycle,
        change,
        run.utilisation * 100.0,
        length(run.wait.mean_ms),
        longest,
        run.wait.longest_by_mean,
        run.to_another * 100.0,
        run.overlaps,
        run.errors.values().sum::<u64>(),
    )
}

/// The runs below each other, and below them what their requests were.
#[must_use]
pub fn table(runs: &[Figures]) -> String {
    let mut lines = vec![HEAD.to_owned()];
    lines.extend(runs.iter().map(row));
    lines.push(String::new());
    lines.extend(runs.iter().map(|run| {
        let aside = match operations(&run.aside).as_str() {
            "" => String::new(),
            aside => format!("; aside: {aside}"),
        };
        format!(
            "{:<20} {:>8} {:>7}  per cycle: {}{aside}",
            run.contestant.told(),
            run.waiters,
            length(f64::from(u32::try_from(run.hold_ms).unwrap_or(u32::MAX))),
            operations(&run.requests),
        )
    }));
    lines.extend(runs.iter().flat_map(|run| {
        run.errors.iter().map(|(error, times)| {
            format!(
                "{} with {}: {times} times: {error}",
                run.contestant.told(),
                run.waiters
            )
        })
    }));
    lines.join("\n")
}

/// What the columns mean.
pub const LEGEND: &str = "req/cycle: DynamoDB requests per time the key was given back. aside: to confirm and to clean up. \
req/change: all requests per hand-over to another client.\n\
in use: part of the time in which a client was inside. ratio: longest wait by mean wait. \
>: somebody had waited that long and was waiting still.";

fn operations(requests: &Requests) -> String {
    let each = requests.by_operation.iter();
    let each: Vec<String> = each.map(|(name, per)| format!("{name} {per:.2}")).collect();
    each.join(", ")
}

fn length(ms: f64) -> String {
    if ms < 1000.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.1} s", ms / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::contestants::Name;

    #[test]
    fn the_columns_stand_below_their_heads() {
        let mut run = Figures::nothing(Name::PythonDynamodbLock, 128, 50);
        run.wait.longest_ms = 12_345.0;
        run.wait.longest_goes_on = true;
        run.requests.by_operation.insert("GetItem".to_owned(), 2.5);
        run.errors.insert("no".to_owned(), 2);
        let table = table(&[run]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0].len(), lines[1].len(), "{table}");
        assert!(lines[1].contains(" >12.3 s "), "{table}");
        assert!(lines[3].ends_with("per cycle: GetItem 2.50"), "{table}");
        assert!(lines[4].ends_with("2 times: no"), "{table}");
    }
}
