//! The roles of the template, where it takes more than one stack, team or set of parameters to see what they allow. That each role
//! allows what is needed and no more is shown by the cases of `tests/machines`.
#![allow(clippy::unwrap_used, missing_docs)]

mod isolation;
mod minimal;
mod parameters;
mod teams;

use std::path::Path;

use leasehold_local::{Options, Stack};

/// The template, as SAM translates it.
fn template() -> String {
    read("local/template.json")
}

/// A file of the repository.
fn read(path: &str) -> String {
    std::fs::read_to_string(leasehold_proof::root().join(path)).unwrap()
}

/// The stack of a template that was changed.
async fn start(template: &str, directory: &Path, options: Options) -> Stack {
    let file = directory.join("template.json");
    std::fs::write(&file, template).unwrap();
    let started = Stack::start(Options {
        template: Some(file),
        follow: false,
        ..options
    });
    started.await.unwrap_or_else(|error| panic!("{error}"))
}
