//! A lease as text for people: a function of what was seen of it, of what Step Functions says of its execution, and of the time.

use leasehold::{HeldLease, HeldUntil, HeldView, Key, LeaseView, Timestamp, ViewUntil};
use leasehold_asl::plain;

use crate::columns::{Columns, Value};
use crate::durations::{render, when};
use crate::ended_executions::EndedExecutions;

pub(crate) const HEADER: [&str; 5] = ["Key", "State", "Ends", "Token", "Holder"];

/// Until when a lease lasts that has no deadline, and how fresh that is.
pub(crate) fn while_it_runs(held: &HeldView, now: Timestamp) -> String {
    if let Some(pool) = &held.waits_in_pool {
        return format!("while it waits in pool {pool}");
    }
    let ViewUntil::Execution {
        keep,
        looked_at,
        look_again_at,
        ..
    } = held.until
    else {
        return String::new();
    };
    if let Some(at) = look_again_at {
        let again = if at > now {
            format!("Step Functions is asked again {}", when(at, now))
        } else {
            "the next sweep asks Step Functions again".to_owned()
        };
        return format!("until {again}: its execution has ended or is unknown");
    }
    let kept = if keep.as_duration().is_zero() {
        ""
    } else {
        " or may be redriven"
    };
    let looked = looked_at.map(|at| format!(", looked at {}", when(at, now)));
    let looked = looked.unwrap_or_default();
    let pool = held.in_pool.as_ref();
    let pool = pool.map_or(String::new(), |pool| format!(", in pool {pool}"));
    format!("while its execution runs{pool}{kept}{looked}")
}

/// The same where Step Functions says that the execution has ended.
fn until_noticed(held: &HeldView, (status, at): (&str, Timestamp), now: Timestamp) -> String {
    let ViewUntil::Execution {
        keep,
        look_again_at,
        look_due_at,
        ..
    } = held.until
    else {
        return String::new();
    };
    let due = match look_again_at.or(look_due_at) {
        Some(due) if due > now => format!("due {}", when(due, now)),
        _ => "due in the next sweep".to_owned(),
    };
    let kept = if look_again_at.is_some() {
        ", and a task of it may still be at work"
    } else if keep.as_duration().is_zero() || status == "SUCCEEDED" {
        ""
    } else {
        ", and it may be redriven"
    };
    let ago = when(at.min(now), now);
    format!("though its execution ended {ago} ({status}){kept}: the next check is {due}")
}

/// Until when a lease of an execution lasts, as far as anybody knows.
pub(crate) fn while_it_lasts(held: &HeldView, ended: &EndedExecutions, now: Timestamp) -> String {
    match ended.of(held) {
        Some(end) if held.waits_in_pool.is_none() => until_noticed(held, end, now),
        _ => while_it_runs(held, now),
    }
}

/// Who has a key, until when, and how many wait for it.
pub(crate) fn held(held: &HeldLease, now: Timestamp) -> String {
    let until = match held.until {
        HeldUntil::Ttl { expires_at, .. } => {
            let left = render(expires_at.since(now));
            format!("for another {left} unless it extends")
        }
        HeldUntil::Execution { .. } => held.until.to_string(),
        HeldUntil::Closed { opens_at } => {
            let left = render(opens_at.since(now));
            return format!(
                "{} is closed for another {left}, after its grant to {}",
                held.key, held.holder
            );
        }
    };
    let line = match held.waiting {
        0 => String::new(),
        n => format!("; {n} in the queue"),
    };
    format!("{} is held by {} {until}{line}", held.key, held.holder)
}

/// A lease as a row of a table.
pub(crate) fn row(lease: &LeaseView, ended: &EndedExecutions, now: Timestamp) -> Vec<Value> {
    let held = lease.held.as_ref();
    let ends = match held {
        Some(held) if held.expires_at().is_none() => while_it_lasts(held, ended, now).into(),
        _ => Value::at(held.and_then(HeldView::expires_at), now),
    };
    vec![
        name(lease).into(),
        lease.state(now).as_str().into(),
        ends,
        lease.fencing_token.to_string().into(),
        Value::holder(held.map(|held| &held.holder)),
    ]
}

/// A table of leases.
pub(crate) fn table<'a>(leases: impl Iterator<Item = &'a LeaseView>, now: Timestamp) -> String {
    let nothing = EndedExecutions::default();
    let rows: Vec<_> = leases.map(|lease| row(lease, &nothing, now)).collect();
    Columns::new(&HEADER).page(&rows)
}

/// A key and its permit.
pub(crate) fn name(lease: &LeaseView) -> String {
    match lease.permit {
        0 => key(&lease.key),
        permit => format!("{} #{permit}", key(&lease.key)),
    }
}

/// A key, in quotes if they show more of it. What is invisible within is printed as a number, as everywhere.
pub(crate) fn key(key: &Key) -> String {
    let label = key.label();
    if label.trim() == label {
        label.into_owned()
    } else {
        format!("\"{label}\"")
    }
}

/// Why a key is easily taken for another one, which has a row of its own.
pub(crate) fn looks_like_another(key: &Key) -> Option<&'static str> {
    let label = key.label();
    let has_mark = |c: char| matches!(c, '\u{300}'..='\u{36f}');
    if label.trim() != label {
        Some("it begins or ends with a space: without it, it is another key")
    } else if plain(&label) != label {
        Some("it has invisible characters: without them, it is another key")
    } else if label.contains(has_mark) {
        Some(
            "a letter of it is written as two characters, a letter and its accent: written as one, it is another key",
        )
    } else {
        None
    }
}

/// How many keys of a holder are printed.
const NAMED: usize = 3;

/// What a holder has, as a row of a table.
pub(crate) fn of_holder(holder: &str, leases: &[&LeaseView], now: Timestamp) -> Vec<String> {
    let ends = leases.iter().filter_map(|lease| lease.held.as_ref());
    let first = ends.filter_map(HeldView::expires_at).min();
    let named = leases.iter().take(NAMED);
    let mut keys: Vec<_> = named.map(|lease| name(lease)).collect();
    if leases.len() > NAMED {
        keys.push(format!("and {} more", leases.len() - NAMED));
    }
    vec![
        leases.len().to_string(),
        first.map_or_else(String::new, |at| when(at, now)),
        holder.to_owned(),
        keys.join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::{NOW, at, execution, lease};

    #[test]
    fn a_lease_is_a_row() {
        let until = |seconds| json!({"ttl_seconds": 60, "expires_at": at(seconds), "safe_until": at(seconds - 1)});
        let [held, expired] = [90, 30].map(|seconds| lease("k", until(seconds)));
        let free = LeaseView {
            held: None,
            permit: 2,
            ..held.clone()
        };
        for (lease, cells) in [
            (&held, ["k", "held", "in 30 s", "7", "worker 7"]),
            (&expired, ["k", "expired", "30 s ago", "7", "worker 7"]),
            (&free, ["k #2", "free", "", "7", ""]),
        ] {
            let row = row(lease, &EndedExecutions::default(), NOW);
            assert!(row.iter().map(ToString::to_string).eq(cells), "{row:?}");
        }
        let both = [&held, &expired];
        let cells = ["2", "30 s ago", "worker 7", "k, k"];
        assert_eq!(of_holder("worker 7", &both, NOW), cells);
        let many = [&held; 5];
        assert_eq!(of_holder("w", &many, NOW)[3], "k, k, k, and 2 more");
    }

    #[test]
    fn known_end_of_execution_is_shown() {
        for (fields, runs, ended) in [
            (
                json!({"keep_seconds": 0, "looked_at": at(0), "look_due_at": at(300)}),
                "while its execution runs, looked at 1 min ago",
                "though its execution ended 1 min ago (FAILED): the next check is due in 4 min",
            ),
            (
                json!({"keep_seconds": 60}),
                "while its execution runs or may be redriven",
                "though its execution ended 1 min ago (FAILED), and it may be redriven: the next check is due in the next sweep",
            ),
            (
                json!({"keep_seconds": 0, "look_again_at": at(660)}),
                "until Step Functions is asked again in 10 min: its execution has ended or is unknown",
                "though its execution ended 1 min ago (FAILED), and a task of it may still be at work: the next check is due in 10 min",
            ),
        ] {
            let lease = lease("k", execution(fields));
            let held = lease.held.as_ref().unwrap();
            assert_eq!(while_it_lasts(held, &EndedExecutions::default(), NOW), runs);
            assert_eq!(until_noticed(held, ("FAILED", at(0)), NOW), ended);
        }
    }
}
