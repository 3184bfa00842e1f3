//! The changes between two looks at the table.

use std::collections::BTreeMap;

use leasehold::{HeldView, LeaseState, LeaseView, Timestamp};
use serde::Serialize;

use crate::lease_text;

/// Leases by key and permit.
pub(crate) type Leases = BTreeMap<(String, u16), LeaseView>;

/// The leases that the last look saw, and when.
pub(crate) type Seen = Option<(Leases, Timestamp)>;

/// A change of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    Held,
    Extended,
    Expired,
    Free,
}

/// The changes from the previous look to this one, in order of keys. At the first look every held lease is a change.
pub(crate) fn between(known: &Seen, seen: &Leases, now: Timestamp) -> Vec<(Change, LeaseView)> {
    let mut changes = Vec::new();
    for (place, lease) in seen {
        let known = known.as_ref();
        let known = known.and_then(|(leases, at)| Some((leases.get(place)?, *at)));
        let change = change(known, (lease, now));
        changes.extend(change.map(|change| (change, lease.clone())));
    }
    for (place, lease) in known.iter().flat_map(|(leases, _)| leases) {
        // It is no longer listed, so nobody holds it.
        if !seen.contains_key(place) && lease.held.is_some() {
            let free = LeaseView {
                held: None,
                ..lease.clone()
            };
            changes.push((Change::Free, free));
        }
    }
    changes.sort_by(|(_, a), (_, b)| (&a.key, a.permit).cmp(&(&b.key, b.permit)));
    changes
}

/// What has become of a lease since it was seen last, if it was.
fn change(
    known: Option<(&LeaseView, Timestamp)>,
    (lease, now): (&LeaseView, Timestamp),
) -> Option<Change> {
    use LeaseState::{Closed, Expired, Free, Held};
    let was = known.map(|(lease, at)| lease.state(at));
    let same = known.filter(|(was, _)| was.fencing_token == lease.fencing_token);
    match (was, lease.state(now)) {
        (Some(Held | Expired), Held) if same.is_some() => {
            let ends = |lease: &LeaseView| lease.held.as_ref().map(HeldView::expires_at);
            let was = same.map(|(was, _)| ends(was));
            (was != Some(ends(lease))).then_some(Change::Extended)
        }
        (_, Held) => Some(Change::Held),
        (Some(Expired), Expired) if same.is_some() => None,
        (_, Expired) => Some(Change::Expired),
        (Some(Held | Expired), Free | Closed) => Some(Change::Free),
        (_, Free | Closed) => None,
    }
}

/// A change as one line of text.
pub(crate) fn line(now: Timestamp, change: Change, lease: &LeaseView) -> String {
    let (name, token) = (lease_text::name(lease), lease.fencing_token);
    let what = match (change, &lease.held) {
        (Change::Held, Some(held)) => {
            format!(
                "held by {} {}, token {token}",
                held.holder,
                until(held, now)
            )
        }
        (Change::Extended, Some(held)) => {
            format!("extended by {} {}", held.holder, until(held, now))
        }
        (Change::Expired, Some(held)) => {
            let at = held.expires_at().map(|at| format!(" at {at}"));
            format!(
                "expired{}, was held by {}",
                at.unwrap_or_default(),
                held.holder
            )
        }
        _ => format!("free, after token {token}"),
    };
    format!("{now} {name} {what}")
}

fn until(held: &HeldView, now: Timestamp) -> String {
    held.expires_at().map_or_else(
        || lease_text::while_it_runs(held, now),
        |at| format!("until {at}"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::lease;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn leases(rows: &[(&str, u64, Option<u64>)]) -> Leases {
        let of = |(key, token, ends): &(&str, u64, Option<u64>)| {
            let ends_at = NOW.as_millis() + ends.unwrap_or_default();
            let ends_at = Timestamp::from_millis(ends_at);
            let fields = json!({"holder": "h", "fencing_token": token, "version": token, "expires_at": ends_at});
            let mut lease = lease(key, fields);
            lease.held = lease.held.filter(|_| ends.is_some());
            ((key.to_string(), 0), lease)
        };
        rows.iter().map(of).collect()
    }

    fn changes(known: &Seen, seen: &Leases, now: Timestamp) -> Vec<(Change, String)> {
        let changes = between(known, seen, now).into_iter();
        changes
            .map(|(change, lease)| (change, lease.key.to_string()))
            .collect()
    }

    #[test]
    fn each_change_is_told_once() {
        let first = leases(&[
            ("a", 1, Some(10_000)),
            ("b", 1, Some(10_000)),
            ("c", 1, None),
            ("d", 1, Some(1)),
        ]);
        let named = |change, key: &str| (change, key.to_owned());
        assert_eq!(
            changes(&None, &first, NOW),
            [
                named(Change::Held, "a"),
                named(Change::Held, "b"),
                named(Change::Held, "d")
            ]
        );
        let known = Some((first, NOW));
        let later = Timestamp::from_millis(NOW.as_millis() + 2000);
        let second = leases(&[
            ("a", 1, Some(20_000)),
            ("c", 3, Some(9000)),
            ("d", 1, Some(1)),
        ]);
        assert_eq!(
            changes(&known, &second, later),
            [
                named(Change::Extended, "a"),
                named(Change::Free, "b"),
                named(Change::Held, "c"),
                named(Change::Expired, "d")
            ]
        );
        let known = Some((second.clone(), later));
        assert_eq!(changes(&known, &second, later), []);
        // Another has it now, at the same deadline.
        let third = leases(&[("a", 3, Some(20_000)), ("c", 3, None), ("d", 1, Some(1))]);
        assert_eq!(
            changes(&known, &third, later),
            [named(Change::Held, "a"), named(Change::Free, "c")]
        );
    }

    #[test]
    fn a_change_is_a_line() {
        let seen = leases(&[("a", 7, Some(60_000)), ("b", 8, None)]);
        let mut seen = seen.values();
        let (held, free) = (seen.next().expect("a"), seen.next().expect("b"));
        for (change, lease, said) in [
            (
                Change::Held,
                held,
                "a held by h until 2027-01-15T08:01:00.000Z, token 7",
            ),
            (
                Change::Extended,
                held,
                "a extended by h until 2027-01-15T08:01:00.000Z",
            ),
            (
                Change::Expired,
                held,
                "a expired at 2027-01-15T08:01:00.000Z, was held by h",
            ),
            (Change::Free, free, "b free, after token 8"),
        ] {
            let said = format!("{NOW} {said}");
            assert_eq!(line(NOW, change, lease), said);
        }
    }
}
