//! One contender of a race: acquires, works, extends, releases, over and over, until it is killed. Now and then it works
//! longer than its lease lasts. It prints the outcome of each round, and appends what it learnt of its leases to the
//! file `HISTORY`.
//!
//! `racer NAME` contends for a key, `racer NAME PERMITS` for a permit of a semaphore.

use std::{env, path::PathBuf, time::Duration};

use leasehold::{
    Acquire, Acquired, Clock as _, Connection, DynamoDb, Environment, Error, ExtendOptions, Holder,
    Key, Lease, Leases, Permits, RequestId, SystemClock, Ttl,
};
use leasehold_local::history::{Event, Grant, What};

#[path = "../../../local/step/src/resource.rs"]
mod resource;
mod room;

use resource::{Pass, Resource};
use room::Room;

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

/// What is raced for.
enum Prize {
    /// Lets in one at a time.
    One(Resource),
    /// Lets in as many as it has places.
    Several(Room, Permits),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let me = env::args().nth(1).ok_or("usage: racer NAME [PERMITS]")?;
    let permits = env::args().nth(2).map(|n| n.parse()).transpose()?;
    let Environment {
        table, settings, ..
    } = Environment::read()?;
    let client = Connection::from_env().await;
    let protected = env::var("RESOURCE_TABLE")?;
    let prize = match permits {
        None => Prize::One(Resource::new(client.clone(), protected)),
        Some(n) => Prize::Several(Room::new(client.clone(), protected), Permits::new(n)?),
    };
    let leases = Leases::new(DynamoDb::new(client, table), settings);
    let racer = Racer {
        leases,
        prize,
        name: me.clone(),
        history: env::var("HISTORY")?.into(),
    };
    for round in 0_u64.. {
        // Any number will do, as long as contenders and rounds differ.
        let number = me
            .bytes()
            .fold(round, |n, byte| n.wrapping_mul(31) + u64::from(byte));
        let outcome = match racer.section(round, number).await {
            Ok(outcome) => outcome,
            // Only what a lease promises is asked for here; the table may be slow.
            Err(Error::Unavailable { .. } | Error::Throttled { .. }) => "unavailable",
            Err(error) => return Err(error.into()),
        };
        println!("{outcome}");
        if outcome == "held" {
            tokio::time::sleep(Duration::from_millis(100 + number % 400)).await;
        }
    }
    Ok(())
}

struct Racer {
    leases: Leases<DynamoDb>,
    prize: Prize,
    name: String,
    history: PathBuf,
}

impl Racer {
    async fn section(&self, round: u64, number: u64) -> Result<&'static str, Error> {
        let invalid = |error| Error::invalid("racer", error);
        let holder = Holder::new(&*self.name).map_err(invalid)?;
        let key = Key::new("prize").map_err(invalid)?;
        let ttl = Ttl::new(Duration::from_secs(1)).map_err(invalid)?;
        let process = std::process::id();
        let request_id = RequestId::new(format!("{process}/{round}")).map_err(invalid)?;
        let request = Acquire::new(key, holder, ttl)
            .request_id(request_id)
            .permits(self.prize.permits());
        let asked_at = SystemClock.now().as_millis();
        let mut lease = match self.leases.acquire(request).await? {
            Acquired::Held(_) => return Ok("held"),
            Acquired::Granted(granted) => granted.lease,
        };
        self.record(&lease, |grant, safe_until| What::Granted {
            grant,
            asked_at,
            safe_until,
        });
        if let Err(failure) = self.prize.enter(&lease).await {
            return Ok(failure);
        }
        let work = match number % 20 {
            0 => 1300,
            n => n / 2,
        };
        tokio::time::sleep(Duration::from_millis(work)).await;
        if number.is_multiple_of(3) {
            match self.leases.extend(&lease, ExtendOptions::default()).await {
                Ok(extended) => lease = extended.into_lease(),
                Err(Error::Lost { .. }) => return Ok("lost"),
                Err(error) => return Err(error),
            }
            self.record(&lease, |grant, safe_until| What::Extended {
                grant,
                safe_until,
            });
            if let Err(failure) = self.prize.enter(&lease).await {
                return Ok(failure);
            }
        }
        match self.prize.leave(&lease).await {
            // Perhaps still inside: the lease may only run out.
            Err("unavailable") => Ok("unavailable"),
            left => {
                self.record(&lease, |grant, _| What::Ended { grant });
                let _ = self.leases.release(&lease).await?;
                Ok(left.map_or_else(|failure| failure, |()| "done"))
            }
        }
    }

    fn record(&self, lease: &Lease, what: impl FnOnce(Grant, u64) -> What) {
        let grant = Grant {
            fencing_token: lease.fencing_token.get(),
            permit: lease.permit,
            permits: self.prize.permits().get(),
        };
        let event = Event {
            at: SystemClock.now().as_millis(),
            key: lease.key.to_string(),
            holder: self.name.clone(),
            what: what(grant, lease.safe_until.as_millis()),
        };
        if let Err(error) = event.append_to(&self.history) {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

impl Prize {
    fn permits(&self) -> Permits {
        match self {
            Self::One(_) => Permits::ONE,
            Self::Several(_, permits) => *permits,
        }
    }

    async fn enter(&self, lease: &Lease) -> Result<(), &'static str> {
        match self {
            Self::One(resource) => outcome(resource.enter(&pass(lease), "race").await),
            Self::Several(room, _) => room.enter(lease).await,
        }
    }

    async fn leave(&self, lease: &Lease) -> Result<(), &'static str> {
        match self {
            Self::One(resource) => outcome(resource.leave(&pass(lease), "race").await),
            Self::Several(room, _) => room.leave(lease).await,
        }
    }
}

fn pass(lease: &Lease) -> Pass {
    Pass {
        key: lease.key.to_string(),
        holder: lease.holder.to_string(),
        fencing_token: lease.fencing_token.get(),
        safe_until: lease.safe_until,
    }
}

fn outcome<T>(answer: Result<T, Failure>) -> Result<(), &'static str> {
    answer.map(drop).map_err(|failure| match failure {
        Failure::StaleToken { .. } => "stale",
        Failure::Overlap { .. } => "overlap",
        Failure::Unavailable(_) => "unavailable",
    })
}
