//! What every page has: its frame, its headers, and how words, instants and holders are written. Text of others is made plain, as on
//! a terminal, and escaped.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use leasehold::{Holder, Key, Timestamp};
use leasehold_asl::plain;
use maud::{DOCTYPE, Markup, html};

use crate::columns::{Fact, Value, machine_and_name};
use crate::durations::{render, when};
use crate::exit::Failure;
use crate::lease_text;

/// Nothing but what this service serves. A form of it goes nowhere else, and no page shows it in a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What the pages say of the console itself.
#[derive(Debug)]
pub(super) struct Site {
    /// The table, and where it is.
    pub(super) table: String,
    /// Whether it may change anything.
    pub(super) allow_changes: bool,
    /// Whether the holders' executions are on AWS, whose own console can show them.
    pub(super) is_aws: bool,
    /// Who runs it.
    pub(super) who: String,
    /// The options of the command line that locate the table.
    pub(super) options: String,
}

/// A page of this title. What it shows of the table is renewed if it says how often.
pub(super) fn page(site: &Site, title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (plain(title)) " · Leasehold" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="style.css";
                script src="renew.js" defer {}
            }
            body {
                a .skip href="#content" { "To the content" }
                header {
                    strong { "Leasehold" }
                    nav aria-label="Pages" {
                        a href="./" { "Keys" }
                        a href="starts" { "Failed starts" }
                    }
                    span .where { "table " (plain(&site.table)) " · " @if site.allow_changes { "changes allowed" } @else { "read-only" } }
                }
                main #content { (content) }
                footer {
                    p #renewal hidden { button type="button" aria-pressed="false" { "Pause" } " " span {} }
                    noscript { p { "Scripts are off, so the page does not renew itself: reload it." } }
                }
            }
        }
    }
}

/// The part of a page that is renewed, with what that costs.
pub(super) fn live(renewal: Renewal, content: &Markup) -> Markup {
    html! {
        div #live data-every=(renewal.every_ms()) data-cost=(renewal.cost()) { (content) }
    }
}

/// How often a page is renewed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewal {
    /// How many requests to AWS it takes once.
    pub(super) requests: usize,
}

impl Renewal {
    /// The shortest time between two.
    const LEAST_MS: usize = 5000;
    /// Requests a second at most, as `leasehold watch` reads.
    const A_SECOND: usize = 25;

    fn every_ms(self) -> usize {
        Self::LEAST_MS.max(self.requests * 1000 / Self::A_SECOND)
    }

    fn cost(self) -> String {
        let an_hour = self.requests * 3_600_000 / self.every_ms();
        let seconds = self.every_ms().div_ceil(1000);
        format!(
            "This page renews itself every {seconds} s while it is visible: about {} requests to AWS an hour.",
            grouped(an_hour)
        )
    }
}

/// A number with its thousands apart.
fn grouped(number: usize) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1000), number % 1000),
    }
}

/// A response with a page.
pub(super) fn respond(status: StatusCode, page: Markup) -> Response {
    let kind = "text/html; charset=utf-8";
    (status, headers(kind), page.into_string()).into_response()
}

/// The headers of every response. With another policy for referrers, browsers would hide the origin of a form.
pub(super) fn headers(kind: &'static str) -> [(HeaderName, &'static str); 6] {
    [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ]
}

/// The page of a failure. One that was only looked at is asked for again after a while.
pub(super) fn failed(site: &Site, failure: &Failure, was_looked_at: bool) -> Markup {
    let content = html! {
        h1 { "That did not work" }
        p .bad role="alert" { (plain(failure.what())) }
        @if let Some(remedy) = failure.remedy() { p { (plain(remedy)) } }
    };
    let content = if was_looked_at {
        live(Renewal { requests: 1 }, &content)
    } else {
        content
    };
    page(site, "Failed", &content)
}

/// An instant relative to now, with its date as a title.
pub(super) fn time(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(at) { (when(at, now)) } }
}

/// How long ago an instant was, with its date as a title.
pub(super) fn age(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(at) { (render(now.since(at))) } }
}

/// A value that the terminal shows too.
pub(super) fn value(site: &Site, value: &Value) -> Markup {
    match value {
        Value::Text(text) => html! { (plain(text)) },
        Value::Holder(name) => holder(site, name),
        Value::At(at, now) => time(*at, *now),
    }
}

/// Names and values.
pub(super) fn facts(site: &Site, facts: &[Fact]) -> Markup {
    html! {
        dl { @for (name, of) in facts { div { dt { (name) } dd { (value(site, of)) } } } }
    }
}

/// A table, which on a narrow screen is a card for each row. Cells without a column are left out.
pub(super) fn cards(header: &[&str], rows: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    html! {
        table .cards {
            thead { tr { @for name in header { th scope="col" { (name) } } } }
            tbody {
                @for row in rows {
                    tr {
                        @for (at, (name, cell)) in header.iter().zip(row).enumerate() {
                            td class=[class(name)] data-name=[(at > 0).then_some(name)] { (cell) }
                        }
                    }
                }
            }
        }
    }
}

/// How the cells of a column are laid out.
fn class(column: &str) -> Option<&'static str> {
    match column {
        "Key" | "Holder" | "Who" | "Execution" => Some("name"),
        "Token" => Some("number"),
        _ => None,
    }
}

/// The page of a key.
pub(super) fn key_link(key: &Key) -> Markup {
    html! { a href={ "key?" (query(&[("name", key.as_str())])) } { (plain(&lease_text::key(key))) } }
}

/// Names and values as the query of an address.
pub(super) fn query(fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields).finish()
}

/// A holder: of an execution its machine and name, which leads to the console of AWS that shows it.
pub(super) fn holder(site: &Site, holder: &Holder) -> Markup {
    let text = holder.as_str();
    let short = machine_and_name(text).unwrap_or(text);
    let address = execution_page(text).filter(|_| site.is_aws);
    html! {
        @if let Some(address) = address {
            a href=(address) title=(plain(text)) target="_blank" rel="noreferrer" { (plain(short)) }
        } @else {
            span title=(plain(text)) { (plain(short)) }
        }
    }
}

/// Where the console of AWS shows an execution.
fn execution_page(arn: &str) -> Option<String> {
    let parts: Vec<_> = arn.split(':').collect();
    let ["arn", partition, "states", region, _, "execution", _, _, ..] = parts[..] else {
        return None;
    };
    let domain = match partition {
        "aws" => "console.aws.amazon.com",
        "aws-cn" => "console.amazonaws.cn",
        "aws-us-gov" => "console.amazonaws-us-gov.com",
        _ => return None,
    };
    let is_region = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !region.chars().all(is_region) {
        return None;
    }
    let arn: String = form_urlencoded::byte_serialize(arn.as_bytes()).collect();
    Some(format!(
        "https://{region}.{domain}/states/home?region={region}#/v2/executions/details/{arn}"
    ))
}

#[cfg(test)]
impl Site {
    pub(super) fn sample(allow_changes: bool) -> Self {
        Self {
            table: "leases".to_owned(),
            allow_changes,
            is_aws: true,
            who: "alice".to_owned(),
            options: "--table leases".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_says_what_it_costs() {
        for (requests, every, cost) in [
            (
                3,
                5000,
                "every 5 s while it is visible: about 2,160 requests",
            ),
            (
                1007,
                40_280,
                "every 41 s while it is visible: about 90,000 requests",
            ),
        ] {
            let renewal = Renewal { requests };
            assert_eq!(renewal.every_ms(), every);
            assert!(renewal.cost().contains(cost), "{}", renewal.cost());
        }
    }

    #[test]
    fn only_executions_lead_to_aws() {
        let arn = "arn:aws:states:eu-west-1:123456789012:execution:orders:7f3c";
        let page = execution_page(arn).unwrap();
        assert!(page.starts_with("https://eu-west-1.console.aws.amazon.com/states/home?region=eu-west-1#/v2/executions/details/arn%3A"));
        for other in [
            "worker 7",
            "arn:aws:states:evil.example/:1:execution:a:b",
            "arn:evil:states:eu-west-1:1:execution:a:b",
        ] {
            assert_eq!(execution_page(other), None, "{other}");
        }
    }
}
