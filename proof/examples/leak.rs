//! A handler that logs the proof of its caller's lease, in the form that the event asks for: for the test that the
//! secret scanner finds it.

use leasehold::{Error, Lease, Leases, ReleaseOutcome, Released, store::Store};
use leasehold_lambda::{Fatal, Function, Names};
use serde::Deserialize;

#[derive(Deserialize)]
struct Request {
    lease: Lease,
    form: String,
}

impl leasehold_lambda::Request for Request {
    fn names(&self) -> Names<'_> {
        Names::default()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new("leak").serve(handle).await
}

async fn handle<S: Store>(_leases: Leases<S>, request: Request) -> Result<Released, Error> {
    let Request { lease, form } = request;
    let secret = lease.lease_id.expose();
    match form.as_str() {
        // At the level that nobody is shown by default.
        "as it is" => tracing::trace!(target: "leasehold", secret, "oh dear"),
        "printed" => println!("extending with {secret}"),
        "in hex" => {
            let hex: Vec<_> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("{}", hex.concat());
        }
        _ => tracing::info!(target: "leasehold", ?lease, "as it should be"),
    }
    Ok(Released {
        outcome: ReleaseOutcome::Released,
        expired: false,
    })
}
