//! The time of a key as bars: who has it, who waits, and what keeps it closed, as far as the table shows it.

use std::time::Duration;

use leasehold::{HeldView, KeyView, Timestamp, ViewUntil};
use leasehold_asl::plain;
use maud::{Markup, html};

use crate::columns::machine_and_name;
use crate::durations::render;
use crate::ended_executions::EndedExecutions;

/// How many of those who wait have a bar.
const WAITERS: usize = 10;

/// What a bar stands for, by its class in the style sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Held,
    Left,
    Late,
    Grace,
    Waiting,
    Cooldown,
}

/// Of a line of the picture: what it stands for, from when and until when.
type Bar = (Kind, Timestamp, Timestamp);

/// A name, and its bars.
type Line = (String, Vec<Bar>);

impl Kind {
    const fn class(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Left => "left",
            Self::Late => "late",
            Self::Grace => "grace",
            Self::Waiting => "waits",
            Self::Cooldown => "cooldown",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Left => "left until its deadline",
            Self::Late => "past its deadline, not taken",
            Self::Grace => "grace: a task may still be at work",
            Self::Waiting => "waiting",
            Self::Cooldown => "cooldown",
        }
    }
}

/// The picture; nothing of a key that nobody has or waits for.
pub(super) fn timeline(view: &KeyView, ended: &EndedExecutions, now: Timestamp) -> Markup {
    let lines = lines(view, ended, now);
    let bars = || lines.iter().flat_map(|(_, bars)| bars);
    let Some(from) = bars().map(|(_, from, _)| *from).min() else {
        return html! {};
    };
    // What is to come has a third of the width at most.
    let from = from.min(now);
    let past = now.since(from).as_millis().max(10_000);
    let reach = Duration::from_millis(u64::try_from(past).unwrap_or(u64::MAX));
    let future = bars().map(|(_, _, to)| to.since(now).as_millis()).max();
    let future = future.unwrap_or_default().min(past / 2).max(past / 50);
    let width = past + future;
    let begin = now.minus(reach).as_millis();
    let at = |at: Timestamp| {
        let since = u128::from(at.as_millis().saturating_sub(begin));
        let thousandths = since.min(width) * 1000 / width;
        u32::try_from(thousandths).unwrap_or(1000)
    };
    let percent = |thousandths: u32| format!("{}.{}%", thousandths / 10, thousandths % 10);
    let mut kinds: Vec<_> = bars().map(|(kind, ..)| *kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let hidden = view.waiting().saturating_sub(WAITERS as u64);
    html! {
        figure .timeline {
            ol {
                @for (name, bars) in &lines {
                    li {
                        span .name { (plain(name)) }
                        svg width="100%" height="14" role="img" aria-label=(told(bars)) {
                            @for (kind, from, to) in bars {
                                rect class=(kind.class()) x=(percent(at(*from))) y="1" height="12"
                                    width=(percent(at(*to).saturating_sub(at(*from)).max(3))) {
                                    title { (kind.words()) " for " (render(to.since(*from))) }
                                }
                            }
                            line .now x1=(percent(at(now))) x2=(percent(at(now))) y1="0" y2="14";
                        }
                    }
                }
            }
            @if hidden > 0 { p .hint { "and " (hidden) " more who wait" } }
            figcaption {
                "From " (render(reach)) " ago; the upright line is now: "
                @for (index, kind) in kinds.iter().enumerate() {
                    @if index > 0 { " · " }
                    span .key { svg width="14" height="12" aria-hidden="true" { rect class=(kind.class()) width="14" height="12"; } " " (kind.words()) }
                }
            }
        }
    }
}

/// The bars of a line in words.
fn told(bars: &[Bar]) -> String {
    let told = bars
        .iter()
        .map(|(kind, from, to)| format!("{} for {}", kind.words(), render(to.since(*from))));
    told.collect::<Vec<_>>().join(", ")
}

fn lines(view: &KeyView, ended: &EndedExecutions, now: Timestamp) -> Vec<Line> {
    let mut lines = Vec::new();
    for permit in view.held() {
        if let Some(held) = &permit.lease.held {
            let name = machine_and_name(held.holder.as_str()).unwrap_or(held.holder.as_str());
            let number = match permit.lease.permit {
                0 if !view.is_semaphore() => String::new(),
                number => format!("#{number} "),
            };
            lines.push((format!("{number}{name}"), held_bars(held, ended, now)));
        }
    }
    for permit in &view.permits {
        if let Some(opens) = permit.opens_at {
            let granted = permit
                .lease
                .held
                .as_ref()
                .map_or(now, |held| held.acquired_at);
            let bar = (Kind::Cooldown, granted, opens);
            lines.push(("closed after its grant".to_owned(), vec![bar]));
        }
    }
    for waiter in view.waiters.iter().flatten().take(WAITERS) {
        let name = machine_and_name(waiter.holder.as_str()).unwrap_or(waiter.holder.as_str());
        let bar = (Kind::Waiting, waiter.since.min(now), now);
        lines.push((format!("{}. {name}", waiter.place), vec![bar]));
    }
    lines
}

fn held_bars(held: &HeldView, ended: &EndedExecutions, now: Timestamp) -> Vec<Bar> {
    let granted = held.acquired_at.min(now);
    match held.until {
        ViewUntil::Ttl { expires_at, .. } if expires_at > now => {
            vec![(Kind::Held, granted, now), (Kind::Left, now, expires_at)]
        }
        ViewUntil::Ttl { expires_at, .. } => vec![
            (Kind::Held, granted, expires_at.max(granted)),
            (Kind::Late, expires_at.max(granted), now),
        ],
        ViewUntil::Execution {
            looked_at,
            look_again_at,
            look_due_at,
            ..
        } => {
            let end = ended.of(held).map(|(_, at)| at);
            let end = end
                .or(look_again_at.and(looked_at))
                .map(|at| at.max(granted).min(now));
            match end {
                None => vec![(Kind::Held, granted, now)],
                Some(end) => {
                    let until = look_again_at.or(look_due_at).unwrap_or(now).max(now);
                    vec![(Kind::Held, granted, end), (Kind::Grace, end, until)]
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::{NOW, at, execution, view, waiting};

    fn kinds(view: &KeyView) -> Vec<(Kind, u128, u128)> {
        let lines = lines(view, &EndedExecutions::default(), NOW);
        let bars = lines.into_iter().flat_map(|(_, bars)| bars);
        let seconds =
            |instant: Timestamp| u128::from(instant.as_millis() - at(0).as_millis()) / 1000;
        bars.map(|(kind, from, to)| (kind, seconds(from), seconds(to)))
            .collect()
    }

    #[test]
    fn bars_show_what_the_item_shows() {
        let ttl = |ends: u64| json!({"ttl_seconds": 60, "expires_at": at(ends), "safe_until": at(ends - 1)});
        for (lease, bars) in [
            (ttl(600), vec![(Kind::Held, 0, 60), (Kind::Left, 60, 600)]),
            (ttl(20), vec![(Kind::Held, 0, 20), (Kind::Late, 20, 60)]),
            (execution(json!({})), vec![(Kind::Held, 0, 60)]),
            (
                execution(json!({"looked_at": at(30), "look_again_at": at(930)})),
                vec![(Kind::Held, 0, 30), (Kind::Grace, 30, 930)],
            ),
        ] {
            assert_eq!(kinds(&view("orders/42", lease)), bars);
        }
        let mut closed = view("orders/42", json!({}));
        closed.permits[0].lease.held = None;
        closed.permits[0].opens_at = Some(at(120));
        closed.waiters = Some(vec![waiting(1, 10)]);
        assert_eq!(
            kinds(&closed),
            [(Kind::Cooldown, 60, 120), (Kind::Waiting, 10, 60)]
        );
    }

    #[test]
    fn picture_stays_within_its_width() {
        let mut view = view(
            "orders/42",
            execution(json!({"looked_at": at(30), "look_again_at": at(90_000)})),
        );
        view.waiters = Some(vec![waiting(1, 10)]);
        let picture = timeline(&view, &EndedExecutions::default(), NOW).into_string();
        // From 0 to now, 60 s, are two thirds of the width.
        assert!(
            picture
                .contains("<rect class=\"held\" x=\"0.0%\" y=\"1\" height=\"12\" width=\"33.3%\">"),
            "{picture}"
        );
        assert!(
            picture.contains(
                "<rect class=\"grace\" x=\"33.3%\" y=\"1\" height=\"12\" width=\"66.7%\">"
            ),
            "{picture}"
        );
        assert!(
            picture.contains("<line class=\"now\" x1=\"66.6%\""),
            "{picture}"
        );
    }
}
