//! A key as text for people: a function of what was seen of it, of what Step Functions says of its executions, and of the time.

use leasehold::{
    Act, Ended, HeldView, Inspection, KeyView, LeaseState, Previous, Record, Timestamp, ViewUntil,
    WaiterView,
};

use crate::columns::{Fact, Table, Value, pairs};
use crate::durations::{render, when};
use crate::ended_executions::EndedExecutions;
use crate::lease_text::{self, while_it_lasts};

/// Of a key without a row.
pub(crate) const ABSENT: &str = "was never leased, or its row has been purged";

/// Before the name of one that waits for a key that it holds.
const WAITS_FOR_ITSELF: &str = "waits for itself";

/// Of a lease of a start whose execution is not known to have begun.
const NOT_BEGUN: &str =
    "its execution has not begun: Step Functions has not accepted it yet, and the stack asks again";

/// All that was seen of a key, also of one that has no row.
pub(crate) fn whole(view: &KeyView, ended: &EndedExecutions, now: Timestamp) -> String {
    let mut facts = facts(view, ended, now);
    facts.extend(failed_starts(view, now));
    let mut parts = Vec::new();
    if !facts.is_empty() {
        parts.push(pairs(facts));
    }
    if view.is_semaphore() {
        parts.push(permits(view, ended, now).to_string());
    }
    let waiters = view.waiters.as_deref().unwrap_or_default();
    if !waiters.is_empty() {
        parts.push(queue(waiters, now).to_string());
    }
    parts.join("\n\n")
}

/// What is known of a key and of its first permit; nothing of one that has no row.
pub(crate) fn facts(view: &KeyView, ended: &EndedExecutions, now: Timestamp) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(first) = view.first() {
        facts = of_permit(view, first, ended, now);
        if view.is_semaphore() {
            facts.insert(2, ("permits", state(view).into()));
        }
        facts.extend(
            view.last_act()
                .into_iter()
                .flat_map(|act| last_act(act, now)),
        );
        facts.extend(disagreement(view));
    }
    facts.extend(lease_text::looks_like_another(&view.key).map(|why| ("mind", why.into())));
    let own = view.waits_for_itself();
    facts.extend(own.map(|own| (WAITS_FOR_ITSELF, Value::Holder(own.clone()))));
    facts
}

/// One permit of a key, before something is done to it.
pub(crate) fn permit(view: &KeyView, permit: &Inspection, now: Timestamp) -> String {
    pairs(permit_facts(view, permit, now))
}

/// The same as names and values.
pub(crate) fn permit_facts(view: &KeyView, permit: &Inspection, now: Timestamp) -> Vec<Fact> {
    let mut facts = of_permit(view, permit, &EndedExecutions::default(), now);
    let act = permit.operator.as_ref();
    facts.extend(act.into_iter().flat_map(|act| last_act(act, now)));
    facts
}

/// A key as a row of a table of keys.
pub(crate) fn row(view: &KeyView) -> Vec<String> {
    let held = view.first().and_then(|first| first.lease.held.as_ref());
    let limit = view.limit().map(|limit| limit.permits.to_string());
    vec![
        lease_text::key(&view.key),
        state(view),
        if view.is_frozen() { "yes" } else { "" }.to_owned(),
        limit.unwrap_or_default(),
        match view.waiting() {
            0 => String::new(),
            n => n.to_string(),
        },
        held.map_or_else(String::new, |held| held.holder.to_string()),
    ]
}

/// The state of a key; of a semaphore how many of its permits are held.
pub(crate) fn state(view: &KeyView) -> String {
    match view.first() {
        None => "gone".to_owned(),
        Some(_) if view.is_semaphore() => {
            format!("{} of {} held", view.held().count(), view.size())
        }
        Some(first) => first.state.as_str().to_owned(),
    }
}

/// What is known of a permit, without the operator's last act.
fn of_permit(
    view: &KeyView,
    permit: &Inspection,
    ended: &EndedExecutions,
    now: Timestamp,
) -> Vec<Fact> {
    let lease = &permit.lease;
    let mut facts = vec![
        ("key", lease_text::name(lease).into()),
        ("state", permit_state(view, permit, ended, now).into()),
    ];
    facts.extend(restrictions(view, permit, now));
    match &lease.held {
        None => facts.push(("last token", lease.fencing_token.to_string().into())),
        Some(held) => {
            facts.push(("holder", Value::Holder(held.holder.clone())));
            facts.push(("token", lease.fencing_token.to_string().into()));
            facts.push(("granted", instant(held.acquired_at, now)));
            let extended = held.extended_at;
            facts.extend(extended.map(|at| ("extended", instant(at, now))));
            facts.extend(of_lifetime(held));
            let entries = held.metadata.entries().iter();
            facts.extend(
                entries.map(|(name, value)| ("metadata", format!("{name} = {value}").into())),
            );
        }
    }
    if permit.waiting > 0 {
        let first = view.waiters.iter().flatten().next();
        let first =
            first.map(|first| format!(", the first for {}", render(now.since(first.since))));
        let first = first.unwrap_or_default();
        facts.push((
            "waiting",
            format!("{} in the queue{first}", permit.waiting).into(),
        ));
    }
    let before = permit.previous.as_ref();
    facts.extend(before.map(|before| ("before", previous(before).into())));
    facts
}

/// Whether it is a start's that the stack tries to begin.
fn is_not_begun(view: &KeyView, permit: &Inspection) -> bool {
    let held = permit.lease.held.as_ref();
    view.not_begun.contains(&permit.lease.permit)
        && held.is_none_or(|held| held.waits_in_pool.is_none())
}

fn permit_state(
    view: &KeyView,
    permit: &Inspection,
    ended: &EndedExecutions,
    now: Timestamp,
) -> String {
    let Some(held) = &permit.lease.held else {
        return match permit.state {
            LeaseState::Closed => "closed after its last grant",
            _ => "free",
        }
        .to_owned();
    };
    match held.expires_at() {
        _ if is_not_begun(view, permit) => format!("held, {NOT_BEGUN}"),
        None => format!("held {}", while_it_lasts(held, ended, now)),
        Some(at) if permit.state == LeaseState::Expired => {
            format!("expired {}, not taken", when(at, now))
        }
        Some(at) => format!("held, ends {} unless extended", when(at, now)),
    }
}

/// What keeps it from being granted.
fn restrictions(view: &KeyView, permit: &Inspection, now: Timestamp) -> Vec<Fact> {
    let frozen = permit.frozen.then(|| "yes: no new grants".into());
    let limit = permit.limit.as_ref().map(|limit| {
        let who = limit.by.as_ref();
        let who = who.map_or_else(String::new, |record| format!(", {}", by(record, now)));
        let effect = match limit.permits {
            0 => "; no new grants",
            most if view.held().count() > most.into() => "; more are held until they end",
            _ => "",
        };
        format!("{}{who}{effect}", limit.permits).into()
    });
    let opens = permit.opens_at.map(|at| instant(at, now));
    let all = [("frozen", frozen), ("limit", limit), ("opens", opens)];
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

fn of_lifetime(held: &HeldView) -> Vec<Fact> {
    match held.until {
        ViewUntil::Ttl {
            ttl, expires_at, ..
        } => vec![
            ("ends", expires_at.to_string().into()),
            ("ttl", render(ttl.as_duration()).into()),
        ],
        ViewUntil::Execution { keep, .. } if keep.as_duration().is_zero() => Vec::new(),
        ViewUntil::Execution { keep, .. } => {
            let keep = render(keep.as_duration());
            let kept = format!("{keep} after a failure, for a redrive");
            vec![("kept", kept.into())]
        }
    }
}

/// Who had it before, and how that ended.
pub(crate) fn previous(previous: &Previous) -> String {
    let Previous {
        holder,
        fencing_token,
        ended,
    } = previous;
    let ended = match ended {
        Ended::Released => "released",
        Ended::Expired => "expired",
        Ended::Forced => "ended by an operator",
    };
    format!("{holder}, token {fencing_token}, {ended}")
}

fn last_act(record: &Record, now: Timestamp) -> Vec<Fact> {
    let act = match record.act {
        Act::ForceRelease => "force-release",
        Act::Freeze => "freeze",
        Act::Unfreeze => "unfreeze",
        Act::RaiseFloor => "raise-floor",
        Act::Limit => "limit",
        Act::Stop => "force-release --stop",
    };
    let mut facts = vec![("operator", format!("{act} {}", by(record, now)).into())];
    let caller = record.caller.as_ref();
    facts.extend(caller.map(|caller| ("signed by", caller.to_string().into())));
    facts
}

fn by(record: &Record, now: Timestamp) -> String {
    let (who, at, why) = (&record.who, when(record.at, now), &record.why);
    format!("by {who} {at}: {why}")
}

fn instant(at: Timestamp, now: Timestamp) -> Value {
    format!("{at} ({})", when(at, now)).into()
}

/// That callers ask for different numbers of permits.
fn disagreement(view: &KeyView) -> Option<Fact> {
    let asked = view.sizes_asked_for();
    if asked.len() < 2 {
        return None;
    }
    let asked: Vec<_> = asked.iter().map(u16::to_string).collect();
    let counts = match view.limit() {
        Some(_) => "the limit",
        None => "the smallest of those who have one",
    };
    let asked = asked.join(", ");
    Some((
        "permits",
        format!("callers ask for {asked}; {counts} counts").into(),
    ))
}

fn failed_starts(view: &KeyView, now: Timestamp) -> impl Iterator<Item = Fact> {
    view.failed_starts.iter().flatten().map(move |start| {
        let (execution, asked) = (&start.execution_arn, when(start.asked_at, now));
        let failed = format!("{execution}, asked for {asked}: {}", start.reason);
        ("failed start", failed.into())
    })
}

/// Where a table of permits has the signs of life of each holder, which a table of leases does not have: behind its end.
const SIGNS: usize = 3;

/// A table of a semaphore's permits.
pub(crate) fn permits(view: &KeyView, ended: &EndedExecutions, now: Timestamp) -> Table {
    let row = |one: &Inspection| {
        let mut row = lease_text::row(&one.lease, ended, now);
        row[0] = format!("#{}", one.lease.permit).into();
        if one.lease.held.is_none() && one.opens_at.is_some() {
            row[1] = LeaseState::Closed.as_str().into();
            row[2] = Value::at(one.opens_at, now);
        }
        if is_not_begun(view, one) {
            row[2] = NOT_BEGUN.into();
        }
        let held = one.lease.held.as_ref();
        let signs = [
            held.map(|held| held.acquired_at),
            held.and_then(|held| held.extended_at),
        ];
        row.splice(SIGNS..SIGNS, signs.map(|at| Value::at(at, now)));
        row
    };
    let mut header = lease_text::HEADER.to_vec();
    header[0] = "Permit";
    header.splice(SIGNS..SIGNS, ["Granted", "Extended"]);
    let rows = view.permits.iter().map(row).collect();
    Table { header, rows }
}

/// A table of those who wait, first come first.
pub(crate) fn queue(waiters: &[WaiterView], now: Timestamp) -> Table {
    let row = |waits: &WaiterView| {
        let what = if waits.start { "start" } else { "request" };
        vec![
            waits.place.to_string().into(),
            Value::At(waits.since, now),
            Value::At(waits.until, now),
            what.into(),
            Value::Holder(waits.holder.clone()),
        ]
    };
    Table {
        header: vec!["Place", "Came", "Gives up", "What", "Who"],
        rows: waiters.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use leasehold::{Key, Permits};
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::samples::{
        EXECUTION, NOW, at, execution, failed_start, free, lease, permit as permit_of, seen, view,
        waiting,
    };

    fn shown(view: &KeyView) -> String {
        whole(view, &EndedExecutions::default(), NOW)
    }

    #[test]
    fn key_that_looks_like_another_is_marked() {
        for (name, shown_as, why) in [
            (
                " orders/42",
                "\" orders/42\"",
                Some("begins or ends with a space"),
            ),
            (
                "orders/42\u{a0}",
                "\"orders/42\u{a0}\"",
                Some("begins or ends with a space"),
            ),
            (
                "orders/\u{200b}42",
                "orders/\u{200b}42",
                Some("invisible characters"),
            ),
            (
                "cafe\u{301}",
                "cafe\u{301}",
                Some("a letter and its accent"),
            ),
            ("caf\u{e9}", "caf\u{e9}", None),
            ("orders / 42", "orders / 42", None),
        ] {
            let key = Key::new(name).unwrap();
            assert_eq!(lease_text::key(&key), shown_as);
            let marked = lease_text::looks_like_another(&key);
            assert_eq!(marked.is_some(), why.is_some(), "{name:?}");
            assert!(
                marked.unwrap_or_default().contains(why.unwrap_or_default()),
                "{name:?}"
            );
        }
        let said = shown(&view("orders/42 ", json!({})));
        assert!(said.contains("mind "), "{said}");
    }

    #[test]
    fn held_key_says_holder_and_end() {
        let act = json!({"act": "freeze", "who": "alice", "why": "incident 77", "at": at(30), "caller": "arn:aws:iam::1:role/o"});
        let lease = lease("orders/42", json!({"extended_at": at(40)}));
        let before = json!({"holder": "worker 6", "fencing_token": 5, "ended": "forced"});
        let more = json!({"frozen": true, "waiting": 2, "previous": before, "operator": act});
        let view = seen(&lease, more);
        let expected = "\
key        orders/42
state      held, ends in 9 min unless extended
frozen     yes: no new grants
holder     worker 7
token      7
granted    2027-01-15T08:00:00.000Z (1 min ago)
extended   2027-01-15T08:00:40.000Z (20 s ago)
ends       2027-01-15T08:10:00.000Z
ttl        10 min
metadata   order = 42
waiting    2 in the queue
before     worker 6, token 5, ended by an operator
operator   freeze by alice 30 s ago: incident 77
signed by  arn:aws:iam::1:role/o";
        assert_eq!(shown(&view), expected);
        assert_eq!(permit(&view, &view.permits[0], NOW), expected);
        assert_eq!(
            row(&view),
            ["orders/42", "held", "yes", "", "2", "worker 7"]
        );
    }

    #[test]
    fn states_are_told_in_words() {
        let expired = lease("orders/42", json!({"expires_at": at(20)}));
        let runs = lease("orders/42", execution(json!({})));
        for (state, lease, said) in [
            ("expired", expired, "expired 40 s ago, not taken"),
            ("held", runs, "held while its execution runs"),
            ("closed", free(0), "closed after its last grant"),
            ("free", free(0), "free"),
        ] {
            let view = seen(&lease, json!({"state": state}));
            let shown = shown(&view);
            let line = shown.lines().find_map(|line| line.strip_prefix("state "));
            assert_eq!(line.map(str::trim), Some(said));
        }
    }

    #[test]
    fn pools_are_named() {
        let mut pool = lease("orders/42", json!({"permit": 1}));
        pool.key = Key::of_pool(&Key::new("imports").unwrap());
        let said = shown(&seen(&pool, json!({})));
        assert!(said.contains("pool imports #1\n"), "{said}");
        let waits = view("orders/42", execution(json!({"waits_in_pool": "imports"})));
        let said = "held while it waits in pool imports\n";
        assert!(shown(&waits).contains(said), "{}", shown(&waits));
    }

    #[test]
    fn a_semaphore_shows_each_permit() {
        let limit = json!({"permits": 3, "act": "limit", "who": "alice", "why": "maintenance", "at": at(0)});
        let act = json!({"act": "force_release", "who": "bob", "why": "hangs", "at": at(50)});
        let of = |fields: Json| lease("orders/42", fields);
        let first = of(json!({"holder": "a"}));
        let third = of(json!({"holder": "c", "permit": 2, "extended_at": at(30)}));
        let limited = json!({"limit": limit});
        let permits = [
            permit_of(&first, limited.clone()),
            permit_of(&free(1), json!({"state": "closed", "opens_at": at(120)})),
            permit_of(&third, json!({"operator": act})),
        ];
        let mut view = seen(&first, json!({"limit": limit, "permits": permits}));
        let said = shown(&view);
        let (facts, table) = said.split_once("\n\n").unwrap();
        for fact in [
            "permits   2 of 3 held\n",
            "limit     3, by alice 1 min ago: maintenance\n",
            "operator  force-release by bob 10 s ago: hangs",
        ] {
            assert!(facts.contains(fact), "{facts}");
        }
        let expected = "\
PERMIT  STATE   ENDS      GRANTED    EXTENDED  TOKEN  HOLDER
#0      held    in 9 min  1 min ago            7      a
#1      closed  in 1 min                       7
#2      held    in 9 min  1 min ago  30 s ago  7      c";
        assert_eq!(table, expected);
        assert_eq!(row(&view), ["orders/42", "2 of 3 held", "", "3", "", "a"]);
        for (limit, effect) in [
            (0, "0, by alice 1 min ago: maintenance; no new grants\n"),
            (
                1,
                "1, by alice 1 min ago: maintenance; more are held until they end\n",
            ),
        ] {
            view.permits[0].limit.as_mut().unwrap().permits = limit;
            assert!(shown(&view).contains(effect), "{}", shown(&view));
        }
    }

    #[test]
    fn who_waits_for_itself_is_named() {
        let mut view = view("orders/42", json!({"holder": "worker 1"}));
        view.permits[0].waiting = 1;
        for (place, itself) in [(2, false), (1, true)] {
            view.waiters = Some(vec![waiting(place, 0)]);
            let said = shown(&view);
            assert_eq!(said.contains("waits for itself"), itself);
            assert!(
                said.contains("1 in the queue, the first for 1 min\n"),
                "{said}"
            );
        }
    }

    #[test]
    fn queue_and_failed_starts_are_shown() {
        let mut view = view("orders/42", json!({}));
        view.permits.clear();
        assert_eq!(shown(&view), "");
        assert_eq!(row(&view)[1], "gone");
        let waits = |place, permits| WaiterView {
            start: place > 1,
            permits: Some(Permits::new(permits).unwrap()),
            ..waiting(place, 0)
        };
        view.waiters = Some(vec![waits(1, 2), waits(2, 3)]);
        view.failed_starts = Some(vec![failed_start("orders/42")]);
        let expected = format!(
            "\
failed start  {EXECUTION}, asked for 1 min ago: StateMachineDoesNotExist

PLACE  CAME       GIVES UP  WHAT     WHO
1      1 min ago  in 1 h    request  worker 1
2      1 min ago  in 1 h    start    worker 2"
        );
        assert_eq!(shown(&view), expected);
        let (name, said) = disagreement(&view).unwrap();
        let differ = "callers ask for 2, 3; the smallest of those who have one counts";
        assert_eq!((name, &*said.to_string()), ("permits", differ));
    }

    #[test]
    fn unbegun_start_is_not_shown_running() {
        let mut view = view("orders/42", json!({}));
        view.not_begun = [0].into();
        let said = shown(&view);
        assert!(
            said.contains("state     held, its execution has not begun: "),
            "{said}"
        );
    }
}
