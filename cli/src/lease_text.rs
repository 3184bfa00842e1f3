//! A lease as text for people.

use std::collections::BTreeSet;

use leasehold::{
    HeldLease, HeldUntil, HeldView, Inspection, LeaseState, LeaseView, Permits, Previous, Record,
    Timestamp, ViewUntil, WaiterView,
};

use std::io::IsTerminal as _;

use crate::columns::Columns;
use crate::durations::render;
use crate::ended::Ended;

/// An instant relative to now.
pub(crate) fn when(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", render(at.since(now)))
    } else {
        format!("{} ago", render(now.since(at)))
    }
}

/// Of a lease of a start whose execution is not known to have begun.
pub(crate) const NOT_BEGUN: &str =
    "its execution has not begun: Step Functions has not accepted it yet, and the stack asks again";

pub(crate) const HEADER: [&str; 5] = ["KEY", "STATE", "ENDS", "TOKEN", "HOLDER"];

/// Until when a lease lasts that has no deadline, and how fresh that is.
pub(crate) fn while_it_runs(held: &HeldView, now: Timestamp) -> String {
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
        return format!("until {again}: its execution is over or unknown");
    }
    let kept = if keep.as_duration().is_zero() {
        ""
    } else {
        " or may be redriven"
    };
    let looked = looked_at.map(|at| format!(", looked at {}", when(at, now)));
    let looked = looked.unwrap_or_default();
    format!("while its execution runs{kept}{looked}")
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
fn while_it_lasts(held: &HeldView, ended: &Ended, now: Timestamp) -> String {
    match ended.of(held) {
        Some(end) => until_noticed(held, end, now),
        None => while_it_runs(held, now),
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
pub(crate) fn row(lease: &LeaseView, ended: &Ended, now: Timestamp) -> Vec<String> {
    row_until(lease, None, ended, now)
}

/// The same for a permit, which may stay closed until then.
fn row_until(
    lease: &LeaseView,
    opens_at: Option<Timestamp>,
    ended: &Ended,
    now: Timestamp,
) -> Vec<String> {
    let ends = |held: &HeldView| {
        let at = held.expires_at().map(|at| when(at, now));
        at.unwrap_or_else(|| while_it_lasts(held, ended, now))
    };
    let holder = |held: &HeldView| short(held.holder.as_str());
    let held = lease.held.as_ref();
    let (state, ends) = match (held, opens_at) {
        (None, Some(at)) => ("closed", when(at, now)),
        (None, None) => (state(lease, now), String::new()),
        (Some(held), _) => (state(lease, now), ends(held)),
    };
    vec![
        name(lease),
        state.to_owned(),
        ends,
        lease.fencing_token.to_string(),
        held.map_or_else(String::new, holder),
    ]
}

/// A table of leases.
pub(crate) fn table<'a>(leases: impl Iterator<Item = &'a LeaseView>, now: Timestamp) -> String {
    let rows: Vec<_> = leases
        .map(|lease| row(lease, &Ended::default(), now))
        .collect();
    Columns::new(&HEADER).page(&rows)
}

/// A table of a semaphore's permits.
pub(crate) fn permits(
    seen: &[Inspection],
    not_begun: &BTreeSet<u16>,
    ended: &Ended,
    now: Timestamp,
) -> String {
    let row = |one: &Inspection| {
        let mut row = row_until(&one.lease, one.opens_at, ended, now);
        if not_begun.contains(&one.lease.permit) {
            NOT_BEGUN.clone_into(&mut row[2]);
        }
        row
    };
    let rows: Vec<_> = seen.iter().map(row).collect();
    Columns::new(&HEADER).page(&rows)
}

/// A table of those who wait, first come first.
pub(crate) fn waiters(waiters: &[WaiterView], now: Timestamp) -> String {
    let row = |waits: &WaiterView| {
        let what = if waits.start { "start" } else { "request" };
        vec![
            waits.place.to_string(),
            when(waits.since, now),
            when(waits.until, now),
            what.to_owned(),
            short(waits.holder.as_str()),
        ]
    };
    let rows: Vec<_> = waiters.iter().map(row).collect();
    Columns::new(&["PLACE", "CAME", "GIVES UP", "WHAT", "WHO"]).page(&rows)
}

/// That those who have a permit, or wait for one, ask for different numbers of permits.
pub(crate) fn other_numbers(
    seen: &[Inspection],
    waiters: &[WaiterView],
) -> Option<(&'static str, String)> {
    let taken = seen.iter().filter(|one| one.state != LeaseState::Free);
    let numbers = taken.filter_map(|one| one.lease.permits);
    let numbers = numbers.chain(waiters.iter().filter_map(|one| one.permits));
    let numbers: BTreeSet<_> = numbers.map(Permits::get).collect();
    if numbers.len() < 2 {
        return None;
    }
    let numbers: Vec<_> = numbers.iter().map(u16::to_string).collect();
    let counts = if seen.iter().any(|one| one.limit.is_some()) {
        "the limit"
    } else {
        "the smallest of those who have one"
    };
    let numbers = numbers.join(", ");
    Some((
        "permits",
        format!("callers ask for {numbers}; {counts} counts"),
    ))
}

/// A key and its permit.
pub(crate) fn name(lease: &LeaseView) -> String {
    match lease.permit {
        0 => lease.key.to_string(),
        permit => format!("{} #{permit}", lease.key),
    }
}

/// A holder in a row: on a terminal, where a row is to fit, of an execution's ARN only its machine and name.
pub(crate) fn short(holder: &str) -> String {
    let is_terminal = std::io::stdout().is_terminal();
    machine_and_name(holder)
        .filter(|_| is_terminal)
        .unwrap_or(holder)
        .to_owned()
}

fn machine_and_name(holder: &str) -> Option<&str> {
    let rest = holder.strip_prefix("arn:")?;
    let kinds = [":execution:", ":function:"].iter();
    kinds
        .filter_map(|kind| rest.split_once(kind))
        .map(|(_, name)| name)
        .next()
}

/// The state of a key, of a semaphore with how many of its permits are held: of those that there may be at once by an operator's
/// limit, or that were ever granted.
pub(crate) fn key_state(first: &Inspection, permits: &[Inspection], now: Timestamp) -> String {
    if permits.is_empty() {
        return match first.state {
            LeaseState::Closed => "closed",
            _ => state(&first.lease, now),
        }
        .to_owned();
    }
    let held = permits
        .iter()
        .filter(|one| one.lease.held.is_some())
        .count();
    let limit = first.limit.as_ref().map(|limit| usize::from(limit.permits));
    format!("{held} of {} held", limit.unwrap_or(permits.len()))
}

pub(crate) fn state(lease: &LeaseView, now: Timestamp) -> &'static str {
    match &lease.held {
        None => "free",
        Some(held) if held.expires_at().is_some_and(|at| at <= now) => "expired",
        Some(_) => "held",
    }
}

/// All details of a lease, as names and values.
/// `permits` are all permits of the key, if it is a semaphore.
pub(crate) fn details(
    seen: &Inspection,
    permits: &[Inspection],
    ended: &Ended,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let lease = &seen.lease;
    let mut rows = vec![("key", name(lease))];
    let state = match (seen.state, &lease.held) {
        (LeaseState::Closed, _) => "closed after its last grant".to_owned(),
        (_, None) | (LeaseState::Free, _) => "free".to_owned(),
        (state, Some(held)) => match (state, held.expires_at()) {
            (_, None) => format!("held {}", while_it_lasts(held, ended, now)),
            (LeaseState::Expired, Some(at)) => format!("expired {}, not taken", when(at, now)),
            (_, Some(at)) => format!("held, ends {} unless extended", when(at, now)),
        },
    };
    rows.push(("state", state));
    if !permits.is_empty() {
        rows.push(("permits", key_state(seen, permits, now)));
    }
    if seen.frozen {
        rows.push(("frozen", "yes: no new grants".to_owned()));
    }
    let by = |record: &Record| {
        let (who, at, why) = (&record.who, when(record.at, now), &record.why);
        format!("by {who} {at}: {why}")
    };
    if let Some(limit) = &seen.limit {
        let by = limit.by.as_ref().map(|record| format!(", {}", by(record)));
        rows.push((
            "limit",
            format!("{}{}", limit.permits, by.unwrap_or_default()),
        ));
    }
    if let Some(at) = seen.opens_at {
        rows.push(("opens", format!("{at} ({})", when(at, now))));
    }
    if let Some(held) = &lease.held {
        rows.push(("holder", held.holder.to_string()));
        rows.push(("token", lease.fencing_token.to_string()));
        let acquired = (held.acquired_at, when(held.acquired_at, now));
        rows.push(("granted", format!("{} ({})", acquired.0, acquired.1)));
        match held.until {
            ViewUntil::Ttl {
                ttl, expires_at, ..
            } => {
                rows.push(("ends", expires_at.to_string()));
                rows.push(("ttl", render(ttl.as_duration())));
            }
            ViewUntil::Execution { keep, .. } if keep.as_duration().is_zero() => {}
            ViewUntil::Execution { keep, .. } => {
                let keep = render(keep.as_duration());
                rows.push(("kept", format!("{keep} after a failure, for a redrive")));
            }
        }
        for (name, value) in held.metadata.entries() {
            rows.push(("metadata", format!("{name} = {value}")));
        }
    } else {
        rows.push(("last token", lease.fencing_token.to_string()));
    }
    if seen.waiting > 0 {
        rows.push(("waiting", format!("{} in the queue", seen.waiting)));
    }
    if let Some(Previous {
        holder,
        fencing_token,
        ended,
    }) = &seen.previous
    {
        let ended = match ended {
            leasehold::Ended::Released => "released",
            leasehold::Ended::Expired => "expired",
            leasehold::Ended::Forced => "ended by an operator",
        };
        rows.push((
            "before",
            format!("{holder}, token {fencing_token}, {ended}"),
        ));
    }
    if let Some(record) = &seen.operator {
        let act = match record.act {
            leasehold::Act::ForceRelease => "force-release",
            leasehold::Act::Freeze => "freeze",
            leasehold::Act::Unfreeze => "unfreeze",
            leasehold::Act::RaiseFloor => "raise-floor",
            leasehold::Act::Limit => "limit",
        };
        rows.push(("operator", format!("{act} {}", by(record))));
        if let Some(caller) = &record.caller {
            rows.push(("signed by", caller.to_string()));
        }
    }
    rows
}
