//! The state machine engine beside recordings of the service: the tests of `local/asl/tests`, by the engine's own Python.

use leasehold_local::{PythonEnvironment, prepare_python};
use leasehold_proof::root;
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_does_what_was_recorded() {
    let environment = PythonEnvironment {
        name: "asl-venv",
        requirements: &root().join("local/asl/requirements.txt"),
        purpose: "the state machine engine",
        without: "install Python 3 with venv",
    };
    let python = prepare_python(root(), &environment).await.unwrap();
    let output = Command::new(python)
        .args(["-B", "-m", "unittest", "discover", "-s"])
        .arg(root().join("local/asl/tests"))
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let ran = told.lines().find_map(|line| line.strip_prefix("Ran "));
    let ran = ran.and_then(|line| line.split(' ').next()?.parse().ok());
    assert!(
        ran.is_some_and(|ran: usize| ran > 20),
        "not all ran: {told}"
    );
}
