//! The page of a key: why nobody gets it, who has it, who waits, and what can be done.

use leasehold::{
    Act, FailedStart, HeldView, Inspection, Key, KeyView, LeaseState, Timestamp, WaiterView,
};
use leasehold_asl::plain;
use leasehold_net::quoted;
use maud::{Markup, html};

use super::keys::badges;
use super::look::Seen;
use super::page::{Renewal, Site, age, holder, key_link, live, page, query, time};
use super::timeline::timeline;
use crate::key_text::{self, Fact};
use crate::lease_text;
use crate::operate::check_stoppable;

/// The page of a key.
pub(super) fn key(site: &Site, seen: &Seen, now: Timestamp) -> Markup {
    let view = &seen.view;
    let waiters = view.waiters.as_deref().unwrap_or_default();
    let failed = view.failed_starts.as_deref().unwrap_or_default();
    let content = html! {
        h1 { (plain(&lease_text::key(&view.key))) }
        p { (badges(view)) }
        @if let Some(why) = lease_text::looks_like_another(&view.key) { p .mind { "Mind the name: " (why) "." } }
        (why(site, seen, now))
        (actions(site, view))
        (timeline(view, &seen.ended, now))
        @if view.is_semaphore() { (permits(site, seen, now)) }
        @if !waiters.is_empty() { (queue(site, waiters, now)) }
        @if !failed.is_empty() {
            h2 { "Failed starts" }
            (starts(site, failed, now))
        }
        @if view.first().is_some() {
            h2 { "All that is known" }
            (facts(&key_text::facts(view, &seen.ended, now)))
        }
    };
    let renewal = Renewal {
        requests: seen.requests,
    };
    page(site, &view.key.label(), &live(renewal, &content))
}

/// In sentences: who has it, what keeps it closed, who waits.
fn why(site: &Site, seen: &Seen, now: Timestamp) -> Markup {
    let view = &seen.view;
    let held = view.held().count();
    let frozen = view.last_act().filter(|record| record.act == Act::Freeze);
    html! {
        div .why {
            @match view.first() {
                None => p { "It was never leased, or so long ago that its row has been purged." },
                Some(_) if view.is_semaphore() => p { (held) " of " (view.size()) " permits are held." },
                Some(first) => p { (has_it(site, seen, first, now)) },
            }
            @if view.is_frozen() {
                p { strong { "It is frozen" } @if let Some(record) = frozen { " " (plain(&key_text::by(record, now))) } ". Nobody is granted it." }
            }
            @if let Some(limit) = view.limit() {
                p {
                    strong { "It is limited to " (limit.permits) } @if let Some(record) = &limit.by { " " (plain(&key_text::by(record, now))) } "."
                    @if limit.permits == 0 { " Nobody is granted it." }
                    @else if view.held().count() > usize::from(limit.permits) { " More are held: it takes effect as leases end." }
                }
            }
            @if let Some(own) = view.waits_for_itself() {
                p { strong { (holder(site, own)) " " (key_text::WAITS_FOR_ITSELF) } ": it has the key, and asked for it once more." }
            }
            @match (view.waiting(), view.waiters.iter().flatten().next()) {
                (0, _) => p { "Nobody waits for it." },
                (waiting, None) => p { strong { (waiting) @if waiting == 1 { " waits" } @else { " wait" } } " for it." },
                (waiting, Some(first)) => p {
                    strong { (waiting) @if waiting == 1 { " waits" } @else { " wait" } } " for it, the first for "
                    (age(first.since, now)) ": " (holder(site, &first.holder)) "."
                },
            }
        }
    }
}

/// Who has the only permit of a key, and until when; or since when nobody does.
fn has_it(site: &Site, seen: &Seen, permit: &Inspection, now: Timestamp) -> Markup {
    let state = key_text::permit_state(&seen.view, permit, &seen.ended, now);
    let state = capitalised(&state);
    match (&permit.lease.held, permit.state) {
        (Some(held), _) => html! {
            (holder(site, &held.holder)) " has had it for " (age(held.acquired_at, now))
            @if let Some(at) = held.extended_at { ", and extended it " (time(at, now)) }
            ". " strong { (plain(&state)) } "."
            @if let Some(pool) = &held.waits_in_pool { " Look at " (key_link(&Key::of_pool(pool))) "." }
        },
        (None, LeaseState::Closed) => html! {
            strong { "It is cooling down" } @if let Some(at) = permit.opens_at { ": it can be granted " (time(at, now)) } "."
        },
        (None, _) => html! { strong { "Nobody has it" } "." },
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
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
    let view = &seen.view;
    html! {
        h2 { "Permits" }
        table .cards {
            thead { tr {
                @for name in ["Permit", "State", "Holder", "Since", "Extended", "Token", "Before"] { th scope="col" { (name) } }
                @if site.allow_changes { th scope="col" { "Change" } }
            } }
            tbody {
                @for permit in &view.permits {
                    @let held = permit.lease.held.as_ref();
                    tr {
                        td { "#" (permit.lease.permit) }
                        td data-name="State" { (plain(&key_text::permit_state(view, permit, &seen.ended, now))) }
                        td .name data-name="Holder" { @if let Some(held) = held { (holder(site, &held.holder)) } }
                        td data-name="Since" { @if let Some(held) = held { (time(held.acquired_at, now)) } }
                        td data-name="Extended" { @if let Some(at) = held.and_then(|held| held.extended_at) { (time(at, now)) } }
                        td .number data-name="Token" { (permit.lease.fencing_token) }
                        td data-name="Before" { @if let Some(previous) = &permit.previous { (plain(&key_text::previous(previous).1)) } }
                        @if site.allow_changes {
                            td data-name="Change" { @if let Some(held) = held { span .actions { (ends(&view.key, permit, held)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn queue(site: &Site, waiters: &[WaiterView], now: Timestamp) -> Markup {
    html! {
        h2 { "Queue" }
        table .cards {
            thead { tr {
                @for name in ["Place", "Who", "What", "Came", "Gives up", "Metadata"] { th scope="col" { (name) } }
            } }
            tbody {
                @for waiter in waiters {
                    tr {
                        td { (waiter.place) "." }
                        td .name data-name="Who" { (holder(site, &waiter.holder)) }
                        td data-name="What" { @if waiter.start { "start" } @else { "request" } }
                        td data-name="Came" { (time(waiter.since, now)) }
                        td data-name="Gives up" { (time(waiter.until, now)) }
                        td data-name="Metadata" {
                            @for (name, value) in waiter.metadata.entries() { (plain(name)) " = " (plain(value)) " " }
                        }
                    }
                }
            }
        }
    }
}

/// Starts that have failed, each with what can be done.
pub(super) fn starts(site: &Site, starts: &[FailedStart], now: Timestamp) -> Markup {
    html! {
        table .cards {
            thead { tr {
                @for name in ["Key", "Execution", "Asked for", "Reason"] { th scope="col" { (name) } }
                @if site.allow_changes { th scope="col" { "Change" } }
            } }
            tbody {
                @for start in starts {
                    @let to = |act: &str| format!("change?{}", query(&[
                        ("act", act), ("key", start.key.as_str()), ("execution", start.execution_arn.as_str()),
                    ]));
                    tr {
                        td .name { (super::page::key_link(&start.key)) }
                        // It was never begun, so no console shows it.
                        td .name data-name="Execution" { span title=(plain(start.execution_arn.as_str())) { (plain(start.name.as_str())) " of " (machine(start)) } }
                        td data-name="Asked for" { (time(start.asked_at, now)) }
                        td data-name="Reason" { (plain(&start.reason)) }
                        @if site.allow_changes {
                            td data-name="Change" {
                                span .actions { a href=(to("repeat")) { "Repeat…" } a href=(to("dismiss")) { "Dismiss…" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn machine(start: &FailedStart) -> String {
    let arn = start.state_machine_arn.as_str();
    plain(arn.rsplit(':').next().unwrap_or(arn))
}

/// Names and values.
pub(super) fn facts(facts: &[Fact]) -> Markup {
    html! {
        dl {
            @for (name, value) in facts { div { dt { (name) } dd { (plain(value)) } } }
        }
    }
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

    use super::super::samples::{NOW, at, execution, site, view, waiting};
    use super::*;
    use crate::ended_executions::EndedExecutions;

    fn shown(view: KeyView, allow_changes: bool) -> String {
        let seen = Seen {
            view,
            ended: EndedExecutions::default(),
            requests: 3,
        };
        let page = key(&site(allow_changes), &seen, NOW).into_string();
        // The words alone.
        let parts = page
            .split('<')
            .map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        parts.collect()
    }

    fn queued() -> KeyView {
        let mut view = view("orders/42", &execution(&json!({})));
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
            "orders:7f3c has had it for 1 min, and extended it 20 s ago. Held while its execution runs.",
            "It is frozen by alice 30 s ago: incident 77. Nobody is granted it.",
            "2 wait for it, the first for 50 s: worker 1.",
            "leasehold force-release orders/42 --stop --who YOU --why REASON --table leases ends its lease.",
            "beforeworker 6, token 5, expired",
            "metadataorder = 42",
            "1.worker 1request50 s agoin 1 h",
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
        let said = shown(view("k", &json!({})), true);
        assert!(
            said.contains("Force-release…Freeze…") && !said.contains("Stop"),
            "{said}"
        );
        let mut free = view("k", &json!({}));
        free.permits[0].lease.held = None;
        free.permits[0].state = LeaseState::Free;
        let said = shown(free, true);
        assert!(
            said.contains("Nobody has it.") && !said.contains("Force"),
            "{said}"
        );
    }

    #[test]
    fn each_permit_is_shown() {
        let mut view = view("partner", &json!({}));
        let mut second = view.permits[0].clone();
        second.lease.permit = 1;
        second.lease.held.as_mut().unwrap().extended_at = Some(at(40));
        view.permits.push(second);
        let said = shown(view, true);
        assert!(said.contains("2 of 2 permits are held."), "{said}");
        assert!(
            said.contains(
                "#1held, ends in 9 min unless extendedworker 71 min ago20 s ago7Force-release…"
            ),
            "{said}"
        );
    }
}
