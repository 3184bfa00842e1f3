//! A handler with a bug, on the library's own `serve`: for the test that a panic has a name.

use leasehold::{
    Error, Leases,
    lambda::{Fatal, serve},
    store::Store,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    serve(handle).await
}

async fn handle<S: Store>(_leases: Leases<S>, request: serde_json::Value) -> Result<String, Error> {
    panic!("this handler panics, whatever it is given: {request}")
}
