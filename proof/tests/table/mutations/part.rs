//! Which of the mutants are tried. All, after a change of the sources that they rest on; `whole.txt` has the hash of those with
//! which all were noticed last. Otherwise a part that differs from run to run.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fastrand::Rng;
use leasehold_proof::root;

/// Everything that a mutant is made of and tried with.
const SOURCES: [&str; 8] = [
    "lib/conformance/src",
    "lib/src/row.rs",
    "lib/src/row",
    "lib/src/store",
    "lib/src/store.rs",
    "lib/src/transition.rs",
    "lib/src/transition",
    "proof/tests/table",
];
const WHOLE: &str = "proof/tests/table/mutations/whole.txt";
/// Otherwise one in so many expressions has its mutants tried.
const ONE_IN: u32 = 8;

/// What is tried in this run.
pub enum Part {
    /// Everything.
    Whole,
    /// What this seed draws.
    Drawn(u64),
}

/// Decides it, and says so.
pub fn to_try() -> Part {
    let whole = std::fs::read_to_string(root().join(WHOLE)).unwrap_or_default();
    if std::env::var("MUTATIONS").is_ok_and(|which| which == "all") || whole.trim() != sources() {
        println!("all mutants are tried");
        return Part::Whole;
    }
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = since.as_secs();
    println!("one expression in {ONE_IN}, drawn by {seed}; all: make -C proof mutations");
    Part::Drawn(seed)
}

impl Part {
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Whole)
    }

    /// Whether the mutants of this expression are tried.
    pub fn has(&self, form: &str) -> bool {
        match self {
            Self::Whole => true,
            Self::Drawn(seed) => Rng::with_seed(seed ^ fnv(form.bytes())).u32(..ONE_IN) == 0,
        }
    }

    /// All that were tried were noticed. With `UPDATE_MUTATIONS` set this is written down.
    pub fn was_noticed(&self) {
        if self.is_whole() && std::env::var_os("UPDATE_MUTATIONS").is_some() {
            std::fs::write(root().join(WHOLE), sources() + "\n").unwrap();
        }
    }
}

fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The hash of the sources, whose names count too. Where a checkout ends lines does not.
fn sources() -> String {
    let mut files = Vec::new();
    for source in SOURCES {
        below(&root().join(source), &mut files);
    }
    files.sort();
    let mut bytes = Vec::new();
    for file in files {
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap();
        bytes.extend(name.bytes());
        bytes.extend(std::fs::read(&file).unwrap());
    }
    let bytes = bytes.into_iter().filter(|byte| *byte != b'\r');
    format!("{:016x}", fnv(bytes))
}

fn below(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            below(&entry.unwrap().path(), files);
        }
    } else if path.extension().is_some_and(|end| end == "rs") {
        files.push(path.to_owned());
    }
}
