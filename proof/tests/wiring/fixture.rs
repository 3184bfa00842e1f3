//! A stack of `fixtures/wiring.json`, whose function fails as its messages say.

use std::path::Path;
use std::time::Duration;

use leasehold_local::{Invocation, Options, Stack};
use leasehold_proof::fixture::{TIMEOUT, eventually, scanned};
use serde_json::Value;
use tokio::sync::broadcast;

pub fn options() -> Options {
    let binaries = leasehold_proof::example("picky");
    let binaries = binaries.parent().unwrap().to_owned();
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wiring.json");
    Options {
        template: Some(template),
        binaries: Some(binaries),
        queue_delay: Some(Duration::from_millis(30)),
        ..scanned()
    }
}

pub async fn stack() -> Stack {
    Stack::start(options()).await.unwrap()
}

/// The next invocation to end, with its payload.
pub async fn next(invocations: &mut broadcast::Receiver<Invocation>) -> (Invocation, Value) {
    let next = tokio::time::timeout(TIMEOUT, invocations.recv()).await;
    let invocation = next.expect("no invocation").unwrap();
    let payload = serde_json::from_str(&invocation.payload).unwrap();
    (invocation, payload)
}

/// The dead letters of the stack, once there are as many.
pub async fn dead_letters(stack: &Stack, count: usize) -> Vec<Value> {
    let letters = eventually("dead letters", async || {
        let letters = stack.queue("DeadQueue").unwrap();
        (letters.len() >= count).then_some(letters)
    });
    let letters = letters.await;
    letters
        .iter()
        .map(|text| serde_json::from_str(text).unwrap())
        .collect()
}
