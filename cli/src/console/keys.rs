//! The page of keys: who has which, and who waits.

use std::cmp::Reverse;

use leasehold::{HeldView, Key, KeyView, LeaseState, Timestamp, WaiterView};
use leasehold_asl::plain;
use maud::{Markup, html};

use super::look::Listed;
use super::page::{Renewal, Site, age, cards, holder, key_link, live, page, query, time, value};
use crate::columns::Value;
use crate::key_text;
use crate::lease_text::while_it_runs;

/// Rows of the table at most. A browser shows more only slowly.
const MOST: usize = 1000;

const HEADER: [&str; 7] = [
    "Key", "State", "Holder", "Since", "Until", "Token", "Waiting",
];

/// How many holders of a semaphore are named.
const NAMED: usize = 3;

/// The page with the keys that match what somebody searches for.
pub(super) fn keys(site: &Site, listed: &Listed, sought: &str, now: Timestamp) -> Markup {
    let mut views: Vec<_> = listed
        .views
        .iter()
        .filter(|view| matches(view, sought))
        .collect();
    views.sort_by_key(|view| {
        let since = head(view).map(|head| head.since);
        (since.is_none(), since, Reverse(view.waiting()), &view.key)
    });
    let content = html! {
        h1 { "Keys" }
        (summary(&listed.views, &views, sought))
        @if !views.is_empty() {
            (cards(&HEADER, views.iter().take(MOST).map(|view| row(site, view, now))))
        }
        @if views.len() > MOST { p { "These are the first " (MOST) ": search for others." } }
        @if let Some(missing) = listed.missing { p .hint { (missing) } }
    };
    let renewal = Renewal {
        requests: listed.requests,
    };
    let search = html! {
        form .search role="search" {
            label for="q" { "Key or holder" }
            input #q type="search" name="q" value=(plain(sought));
            button { "Search" }
        }
    };
    page(site, "Keys", &html! { (search) (live(renewal, &content)) })
}

/// How many there are, and how to look at one that is not listed.
fn summary(all: &[KeyView], shown: &[&KeyView], sought: &str) -> Markup {
    let waiting: u64 = all.iter().map(KeyView::waiting).sum();
    let held = all.iter().filter(|view| view.held().next().is_some());
    let frozen = all.iter().filter(|view| view.is_frozen());
    let named = all.iter().any(|view| view.key.label() == sought);
    // It may have been used before, or be only a part of a name.
    let named = Key::new(sought).ok().filter(|_| !named && shown.is_empty());
    html! {
        p {
            (held.count()) " held, " (waiting) " waiting, " (frozen.count()) " frozen."
            @if !sought.is_empty() { " " (shown.len()) @if shown.len() == 1 { " matches. " } @else { " match. " } a href="./" { "Show all" } "." }
            @else if shown.is_empty() { " No key is held, waited for, frozen or limited." }
        }
        @if let Some(key) = named {
            p { "No such key is held, waited for, frozen or limited. " a href={ "key?" (query(&[("name", key.as_str())])) } { "Look at " (plain(key.as_str())) " all the same" } "." }
        }
    }
}

fn row(site: &Site, view: &KeyView, now: Timestamp) -> Vec<Markup> {
    let held: Vec<_> = view
        .held()
        .filter_map(|one| one.lease.held.as_ref())
        .collect();
    let token = match &view.permits[..] {
        [one] => one.lease.fencing_token.to_string(),
        _ => String::new(),
    };
    let since = held.iter().map(|held| held.acquired_at).min();
    let waiting = view.waiting();
    vec![
        key_link(&view.key),
        badges(view),
        html! {
            @for (at, held) in held.iter().take(NAMED).enumerate() {
                @if at > 0 { ", " }
                (holder(site, &held.holder))
            }
            @if held.len() > NAMED { " and " (held.len() - NAMED) " more" }
        },
        value(site, &Value::at(since, now)),
        html! { @if let Some(held) = held.first() { (until(view, held, now)) } },
        html! { (token) },
        html! {
            @if waiting > 0 { (waiting) }
            @if let Some(head) = head(view) { " for " (age(head.since, now)) }
        },
    ]
}

/// Until when a key is held; of a semaphore, when the first permit ends.
fn until(view: &KeyView, held: &HeldView, now: Timestamp) -> Markup {
    let all = view.held().filter_map(|one| one.lease.held.as_ref());
    let ends = all.filter_map(HeldView::expires_at).min();
    ends.map_or_else(|| html! { (while_it_runs(held, now)) }, |at| time(at, now))
}

/// The state of a key in words, and what an operator has restricted.
pub(super) fn badges(view: &KeyView) -> Markup {
    let state = view.first().map(|first| first.state);
    let (kind, word) = match state {
        _ if view.is_semaphore() => ("held", key_text::state(view)),
        Some(LeaseState::Closed) => ("cooldown", "cooling down".to_owned()),
        Some(state @ (LeaseState::Held | LeaseState::Expired)) => {
            (state.as_str(), state.as_str().to_owned())
        }
        Some(LeaseState::Free) | None => ("free", key_text::state(view)),
    };
    html! {
        span class={ "badge " (kind) } { (word) }
        @if view.is_frozen() { " " span .badge.frozen { "frozen" } }
        @if let Some(limit) = view.limit() { " " span .badge.limited { "limit " (limit.permits) } }
    }
}

fn head(view: &KeyView) -> Option<&WaiterView> {
    view.waiters.as_deref()?.first()
}

/// Whether the key, a holder or the first who waits has all these words, whatever the case of their letters.
fn matches(view: &KeyView, sought: &str) -> bool {
    let sought = sought.to_lowercase();
    let has = |text: &str| {
        let text = text.to_lowercase();
        sought.split_whitespace().all(|word| text.contains(word))
    };
    let mut holders = view.held().filter_map(|one| one.lease.held.as_ref());
    has(view.key.as_str())
        || holders.any(|held| has(held.holder.as_str()))
        || head(view).is_some_and(|head| has(head.holder.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::{NOW, at, execution, view, waiting};

    fn waited(key: &str, since: u64) -> KeyView {
        let mut view = view(key, execution(json!({})));
        view.permits[0].waiting = 2;
        view.waiters = Some(vec![waiting(1, since)]);
        view
    }

    fn listed(views: Vec<KeyView>, sought: &str) -> String {
        let listed = Listed {
            views,
            missing: None,
            requests: 7,
        };
        keys(&Site::sample(false), &listed, sought, NOW).into_string()
    }

    /// The keys of the rows, in their order.
    fn rows(page: &str) -> Vec<&str> {
        let links = page.split("<td class=\"name\"><a href=\"key?name=").skip(1);
        links
            .filter_map(|link| Some(link.split_once('>')?.1.split_once('<')?.0))
            .collect()
    }

    #[test]
    fn longest_wait_comes_first() {
        let held = view("a", json!({}));
        let page = listed(
            vec![held, waited("b", 30), waited("c", 10), waited("d", 50)],
            "",
        );
        assert_eq!(rows(&page), ["c", "b", "d", "a"]);
        assert!(page.contains("4 held, 6 waiting, 0 frozen."), "{page}");
        assert!(page.contains("<time datetime=\"2027-01-15T08:00:10.000Z\" title=\"2027-01-15T08:00:10.000Z\">50 s</time>"), "{page}");
    }

    #[test]
    fn search_finds_keys_and_holders() {
        let views = || {
            vec![
                view("orders/1", json!({})),
                view("orders/2", json!({"holder": "Nightly"})),
                waited("report", 1),
            ]
        };
        for (sought, found) in [
            ("ORDERS/1", vec!["orders/1"]),
            ("s/1 order", vec!["orders/1"]),
            ("nightly", vec!["orders/2"]),
            ("7f3c", vec!["report"]),
            // The first who waits for the report.
            ("worker 1", vec!["report"]),
            ("nothing", vec![]),
        ] {
            assert_eq!(rows(&listed(views(), sought)), found, "{sought}");
        }
        let absent = listed(views(), "orders/3");
        assert!(
            absent.contains("<a href=\"key?name=orders%2F3\">Look at orders/3 all the same</a>"),
            "{absent}"
        );
    }

    #[test]
    fn row_says_state_and_end() {
        let mut frozen = view("k", json!({}));
        frozen.permits[0].frozen = true;
        let page = listed(vec![frozen, view("e", execution(json!({})))], "");
        for part in [
            "<span class=\"badge held\">held</span> <span class=\"badge frozen\">frozen</span>",
            "title=\"2027-01-15T08:10:00.000Z\">in 9 min</time>",
            "while its execution runs",
            ">orders:7f3c</a>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        let mut closed = view("k", json!({}));
        closed.permits[0].lease.held = None;
        closed.permits[0].state = LeaseState::Closed;
        closed.permits[0].opens_at = Some(at(90));
        assert!(listed(vec![closed], "").contains("cooling down"));
    }

    #[test]
    fn text_of_others_is_escaped() {
        let key = "<script>alert(1)</script>\"&\u{202e}";
        let page = listed(vec![view(key, json!({"holder": "<img src=x>\u{1b}"}))], key);
        assert!(
            !page.contains("<script>alert") && !page.contains("<img"),
            "{page}"
        );
        assert!(!page.contains(['\u{202e}', '\u{1b}']), "{page}");
        assert!(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&amp;\\u202e"),
            "{page}"
        );
    }
}
