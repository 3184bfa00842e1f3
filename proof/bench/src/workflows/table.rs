//! The figures as they are told on the terminal.

use super::crash::Crash;
use super::crowd::Crowd;
use super::hot_key;
use super::ledger::Row;
use super::prices::Prices;
use super::promises::hot_units;
use super::scenes::Scene;

/// The scenes with one execution each.
pub(super) fn scenes(scenes: &[Scene]) -> String {
    let mut lines = vec![
        "                              transitions               events  requests  write  read  requests  invocations".to_owned(),
        "                              lease extend wait  work      all            units units  to tidy  (work's left out)".to_owned(),
    ];
    for scene in scenes {
        let (by, spent) = (&scene.purposes, &scene.spent);
        lines.push(format!(
            "{:<29} {:>5} {:>6} {:>4} {:>5}  {:>7} {:>9} {:>6} {:>5} {:>8} {:>8}",
            scene.name,
            by.lease.transitions,
            by.extend.transitions,
            by.waiting.transitions,
            by.work.transitions + by.frame.transitions,
            spent.history.events,
            spent.sections_asked.requests(),
            spent.sections_asked.write_units,
            spent.sections_asked.read_units,
            spent.tidying_asked.requests(),
            spent.invocations(),
        ));
    }
    lines.join("\n")
}

/// The crowds.
pub(super) fn crowds(crowds: &[Crowd]) -> String {
    let head =
        "many at once for one key       each: transitions  events  requests  to tidy  in all";
    let lines = crowds.iter().map(|crowd| {
        format!(
            "{:<36} {:>11.1} {:>7.1} {:>9.2} {:>8.1} {:>5.1} s",
            crowd.scene.name,
            crowd.transitions(),
            crowd.events(),
            crowd.requests(),
            crowd.tidying(),
            crowd.seconds(),
        )
    });
    under(head, lines)
}

/// The crashes.
pub(super) fn crashes(crashes: &[Crash]) -> String {
    let head = "stopped in the middle, and helped by      the next begins        transitions  requests  to tidy";
    let lines = crashes.iter().map(|crash| {
        let help = serde_json::to_value(crash.help).unwrap_or_default();
        let when = match (crash.seconds, crash.leases) {
            (Some(seconds), Some(leases)) => format!("{seconds:.1} s, {leases:.2} leases"),
            (Some(seconds), None) => format!("{seconds:.1} s"),
            _ => "never".to_owned(),
        };
        format!(
            "{:<26} {:<13}  {when:<21} {:>11} {:>9} {:>8}",
            crash.who,
            help.as_str().unwrap_or_default(),
            crash.transitions,
            crash.spent.sections_asked.requests(),
            crash.spent.tidying_asked.requests(),
        )
    });
    under(head, lines)
}

/// What a million sections cost.
pub(super) fn ledger(ledger: &[Row], prices: &Prices) -> String {
    let head = format!(
        "a million sections in {}, {} of {}                      transitions invocations writes  reads",
        prices.region, prices.currency, prices.date
    );
    let lines = ledger.iter().map(|row| {
        format!(
            "{:<48} {:<24} {:>10.2} {:>8.1} {:>9.1} {:>7.1} {:>6.1}",
            row.mode,
            row.who,
            row.million,
            row.bill.transitions,
            row.bill.invocations,
            row.bill.write_units,
            row.bill.read_units,
        )
    });
    under(&head, lines)
}

/// One hot key, on paper.
pub(super) fn hot_key(ledger: &[Row]) -> String {
    let (crowd, line, polled) = hot_units(ledger);
    let head = format!(
        "one hot key, on paper: in line {:.0} sections a second at most while {crowd} wait, at {line} write units each\n\
         who polls                     asks every    sections a second with 100, with 1000    starves at",
        hot_key::in_line(line).floor()
    );
    let lines = hot_key::paces().into_iter().map(|pace| {
        format!(
            "{:<28} {:>8.1} s {:>25.0} {:>11.0} {:>17.0}",
            pace.who,
            pace.seconds,
            pace.sections(100.0, polled).floor(),
            pace.sections(1000.0, polled).floor(),
            pace.starve(),
        )
    });
    under(&head, lines)
}

fn under(head: &str, lines: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = std::iter::once(head.to_owned()).chain(lines).collect();
    lines.join("\n")
}
