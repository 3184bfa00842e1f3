//! The tables for the terminal, and the picture.

use leasehold_local::Fault;

use super::clients::{Act, Who};
use super::played::Played;
use super::{All, crash, line, lost, sections};
use crate::picture::{Bar, Bars, Picture};

const HEAD: &str = "scene                          client                       requests      up    down  written  refused   read     took  what it knows, what it sent";

/// A scene in one line.
pub fn row(played: &Played) -> String {
    let all = &played.all;
    let mut sent = all.told();
    if let Some(aside) = &played.aside {
        sent = format!("{sent}; aside: {}", aside.told());
    }
    format!(
        "{:<30} {:<28} {:>8} {:>7} {:>7} {:>8} {:>8} {:>6} {:>8}  {}; {sent}",
        played.scene,
        played.client,
        all.requests,
        all.bytes_up,
        all.bytes_down,
        all.write_units,
        all.refused_units,
        all.read_units,
        took(played),
        if played.told.is_empty() {
            "-"
        } else {
            &played.told
        },
    )
}

fn took(played: &Played) -> String {
    match played.in_leases() {
        Some(leases) if played.scene == crash::NAME => format!("{leases:.2} L"),
        _ => format!("{:.0} ms", played.took_ms),
    }
}

/// All of them, scene by scene.
pub fn tables(all: &All) -> String {
    let mut played: Vec<&Played> = all.played.iter().collect();
    let mut scenes: Vec<&str> = Vec::new();
    for one in &played {
        if !scenes.contains(&one.scene.as_str()) {
            scenes.push(&one.scene);
        }
    }
    played.sort_by_key(|one| scenes.iter().position(|scene| **scene == *one.scene));
    let mut lines = vec![HEAD.to_owned()];
    lines.extend(played.into_iter().map(row));
    lines.extend([
        "up, down: bytes of bodies; written, refused, read: units; L: lengths of the holder's lease".to_owned(),
        String::new(),
        "acquire and release from afar: latency, mean time, round trips".to_owned(),
    ]);
    lines.extend(all.far.iter().map(|far| {
        let trips = far.round_trips;
        let trips = trips.map_or_else(String::new, |trips| format!("{trips:>8.2}"));
        format!(
            "{:<28} {:>3} ms {:>9.2} ms {trips}",
            far.client, far.latency_ms, far.section_ms
        )
    }));
    lines.join("\n")
}

/// Requests and units of a section, and what goes wrong, in bars.
pub fn picture(all: &All) -> Picture {
    let section = sections::name(0);
    let panels = [
        panel(
            all,
            "requests per uncontended section",
            &section,
            &|played| {
                (
                    count(played.all.requests),
                    format!("{}", played.all.requests),
                )
            },
        ),
        panel(all, "units per uncontended section", &section, &|played| {
            let (written, read) = (played.all.writing(), played.all.read_units);
            let told = format!("{written} written, {read} read");
            (written + read, told)
        }),
        panel(
            all,
            "requests after the lost answer of an acquire",
            &lost::name(Act::Acquire, Fault::LoseAnswer),
            &|played| {
                (
                    count(played.all.requests),
                    format!("{}", played.all.requests),
                )
            },
        ),
        panel(
            all,
            "time after the lost answer of an acquire",
            &lost::name(Act::Acquire, Fault::LoseAnswer),
            &|played| (played.took_ms, format!("{:.0} ms", played.took_ms)),
        ),
        panel(
            all,
            "wait after a crash, in leases",
            crash::NAME,
            &|played| {
                let leases = played.in_leases().unwrap_or_default();
                (leases, format!("{leases:.2}"))
            },
        ),
        panel(
            all,
            "requests after a crash, until another has the key",
            crash::NAME,
            &|played| {
                let waiting = played.all.requests;
                match played.aside.as_ref().map(|aside| aside.requests) {
                    None => (count(waiting), format!("{waiting}")),
                    Some(aside) => {
                        let told = format!("{waiting}, and {aside} of who cleans up");
                        (count(waiting + aside), told)
                    }
                }
            },
        ),
    ];
    let names = Who::ALL.map(class);
    Picture::of_panels("counts", "What a critical section costs", &names, &panels)
}

type Look<'a> = &'a dyn Fn(&Played) -> (f64, String);

fn panel(all: &All, title: &str, scene: &str, look: Look) -> String {
    let played = all.played.iter().filter(|played| played.scene == scene);
    let bars = played.map(|played| {
        let (value, told) = look(played);
        Bar {
            class: class_of(played.client),
            label: played.client.to_owned(),
            value,
            told,
        }
    });
    let bars = bars.collect();
    Bars { title, bars }.draw()
}

fn class(who: Who) -> &'static str {
    class_of(who.told())
}

/// What colours a bar.
fn class_of(client: &'static str) -> &'static str {
    match client {
        "direct calls" => "direct-calls",
        line::IN_LINE | crash::SWEPT | crash::REAPED => "leasehold",
        crash::POLLED => "polling",
        other => other,
    }
}

fn count(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
