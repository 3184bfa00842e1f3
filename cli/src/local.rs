//! `leasehold local`: the whole stack on this machine.

use clap::Args;
use leasehold_local::up::{self, Up};
use tracing_subscriber::EnvFilter;

use crate::exit::{Code, Failure, in_full};

/// The embedded DynamoDB warns about every failed condition. Here that is ordinary contention.
const QUIET: &str = "warn,dynoxide=error";

const EXAMPLES: &str = "\
Examples:
  leasehold local
  leasehold local --sweep-every 5 --dynamodb-port 8000
  leasehold local --no-engine

In another terminal:
  . target/local/env.sh
  leasehold ls --table LeaseTable

It needs a clone of the repository with its functions built: cargo build --workspace --locked.

A signal that is ignored when it begins, as SIGHUP under nohup, does not end it.

Exit codes: 0 ended by Ctrl-C or another signal, 1 failed to start or failed later, 2 wrong arguments.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Local {
    #[command(flatten)]
    up: Up,
}

impl Local {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(QUIET));
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .init();
        let ended = up::run(self.up).await;
        let failed = |error| Failure::new(Code::FAILURE, in_full(&error));
        ended.map(|()| Code::DONE).map_err(failed)
    }
}
