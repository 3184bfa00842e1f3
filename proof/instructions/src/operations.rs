//! What an operation takes by the library, and what the same request takes by the SDK alone.

use std::{collections::BTreeMap, path::Path};

use leasehold::Lease;

use crate::{
    Error, TRIES,
    ground::Ground,
    io,
    valgrind::{self, Program},
};

/// One operation, per call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// `acquire`, `extend` or `release`.
    pub name: &'static str,
    /// By the library.
    pub library: f64,
    /// The same request by the SDK alone.
    pub sdk: f64,
}

impl Operation {
    /// By how much the library is above the SDK, as a share of the SDK's.
    #[must_use]
    pub fn above(&self) -> f64 {
        self.library / self.sdk - 1.0
    }
}

/// What is measured.
pub(crate) const NAMES: [&str; 3] = ["acquire", "extend", "release"];

/// Calls in the shorter run, beside which the longer one has `calls` more: the first ones connect and fill what is kept.
const FIRST: usize = 10;

/// Measures one operation by `driver`, over so many calls.
///
/// # Errors
/// As [`valgrind::count`]; [`Error::Counting`] if a call fails.
pub async fn measure(driver: &Path, name: &'static str, calls: usize) -> Result<Operation, Error> {
    let [library, sdk] = ["library", "sdk"].map(|by| each(driver, by, name, calls));
    let (library, sdk) = tokio::try_join!(library, sdk)?;
    Ok(Operation { name, library, sdk })
}

async fn each(driver: &Path, by: &str, name: &str, calls: usize) -> Result<f64, Error> {
    let (few, many) = tokio::try_join!(
        run(driver, by, name, FIRST, FIRST + calls),
        run(driver, by, name, FIRST + calls, FIRST + calls),
    )?;
    Ok(valgrind::difference(few, many, calls))
}

/// A table of its own for each run: what one leaves behind is no other's.
async fn run(driver: &Path, by: &str, name: &str, calls: usize, rows: usize) -> Result<u64, Error> {
    for _ in 0..TRIES {
        let ground = Ground::start().await?;
        let leases = ground.leases(rows).await?;
        if name == "acquire" {
            ground.release(&leases).await?;
        }
        let place = tempfile::tempdir().map_err(io("create a temporary directory"))?;
        let file = place.path().join("leases.json");
        write(&file, &leases)?;
        let counted = valgrind::count(&Program {
            path: driver.to_owned(),
            arguments: vec![
                by.to_owned(),
                name.to_owned(),
                file.display().to_string(),
                calls.to_string(),
            ],
            environment: BTreeMap::from([("TABLE_URL".to_owned(), ground.url())]),
        })
        .await?;
        if ground.requests() == calls as u64 {
            return counted.of_a_success();
        }
    }
    Err(Error::TooSlow(name.to_owned()))
}

fn write(file: &Path, leases: &[Lease]) -> Result<(), Error> {
    let what = || format!("write {}", file.display());
    let text = serde_json::to_vec(leases).map_err(|error| io(what())(error.into()))?;
    std::fs::write(file, text).map_err(io(what()))
}
