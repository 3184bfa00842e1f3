//! What the library and the functions compute: instructions, counted by valgrind. They are the same on a busy machine as on an
//! idle one.
//!
//! It counts what `make instructions` has built; without that, and without valgrind, it says so and measures nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use leasehold_instructions::budget::grouped;
use leasehold_instructions::{Error as Uncounted, Found as Counted, Options, measure as count};
use serde_json::{Value, json};

use crate::measures::Measure;
use crate::parts::{Found, Ground};
use crate::picture::{Bar, Bars, Picture};
use crate::{Error, rounded};

const TITLE: &str = "Instructions";

/// The most that the library may take above the SDK's own request.
const ABOVE: f64 = 1.03;
/// The most from the start of a process to its first answer over TLS, and so to its first request.
const COLD: f64 = 25_000_000.0;
/// The most that SAM may have to upload of one function.
const ZIP: f64 = 2_000_000.0;

/// The same `UpdateItem`, written by hand.
const BARE: &str = "the same request by the SDK";
/// What has to be known of the ratio.
const SOFTWARE: &str = "valgrind offers no instructions for SHA-256, so that signing is counted as done without: a quarter of either";
/// What has to be known of the plain function.
const SHORTER: &str = "plain sends a request of two lines and reads no row";

/// What `make levers` has found of others, if it has been run.
#[derive(Clone, Debug, Default)]
struct Levers(Vec<Value>);

impl Levers {
    fn read(target: &Path) -> Self {
        let file = target.join("levers/levers.json");
        let text = std::fs::read(file).unwrap_or_default();
        Self(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// The figure of the variant of this name.
    fn of(&self, name: &str, field: &str) -> Option<f64> {
        let named = |line: &&Value| line["name"].as_str().is_some_and(|told| told == name);
        self.0.iter().find(named)?[field].as_f64()
    }
}

/// What is there besides the binaries.
#[derive(Debug, Default)]
struct Beside {
    /// Whether these are as they are shipped.
    shipped: bool,
    /// The zips of the functions, in bytes, by what they are of; none if they are not as they are shipped.
    zips: BTreeMap<String, u32>,
    levers: Levers,
}

impl Beside {
    fn read(target: &Path) -> Self {
        let built = target.join("instructions");
        let zips = std::fs::read(built.join("zips.json")).unwrap_or_default();
        let built = std::fs::read_to_string(built.join("built-as"));
        Self {
            shipped: built.is_ok_and(|built| built.trim() == "shipped"),
            zips: serde_json::from_slice(&zips).unwrap_or_default(),
            levers: Levers::read(target),
        }
    }
}

/// As anybody would write it, and as small as it gets without another level of optimisation.
const PACKED: &str = "plain, opt-level 3, LTO";
/// As anybody would write it, and built as cargo does by itself.
const PLAIN: &str = "plain, as cargo builds it (opt-level 3)";
/// Counts what there is.
///
/// # Errors
/// [`Error::Io`] when something built cannot be run.
pub async fn measure(ground: &Ground) -> Result<Found, Error> {
    let target = ground.root.join("target");
    let options = if ground.quick {
        Options::quick(&target)
    } else {
        Options::new(&target)
    };
    match count(&options).await {
        Ok(counted) => Ok(found(&counted, &Beside::read(&target))),
        Err(error @ (Uncounted::NoValgrind | Uncounted::NotBuilt(_))) => Ok(Found {
            title: TITLE,
            told: format!("not counted: {error}"),
            measures: Vec::new(),
            pictures: Vec::new(),
            raw: Value::Null,
        }),
        Err(error) => Err(Error::Io {
            what: "count instructions".to_owned(),
            source: std::io::Error::other(error),
        }),
    }
}

fn found(counted: &Counted, beside: &Beside) -> Found {
    let levers = &beside.levers;
    let mut measures = Vec::new();
    let built = if beside.shipped {
        "binaries as they are shipped"
    } else {
        "binaries built quickly, not as they are shipped: `make instructions` builds those"
    };
    for operation in &counted.operations {
        let name = operation.name;
        let ratio = Measure::new(
            format!(
                "instructions per {name} by the library, of those of the same request by the SDK alone"
            ),
            "ratio",
            rounded(operation.library / operation.sdk),
        );
        let ratio = ratio.peer(BARE, 1.0).at_most(ABOVE);
        measures.push(ratio.note(format!("{built}; {SOFTWARE}")));
        measures.push(
            Measure::new(
                format!("instructions per {name} by the library"),
                "instructions",
                operation.library.round(),
            )
            .peer(BARE, operation.sdk.round())
            .note(built),
        );
    }
    for (name, invoked) in &counted.functions {
        let mut measure = Measure::new(
            format!("instructions per warm invocation of {name}"),
            "instructions",
            invoked.warm.round(),
        );
        if let Some(plain) = levers.of(PLAIN, "warm").filter(|_| *name == "acquire") {
            measure = measure.peer("plain", plain);
            measures.push(measure.note(format!("{built}; {SHORTER}")));
            continue;
        }
        measures.push(measure.note(built));
    }
    measures.push(cold(counted, levers).note(format!(
        "an upper bound for the first TLS request: the whole life of a process that serves one invocation; {} authorities trusted; {built}",
        counted.cold.authorities
    )));
    measures.push(first(counted, levers).note(built));
    if let Some((name, largest)) = beside.zips.iter().max_by_key(|(_, zip)| **zip) {
        let name = format!("the largest zip, which is {name}");
        let zip = Measure::new(name, "bytes", f64::from(*largest)).at_most(ZIP);
        measures.push(match levers.of(PACKED, "zip") {
            Some(plain) => zip.peer("plain", plain),
            None => zip,
        });
    }
    Found {
        title: TITLE,
        told: told(&measures),
        pictures: vec![picture(&measures)],
        raw: raw(counted, beside),
        measures,
    }
}

fn cold(counted: &Counted, levers: &Levers) -> Measure {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let ours = counted.cold.instructions as f64;
    let name = "instructions from the start of a process to its first answer over TLS";
    let measure = Measure::new(name, "instructions", ours).at_most(COLD);
    match levers.of(PLAIN, "cold") {
        Some(plain) => measure.peer("plain", plain),
        None => measure,
    }
}

/// What is left of a cold start for the first invocation, when nobody waits for the sandbox any more but for the answer.
fn first(counted: &Counted, levers: &Levers) -> Measure {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let ours = counted
        .cold
        .instructions
        .saturating_sub(counted.cold.started) as f64;
    let name = "instructions of the first invocation, over TLS";
    let measure = Measure::new(name, "instructions", ours);
    match (levers.of(PLAIN, "cold"), levers.of(PLAIN, "started")) {
        (Some(cold), Some(started)) => measure.peer("plain", cold - started),
        _ => measure,
    }
}

fn told(measures: &[Measure]) -> String {
    let mut told = String::new();
    for measure in measures {
        let figure = figure(measure.ours);
        // Writing to a String cannot fail.
        let _ = write!(told, "{:<95} {figure:>12}", measure.name);
        for (name, peer) in &measure.peers {
            let _ = write!(told, "   {name}: {}", self::figure(*peer));
        }
        told.push('\n');
    }
    told
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count"
)]
fn figure(value: f64) -> String {
    if value < 1000.0 {
        return format!("{value}");
    }
    grouped(value.round() as u64)
}

fn picture(measures: &[Measure]) -> Picture {
    let calls = measures
        .iter()
        .filter(|measure| measure.unit == "instructions" && measure.peers.contains_key(BARE));
    let mut panels = Vec::new();
    let processes = measures.iter().filter(|measure| {
        measure.name.contains("first answer")
            || measure.name.ends_with("warm invocation of acquire")
    });
    for measure in calls.chain(processes) {
        let bar = |class, label: &str, value| Bar {
            class,
            label: label.to_owned(),
            value,
            told: figure(value),
        };
        let mut bars = vec![bar("leasehold", "leasehold", measure.ours)];
        bars.extend(
            measure
                .peers
                .iter()
                .map(|(name, value)| bar("other", name, *value)),
        );
        let title = measure.name.replace("instructions ", "");
        panels.push(
            Bars {
                title: &title,
                bars,
            }
            .draw(),
        );
    }
    Picture::of_panels(
        "instructions",
        "Instructions, fewer is better",
        &["leasehold"],
        &panels,
    )
}

fn raw(counted: &Counted, beside: &Beside) -> Value {
    let counts = counted.counts().into_iter();
    let counts: Vec<_> = counts
        .map(|count| json!({ "name": count.name, "instructions": count.figure }))
        .collect();
    json!({
        "shipped": beside.shipped,
        "cold": counted.cold,
        "counts": counts,
        "zips": beside.zips,
        "levers": beside.levers.0,
    })
}

#[cfg(test)]
mod tests {
    use leasehold_instructions::functions::{Cold, Invoked};
    use leasehold_instructions::operations::Operation;

    use super::*;

    fn counted(library: f64) -> Counted {
        Counted {
            operations: vec![Operation {
                name: "acquire",
                library,
                sdk: 1_000_000.0,
            }],
            functions: vec![(
                "acquire",
                Invoked {
                    warm: 1_500_000.4,
                    first: 5_000_000,
                },
            )],
            cold: Cold {
                instructions: 17_000_000,
                started: 15_000_000,
                authorities: 145,
            },
        }
    }

    fn named<'a>(found: &'a Found, name: &str) -> &'a Measure {
        let mut measures = found.measures.iter();
        measures
            .find(|measure| measure.name.contains(name))
            .unwrap()
    }

    #[test]
    fn the_library_may_be_so_much_above_the_sdk_and_no_more() {
        let none = Beside::default();
        let ratio = "of those of the same request";
        let within = found(&counted(1_030_000.0), &none);
        assert_eq!(named(&within, ratio).met, Some(true));
        let over = found(&counted(1_031_000.0), &none);
        assert_eq!(named(&over, ratio).met, Some(false));
        assert!(named(&over, "warm invocation").peers.is_empty());
        assert!(
            over.told
                .contains("1 031 000   the same request by the SDK: 1 000 000"),
            "{}",
            over.told
        );
    }

    #[test]
    fn what_the_levers_told_stands_beside_ours() {
        let beside = Beside {
            levers: Levers(vec![
                json!({"name": PACKED, "zip": 4_490_261}),
                json!({"name": PLAIN, "cold": 436_000_000, "started": 9_000_000, "warm": 583_032, "zip": 7_490_261}),
            ]),
            zips: [("a, arm64", 1_900_000), ("b, arm64", 2_000_001)]
                .map(|(name, zip)| (name.to_owned(), zip))
                .into(),
            ..Beside::default()
        };
        let found = found(&counted(1_000_000.0), &beside);
        let cold = named(&found, "first answer");
        assert_eq!((cold.met, cold.peers["plain"]), (Some(true), 436_000_000.0));
        let first = named(&found, "first invocation");
        assert_eq!(
            (first.ours, first.peers["plain"]),
            (2_000_000.0, 427_000_000.0)
        );
        let zip = named(&found, "the largest zip, which is b");
        assert_eq!((zip.met, zip.peers["plain"]), (Some(false), 4_490_261.0));
        assert!(
            cold.note
                .as_ref()
                .unwrap()
                .contains("not as they are shipped")
        );
        assert!(found.pictures[0].svg.contains("436 000 000"));
    }

    #[tokio::test]
    async fn where_nothing_was_built_nothing_is_measured() {
        let ground = Ground {
            root: Path::new("/nowhere").into(),
            quick: true,
            prices: None,
        };
        let found = measure(&ground).await.unwrap();
        assert!(found.measures.is_empty());
        assert!(found.told.contains("not counted"), "{}", found.told);
    }
}
