//! The harness that every proof shares: where the built programs are, and what tests stand on.
#![allow(
    clippy::disallowed_methods,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    clippy::unwrap_used,
    reason = "a harness waits for processes by the real clock, and what fails here fails the test"
)]

pub mod cases;
pub mod execution;
pub mod fake_step_functions;
pub mod fixture;
pub mod machines;
pub mod permissions;
pub mod secret_scanner;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> &'static Path {
    let proof = Path::new(env!("CARGO_MANIFEST_DIR"));
    proof.parent().unwrap_or(proof)
}

/// Path of a program that `cargo build --workspace` has built into the directory of this test's profile.
///
/// # Panics
///
/// Panics if the program has not been built: a filtered `cargo test` does not build other packages' programs.
pub fn program(name: &str) -> PathBuf {
    built("", name)
}

/// Path of an example program of this package, built by `cargo build --examples`.
///
/// # Panics
///
/// Panics if the example has not been built.
pub fn example(name: &str) -> PathBuf {
    built("examples", name)
}

fn built(directory: &str, name: &str) -> PathBuf {
    let here = std::env::current_exe().expect("what runs has a path");
    // Tests run in target/<profile>/deps, programs above it.
    let mut above = here.ancestors().skip(1);
    let profile = above
        .find(|directory| !directory.ends_with("deps"))
        .expect("what was built is in target/<profile>");
    let path = profile.join(directory).join(name);
    assert!(
        path.exists(),
        "{} is missing, build it first: cargo build --workspace --locked --examples --bins",
        path.display()
    );
    path
}
