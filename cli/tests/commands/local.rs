//! `leasehold local`: what `make local` runs, and that it ends in order.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::fixture::{children, runs, until};

#[tokio::test]
async fn the_stack_starts_and_ends_with_the_program() {
    let local = Path::new(env!("CARGO_MANIFEST_DIR")).join("../local");
    let program = Path::new(env!("CARGO_BIN_EXE_leasehold"));
    let binaries = program.parent().unwrap().join("examples");
    // A filtered run (`cargo test --test …`) does not build examples by itself.
    assert!(
        binaries.join("echo").exists(),
        "build it first: cargo build --workspace --examples"
    );
    let directory = tempfile::tempdir().unwrap();
    let mut child = Command::new(program)
        .args(["local", "--no-engine", "--no-sweep", "--template"])
        .arg(local.join("tests/fixtures/stack.json"))
        .arg("--run-directory")
        .arg(directory.path())
        .env("LEASEHOLD_BIN_DIR", binaries)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines.find(|line| line.as_ref().unwrap().contains("Leasehold is up"));
    assert!(told.is_some());
    let url = lines.find_map(|line| {
        let line = line.unwrap();
        let url = line.strip_prefix("export AWS_ENDPOINT_URL_DYNAMODB=");
        url.map(str::to_owned)
    });
    assert!(url.unwrap().starts_with("http://127.0.0.1:"));
    let family = children(child.id());
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut status = None;
    until("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    })
    .await;
    assert_eq!(status.unwrap().code(), Some(0));
    assert!(!family.into_iter().any(runs));
}
