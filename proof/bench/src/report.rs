//! What is left of a run: `report.json` with every measure, `runs.json` with everything else, and the pictures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};

use crate::Error;
use crate::error::io;
use crate::measures::Measure;
use crate::parts::{Found, Part};

/// The machine that it ran on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cores: usize,
    /// Operating system and instruction set.
    pub system: String,
    /// What answers for DynamoDB.
    pub database: &'static str,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn this() -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            database: "embedded, in this process, behind the counting proxy: a request takes about a millisecond",
        }
    }
}

/// Writes it all below `directory`, and answers where it is.
///
/// # Errors
/// [`Error::Io`] when something cannot be written.
pub fn write(
    directory: &Path,
    machine: &Machine,
    parts: &[(Part, Found)],
) -> Result<Vec<PathBuf>, Error> {
    std::fs::create_dir_all(directory).map_err(io(format!("create {}", directory.display())))?;
    let measures: Vec<&Measure> = parts
        .iter()
        .flat_map(|(_, found)| &found.measures)
        .collect();
    let runs: BTreeMap<&str, &Value> = parts
        .iter()
        .map(|(part, found)| (part.told(), &found.raw))
        .collect();
    let mut files = vec![
        put(directory, "report.json", &pretty(&json!(measures)))?,
        put(
            directory,
            "runs.json",
            &pretty(&json!({ "machine": machine, "parts": runs })),
        )?,
    ];
    for picture in parts.iter().flat_map(|(_, found)| &found.pictures) {
        files.push(put(
            directory,
            &format!("{}.svg", picture.name),
            &picture.svg,
        )?);
    }
    Ok(files)
}

/// The measures that have a target, a line each: what was promised, what was found, what the others need.
#[must_use]
pub fn verdicts(parts: &[(Part, Found)]) -> String {
    let judged = parts.iter().flat_map(|(_, found)| &found.measures);
    let lines = judged.filter_map(|measure| {
        let met = if measure.met? { "met   " } else { "MISSED" };
        let others = measure.peers.iter();
        let others: Vec<String> = others
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let others = match &others[..] {
            [] => String::new(),
            others => format!(" ({})", others.join(", ")),
        };
        let target = measure.target.unwrap_or_default();
        Some(format!(
            "{met} {}: {} {}, at most {target}{others}",
            measure.name, measure.ours, measure.unit
        ))
    });
    let missing = parts.iter().filter(|(_, found)| found.measures.is_empty());
    let missing = missing.map(|(part, _)| format!("NOT MEASURED: {}", part.told()));
    lines.chain(missing).collect::<Vec<_>>().join("\n")
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

pub(crate) fn put(directory: &Path, name: &str, text: &str) -> Result<PathBuf, Error> {
    let file = directory.join(name);
    std::fs::write(&file, text).map_err(io(format!("write {}", file.display())))?;
    Ok(file)
}
