//! One contender of the race: acquires, works, extends, releases, over and over, until it is told
//! by a signal, gently or not, that it is over. Now and then it works longer than its lease lasts.

use std::{collections::HashMap, env, time::Duration};

use leasehold::{
    Acquire, Acquired, Connection, DynamoDb, Environment, Error, ExtendOptions, Holder, Key, Lease,
    Leases, RequestId, Ttl,
};

#[path = "../step/src/resource.rs"]
mod resource;
use resource::{Pass, Resource};

/// What the resource refuses; the race counts them by their names.
#[derive(Debug)]
#[expect(dead_code, reason = "shown by Debug only")]
enum Failure {
    StaleToken {
        key: String,
        token: u64,
        accepted: u64,
    },
    Overlap {
        key: String,
        token: u64,
        occupant: u64,
    },
    Unavailable(String),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let me = env::args().nth(1).ok_or("usage: racer NAME")?;
    let Environment {
        table, settings, ..
    } = Environment::read()?;
    let client = Connection::from_env().await;
    let resource = Resource::new(client.clone(), env::var("RESOURCE_TABLE")?);
    let leases = Leases::new(DynamoDb::new(client, table), settings);
    let mut counts = HashMap::<&str, u64>::new();
    for round in 0_u64.. {
        // Any number will do, as long as contenders and rounds differ.
        let dice = me
            .bytes()
            .fold(round, |n, byte| n.wrapping_mul(31) + u64::from(byte));
        let outcome = match section(&leases, &resource, &me, round, dice).await {
            Ok(outcome) => outcome,
            // Only what a lease promises is asked for here; the table may be slow.
            Err(Error::Unavailable { .. } | Error::Throttled { .. }) => "unavailable",
            Err(error) => return Err(error.into()),
        };
        *counts.entry(outcome).or_default() += 1;
        println!("{outcome}");
        if outcome == "held" {
            tokio::time::sleep(Duration::from_millis(100 + dice % 400)).await;
        }
    }
    Ok(())
}

async fn section(
    leases: &Leases<DynamoDb>,
    resource: &Resource,
    me: &str,
    round: u64,
    dice: u64,
) -> Result<&'static str, Error> {
    let invalid = |error| Error::invalid("racer", error);
    let holder = Holder::new(me).map_err(invalid)?;
    let key = Key::new("prize").map_err(invalid)?;
    let ttl = Ttl::new(Duration::from_secs(1)).map_err(invalid)?;
    let process = std::process::id();
    let request_id = RequestId::new(format!("{process}/{round}")).map_err(invalid)?;
    let request = Acquire::new(key, holder, ttl).request_id(request_id);
    let mut lease = match leases.acquire(request).await? {
        Acquired::Held(_) => return Ok("held"),
        Acquired::Granted(granted) => granted.lease,
    };
    match resource.enter(&pass(&lease), "race").await {
        Ok(_) => {}
        Err(Failure::Unavailable(_)) => return Ok("unavailable"),
        Err(failure) => return Ok(name(&failure)),
    }
    let work = match dice % 40 {
        0 => 1300,
        n => n / 4,
    };
    tokio::time::sleep(Duration::from_millis(work)).await;
    if dice.is_multiple_of(3) {
        match leases.extend(&lease, ExtendOptions::default()).await {
            Ok(extended) => lease = extended.into_lease(),
            Err(Error::Lost { .. }) => return Ok("lost"),
            Err(error) => return Err(error),
        }
        if let Err(failure) = resource.enter(&pass(&lease), "race").await {
            return Ok(name(&failure));
        }
    }
    let left = resource.leave(&pass(&lease), "race").await;
    leases.release(&lease).await?;
    Ok(left.map_or_else(|failure| name(&failure), |_| "done"))
}

fn pass(lease: &Lease) -> Pass {
    Pass {
        key: lease.key.to_string(),
        holder: lease.holder.to_string(),
        fencing_token: lease.fencing_token.get(),
        safe_until: lease.safe_until,
    }
}

fn name(failure: &Failure) -> &'static str {
    match failure {
        Failure::StaleToken { .. } => "stale",
        Failure::Overlap { .. } => "overlap",
        Failure::Unavailable(_) => "unavailable",
    }
}
