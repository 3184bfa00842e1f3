//! Which of the mutants are tried. All, after a change of the sources that they rest on; `whole.txt` has the hash of those with
//! which all were noticed last. Otherwise a part that differs from run to run.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fastrand::Rng;
use leasehold_proof::root;

/// Everything that a mutant is made of and tried with.
const SOURCES: [&str; 7] = [
    "lib/src/row.rs",
    "lib/src/row",
    "lib/src/store",
    "lib/src/store.rs",
    "lib/src/transition.rs",
    "lib/src/transition",
    "proof/tests/table",
];
const WHOLE: &str = "proof/tests/table/mutations/whole.txt";
/// Otherwise one in so many is tried.
const ONE_IN: u32 = 8;

/// What is tried in this run.
pub enum Part {
    /// Everything.
    All,
    /// What the numbers draw.
    Drawn(Rng),
}

/// Decides it, and says so.
pub fn to_try() -> Part {
    let whole = std::fs::read_to_string(root().join(WHOLE)).unwrap_or_default();
    if std::env::var("MUTATIONS").is_ok_and(|which| which == "all") || whole.trim() != hash() {
        println!("all mutants are tried");
        return Part::All;
    }
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = since.as_secs();
    println!("one mutant in {ONE_IN} is tried, drawn by {seed}; all: make -C proof mutations");
    Part::Drawn(Rng::with_seed(seed))
}

impl Part {
    /// Whether the next mutant is tried.
    pub fn has_next(&mut self) -> bool {
        match self {
            Self::All => true,
            Self::Drawn(rng) => rng.u32(..ONE_IN) == 0,
        }
    }

    /// All that were tried were noticed. With `UPDATE_MUTATIONS` set this is written down.
    pub fn was_noticed(&self) {
        if matches!(self, Self::All) && std::env::var_os("UPDATE_MUTATIONS").is_some() {
            std::fs::write(root().join(WHOLE), hash() + "\n").unwrap();
        }
    }
}

/// FNV-1a of the sources, whose names count too. Where a checkout ends lines does not.
fn hash() -> String {
    let mut files = Vec::new();
    for source in SOURCES {
        below(&root().join(source), &mut files);
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        for byte in name
            .bytes()
            .chain(text.bytes())
            .filter(|byte| *byte != b'\r')
        {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
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
