//! The page of a key: what `leasehold show` says of it, its time, and what can be done.

use leasehold::{FailedStart, HeldView, Inspection, Key, KeyView, Timestamp, WaiterView};
use leasehold_asl::plain;
use leasehold_net::quoted;
use maud::{Markup, html};

use super::keys::badges;
use super::look::Seen;
use super::page::{Renewal, Site, cards, facts, key_link, live, page, query, time, value};
use super::timeline::timeline;
use crate::columns::{Table, Value};
use crate::operate::check_stoppable;
use crate::{key_text, lease_text};

/// The page of a key.
pub(super) fn key(site: &Site, seen: &Seen, now: Timestamp) -> Markup {
    let view = &seen.view;
    let waiters = view.waiters.as_deref().unwrap_or_default();
    let failed = view.failed_starts.as_deref().unwrap_or_default();
    let mut held = view.held().filter_map(|one| one.lease.held.as_ref());
    let pool = held.find_map(|held| held.waits_in_pool.as_ref().or(held.in_pool.as_ref()));
    let mut known = key_text::facts(view, &seen.ended, now);
    // The heading has it.
    known.retain(|(name, _)| *name != "key");
    let content = html! {
        h1 { (plain(&lease_text::key(&view.key))) }
        p { (badges(view)) }
        div .why {
            @if view.first().is_none() { p { "It " (key_text::ABSENT) "." } }
            (facts(site, &known))
            @if let Some(pool) = pool { p { "Look at " (key_link(&Key::of_pool(pool))) "." } }
        }
        (actions(site, view))
        (timeline(view, &seen.ended, now))
        @if view.is_semaphore() { (permits(site, seen, now)) }
        @if !waiters.is_empty() { (queue(site, waiters, now)) }
        @if !failed.is_empty() {
            h2 { "Failed starts" }
            (starts(site, failed, now))
        }
    };
    let renewal = Renewal {
        requests: seen.requests,
    };
    page(site, &view.key.label(), &live(renewal, &content))
}

/// What can be done to the key; without the right to, how to get it.
fn actions(site: &Site, view: &KeyView) -> Markup {
    let key = view.key.as_str();
    let held = view
        .held()
        .filter_map(|one| Some((one, one.lease.held.as_ref()?)));
    let held: Vec<_> = held.collect();
    if !site.allow_changes {
        let stop = held.iter().any(|(_, held)| check_stoppable(held).is_ok());
        let stop = if stop { " --stop" } else { "" };
        let named = quoted(&plain(view.key.pool_name().unwrap_or(key)));
        let pool = view.key.pool_name().map_or("", |_| "--pool ");
        let options = &site.options;
        return html! {
            p .hint {
                "This console is read-only: " code { "leasehold console --allow-changes" } " is not."
                @if !held.is_empty() {
                    " In a terminal, " code { "leasehold force-release " (pool) (named) (stop) " --who YOU --why REASON " (plain(options)) } " ends its lease."
                }
            }
        };
    }
    let to = |act: &str| format!("change?{}", query(&[("act", act), ("key", key)]));
    html! {
        p .actions {
            @if let [(permit, held)] = held[..] { (ends(&view.key, permit, held)) }
            @if view.is_frozen() { a href=(to("unfreeze")) { "Unfreeze…" } }
            @else if view.key.pool_name().is_none() { a href=(to("freeze")) { "Freeze…" } }
            a href=(to("limit")) { "Limit…" }
        }
    }
}

/// What ends a lease. The address names the grant, so that no later one is ended.
fn ends(key: &Key, permit: &Inspection, held: &HeldView) -> Markup {
    let (number, token) = (
        permit.lease.permit.to_string(),
        permit.lease.fencing_token.to_string(),
    );
    let to = |act: &str| {
        let grant = [("permit", &*number), ("token", &*token)];
        let what = [("act", act), ("key", key.as_str())];
        format!("change?{}", query(&[what, grant].concat()))
    };
    html! {
        @if check_stoppable(held).is_ok() { a href=(to("stop")) { "Stop and release…" } }
        a href=(to("force-release")) { "Force-release…" }
    }
}

fn permits(site: &Site, seen: &Seen, now: Timestamp) -> Markup {
    let Table { mut header, rows } = key_text::permits(&seen.view, &seen.ended, now);
    header.push("Before");
    header.extend(site.allow_changes.then_some("Change"));
    let row = |(permit, cells): (&Inspection, Vec<Value>)| {
        let before = permit.previous.as_ref().map(key_text::previous);
        let held = permit.lease.held.as_ref();
        let change = held.map(|held| ends(&seen.view.key, permit, held));
        let mut cells: Vec<_> = cells.iter().map(|cell| value(site, cell)).collect();
        cells.push(html! { @if let Some(before) = before { (plain(&before)) } });
        cells.push(html! { @if let Some(change) = change { span .actions { (change) } } });
        cells
    };
    html! {
        h2 { "Permits" }
        (cards(&header, seen.view.permits.iter().zip(rows).map(row)))
    }
}

fn queue(site: &Site, waiters: &[WaiterView], now: Timestamp) -> Markup {
    let Table { mut header, rows } = key_text::queue(waiters, now);
    header.push("Metadata");
    let row = |(waiter, cells): (&WaiterView, Vec<Value>)| {
        let mut cells: Vec<_> = cells.iter().map(|cell| value(site, cell)).collect();
        let metadata = waiter.metadata.entries();
        cells.push(
            html! { @for (name, value) in metadata { (plain(name)) " = " (plain(value)) " " } },
        );
        cells
    };
    html! {
        h2 { "Queue" }
        (cards(&header, waiters.iter().zip(rows).map(row)))
    }
}

/// Starts that have failed, each with what can be done.
fn starts(site: &Site, starts: &[FailedStart], now: Timestamp) -> Markup {
    let mut header = vec!["Key", "Execution", "Asked for", "Reason"];
    header.extend(site.allow_changes.then_some("Change"));
    let row = |start: &FailedStart| {
        let (key, execution) = (start.key.as_str(), start.execution_arn.as_str());
        let change = |act| {
            let fields = [("act", act), ("key", key), ("execution", execution)];
            format!("change?{}", query(&fields))
        };
        vec![
            key_link(&start.key),
            // It was never begun, so no console shows it.
            html! { span title=(plain(execution)) { (plain(start.name.as_str())) " of " (machine(start)) } },
            time(start.asked_at, now),
            html! { (plain(&start.reason)) },
            html! { span .actions { a href=(change("repeat")) { "Repeat…" } a href=(change("dismiss")) { "Dismiss…" } } },
        ]
    };
    cards(&header, starts.iter().map(row))
}

fn machine(start: &FailedStart) -> String {
    let arn = start.state_machine_arn.as_str();
    plain(arn.rsplit(':').next().unwrap_or(arn))
}

/// The page of failed starts.
pub(super) fn failed(site: &Site, failed: &[FailedStart], now: Timestamp) -> Markup {
    let content = html! {
        h1 { "Failed starts" }
        @if failed.is_empty() {
            p { "No start has failed." }
        } @else {
            p { (failed.len()) " could not begin. Each keeps its request until it is repeated or dismissed." }
            (starts(site, failed, now))
        }
        @if !site.allow_changes && !failed.is_empty() {
            p .hint { "This console is read-only. " code { "leasehold ls --failed " (plain(&site.options)) } " prints the command that repeats each." }
        }
    };
    let renewal = Renewal {
        requests: 4 + failed.len(),
    };
    page(site, "Failed starts", &live(renewal, &content))
}

#[cfg(test)]
mod tests {
    use leasehold::Record;
    use serde_json::json;

    use super::*;
    use crate::ended_executions::EndedExecutions;
    use crate::samples::{NOW, at, execution, free, seen, view, waiting};

    fn shown(view: KeyView, allow_changes: bool) -> String {
        let seen = Seen {
            view,
            ended: EndedExecutions::default(),
            requests: 3,
        };
        let page = key(&Site::sample(allow_changes), &seen, NOW).into_string();
        // The words alone.
        let parts = page
            .split('<')
            .map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        parts.collect()
    }

    fn queued() -> KeyView {
        let mut view = view("orders/42", execution(json!({})));
        view.permits[0].waiting = 2;
        view.waiters = Some(vec![waiting(1, 10), waiting(2, 20)]);
        view
    }

    #[test]
    fn page_says_why_a_key_is_stuck() {
        let mut view = queued();
        let held = view.permits[0].lease.held.as_mut().unwrap();
        held.extended_at = Some(at(40));
        let act = json!({"act": "freeze", "who": "alice", "why": "incident 77", "at": at(30)});
        view.permits[0].frozen = true;
        view.permits[0].operator = Some(serde_json::from_value::<Record>(act).unwrap());
        view.permits[0].previous = serde_json::from_value(
            json!({"holder": "worker 6", "fencing_token": 5, "ended": "expired"}),
        )
        .unwrap();
        let said = shown(view, false);
        for sentence in [
            "stateheld while its execution runs",
            "holderorders:7f3c",
            "extended2027-01-15T08:00:40.000Z (20 s ago)",
            "frozenyes: no new grants",
            "operatorfreeze by alice 30 s ago: incident 77",
            "waiting2 in the queue, the first for 50 s",
            "leasehold force-release orders/42 --stop --who YOU --why REASON --table leases ends its lease.",
            "beforeworker 6, token 5, expired",
            "metadataorder = 42",
            "150 s agoin 1 hrequestworker 1",
        ] {
            assert!(said.contains(sentence), "{sentence}\n{said}");
        }
        assert!(!said.contains("Freeze…"), "{said}");
    }

    #[test]
    fn changes_are_offered_if_allowed() {
        let said = shown(queued(), true);
        assert!(
            said.contains("Stop and release…Force-release…Freeze…Limit…"),
            "{said}"
        );
        // Nobody stops what is no execution, and what is free has no end.
        let said = shown(view("k", json!({})), true);
        assert!(
            said.contains("Force-release…Freeze…") && !said.contains("Stop"),
            "{said}"
        );
        let said = shown(seen(&free(0), json!({})), true);
        assert!(
            said.contains("statefree") && !said.contains("Force"),
            "{said}"
        );
    }

    #[test]
    fn each_permit_is_shown() {
        let mut view = view("partner", json!({}));
        let mut second = view.permits[0].clone();
        second.lease.permit = 1;
        second.lease.held.as_mut().unwrap().extended_at = Some(at(40));
        view.permits.push(second);
        let said = shown(view, true);
        assert!(said.contains("permits2 of 2 held"), "{said}");
        assert!(
            said.contains("#1heldin 9 min1 min ago20 s ago7worker 7Force-release…"),
            "{said}"
        );
    }
}
