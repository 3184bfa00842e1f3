//! A writer that may wake up late, and what stops it: takes a lease, reads a counter, waits, and
//! writes the counter plus one. How it writes is in `counter.rs`.

use std::{env, process::ExitCode, time::Duration};

use clap::Parser;
use leasehold::{
    Acquire, AcquireOutcome, Connection, DynamoDb, Environment, Holder, Key, Leases, RetryPolicy,
    Ttl,
};

mod counter;
use counter::{Counter, Guard, Written};

/// Take a lease, read a counter, wait, write the counter plus one.
///
/// Start one, let its lease run out while it waits, run a second one to its end, and press Enter in
/// the first. With a guard it is refused; without one, what the second wrote is overwritten.
#[derive(Debug, Parser)]
#[command(name = "late_writer", after_help = AFTER_HELP)]
struct Arguments {
    /// What keeps a late write out.
    #[arg(long, value_enum, default_value_t = Guard::Lease)]
    guard: Guard,
    /// What to lease; the counter is an item of that name.
    #[arg(long, default_value = "counters/visits", value_parser = |text: &str| Key::new(text))]
    key: Key,
    /// The length of the lease; longer than `LEASE_GUARD_MS`.
    #[arg(long, default_value = "5", value_parser = seconds)]
    ttl_seconds: Duration,
    /// How long to wait between reading and writing; without it, for a line on standard input.
    #[arg(long, value_parser = seconds)]
    pause_seconds: Option<Duration>,
    /// How long to go on asking for a key that somebody else holds.
    #[arg(long, default_value = "10", value_parser = seconds)]
    patience_seconds: Duration,
}

const AFTER_HELP: &str = "Exit codes: 0 written, 1 broken (the outcome may be unknown), 2 wrong arguments, 3 refused, 4 held by another.

Environment: LEASE_TABLE; RESOURCE_TABLE, the table of the counter, with the key pk and sk (ResourceTable);
LEASE_CLOCK_MARGIN_MS (2000), LEASE_GUARD_MS (1000); the SDK's own: AWS_ENDPOINT_URL_DYNAMODB, AWS_REGION, credentials.
While `make local` runs, target/local/env.sh has them all:

  . target/local/env.sh
  cargo run --example late_writer -- --guard none    # in one terminal: leave it waiting
  cargo run --example late_writer -- --guard none    # in another: it reads once the lease has run out; Enter
                                                     # Enter in the first: both wrote 1, an update is lost";

const REFUSED: u8 = 3;
const HELD: u8 = 4;

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().map_err(|_| "must be a number".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run(Arguments::parse()).await.unwrap_or_else(|error| {
        eprintln!("late_writer: {error}");
        for cause in std::iter::successors(error.source(), |error| error.source()) {
            eprintln!("  because of this: {cause}");
        }
        ExitCode::FAILURE
    })
}

async fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let environment = Environment::read()?;
    let table = env::var("RESOURCE_TABLE").unwrap_or_else(|_| "ResourceTable".to_owned());
    let client = Connection::from_env().await;
    let store = DynamoDb::new(client.clone(), environment.table.as_str());
    let leases = Leases::new(store, environment.settings);

    let holder = Holder::new(format!("writer {}", std::process::id()))?;
    let request = Acquire::new(arguments.key, holder, Ttl::new(arguments.ttl_seconds)?);
    let patience = RetryPolicy {
        max_backoff: Duration::from_millis(500),
        ..RetryPolicy::with_budget(arguments.patience_seconds)
    };
    println!("asking for {}", request.key);
    let lease = match leases.acquire_within(request, patience).await? {
        AcquireOutcome::Granted(granted) => granted.lease,
        AcquireOutcome::TimedOut(other) => {
            println!("held by {}", other.held.holder);
            return Ok(ExitCode::from(HELD));
        }
    };
    println!("leased {} with token {}", lease.key, lease.fencing_token);

    let counter = Counter {
        client,
        table,
        lease_table: environment.table,
        guard: arguments.guard,
    };
    let mut written = Written::Refused;
    if let Some(value) = counter.read(&lease).await? {
        println!("read {value}");
        match arguments.pause_seconds {
            Some(length) => tokio::time::sleep(length).await,
            None => wait_for_a_line()?,
        }
        // To ask `leases.status(&lease)` here is good manners and no protection: the process may
        // be stopped between the question and the write, for as long as it pleases the machine.
        written = counter.write(&lease, value + 1).await?;
        if written == Written::Done {
            println!("written {}", value + 1);
        }
    }
    if written == Written::Refused {
        println!("refused: the lease is over, and somebody else came after it");
    }
    // Harmless even now: it never ends anybody else's lease.
    println!("release: {:?}", leases.release(&lease).await?.outcome);
    Ok(match written {
        Written::Done => ExitCode::SUCCESS,
        Written::Refused => ExitCode::from(REFUSED),
    })
}

/// Blocks, which is no harm: nothing else runs in this program.
fn wait_for_a_line() -> std::io::Result<()> {
    println!("waiting for Enter");
    std::io::stdin().read_line(&mut String::new()).map(drop)
}
