//! What a critical section costs: requests, bytes and units, scene by scene, of ours, of other lock clients, and of the
//! conditional writes that one would send oneself.
//!
//! Each scene has a database of its own behind the counting proxy. [`sections`] are those that nobody disturbs; in
//! [`lost`] one request goes wrong; in [`crash`] the holder vanishes; [`several`] and [`guarded`] show what only some can
//! do; [`line`](mod@line) is ours in line. [`promises`] says what ours is held to.

mod clients;
mod crash;
mod guarded;
mod line;
mod lost;
mod played;
mod promises;
mod sections;
mod several;
mod told;

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_local::Fault;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::parts::{Found, Ground};
use crate::{Error, tell};
use clients::{Act, Direct, DynamodbLease, Lock, Ours, PythonLock, Setting, Who};
use lost::Tries;
use played::Played;

/// How long acquire and release take from afar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Far {
    /// Who.
    pub client: &'static str,
    /// What was to be added to the way of each request.
    pub latency_ms: u64,
    /// What that came to: a timer is up to a millisecond late, and more on a busy machine.
    pub delay_ms: f64,
    /// Mean time of both together.
    pub section_ms: f64,
    /// How many delays that is more than without any.
    pub round_trips: Option<f64>,
}

/// Everything that was played.
#[derive(Clone, Debug, Default)]
pub struct All {
    /// The scenes.
    pub played: Vec<Played>,
    /// From afar.
    pub far: Vec<Far>,
}

/// How long the leases are, and how often it is tried.
#[derive(Clone, Debug)]
struct Plan {
    /// In scenes in which nobody waits for a lease to run out.
    long: Setting,
    /// In the others.
    short: Setting,
    tries: Tries,
    extends: &'static [u32],
    keys: &'static [usize],
    latencies: &'static [u64],
    rounds: u32,
}

impl Plan {
    fn of(ground: &Ground) -> Self {
        let setting = |seconds| Setting {
            root: ground.root.clone(),
            lease: Duration::from_secs(seconds),
            extends_every: None,
        };
        let tries = |most, seconds| Tries {
            most,
            until: Duration::from_secs(seconds),
        };
        if ground.quick {
            Self {
                long: setting(60),
                short: setting(3),
                tries: tries(5, 1),
                extends: &[0, 1],
                keys: &[2],
                latencies: &[0, 5],
                rounds: 5,
            }
        } else {
            Self {
                long: setting(60),
                short: setting(5),
                tries: tries(20, 4),
                extends: &[0, 1, 10],
                keys: &[2, 10],
                latencies: &[0, 1, 5, 20],
                rounds: 20,
            }
        }
    }
}

/// One scene after the other, but for those that mostly wait.
pub(crate) async fn measure(ground: &Ground) -> Result<Found, Error> {
    let plan = Plan::of(ground);
    let mut all = All::default();
    all.alone::<Ours>(&plan).await?;
    all.alone::<Direct>(&plan).await?;
    all.alone::<DynamodbLease>(&plan).await?;
    all.alone::<PythonLock>(&plan).await?;
    all.some(&plan).await?;
    all.waits(&plan).await?;
    Ok(all.found())
}

impl All {
    /// The scenes in which everybody can play, and nobody waits.
    async fn alone<L: Lock>(&mut self, plan: &Plan) -> Result<(), Error> {
        let who = L::WHO.told();
        tell(&format!("{who}: {}", L::WHO.settings()));
        for extends in plan.extends {
            let played = sections::section::<L>(&plan.long, *extends).await;
            self.add(who, played)?;
        }
        if matches!(L::WHO, Who::DynamodbLease | Who::PythonDynamodbLock) {
            for keys in plan.keys {
                let played = sections::one_by_one::<L>(&plan.long, *keys).await;
                self.add(who, played)?;
            }
        }
        let mut near = None;
        for latency in plan.latencies {
            let far = Duration::from_millis(*latency);
            let took = sections::far_away::<L>(&plan.long, far, plan.rounds).await;
            let took = took.map_err(|message| wrong(who, message))?;
            let base = *near.get_or_insert(took.section_ms);
            self.far.push(Far {
                client: who,
                latency_ms: *latency,
                delay_ms: took.delay_ms,
                section_ms: took.section_ms,
                round_trips: (*latency > 0)
                    .then(|| crate::rounded((took.section_ms - base) / took.delay_ms)),
            });
        }
        Ok(())
    }

    /// What only some can do.
    async fn some(&mut self, plan: &Plan) -> Result<(), Error> {
        let (ours, direct) = (Who::Leasehold.told(), Who::DirectCalls.told());
        for keys in plan.keys {
            self.add(ours, several::keys(&plan.long, *keys).await)?;
            self.add(direct, several::keys_directly(&plan.long, *keys).await)?;
        }
        self.add(ours, several::semaphore(&plan.long).await)?;
        self.add(ours, several::one_of_many(&plan.long).await)?;
        self.add(direct, several::counter(&plan.long).await)?;
        let writes = guarded::writes(&plan.long).await;
        self.played
            .extend(writes.map_err(|message| wrong(ours, message))?);
        self.add(ours, line::alone(&plan.long).await)?;
        let cycle = line::behind_one(&plan.long).await;
        for played in cycle.map_err(|message| wrong(ours, message))? {
            self.add(ours, Ok(played))?;
        }
        Ok(())
    }

    /// What goes wrong. Who has to wait for a lease does that while others do; who does not is asked alone, so that its
    /// time is its own.
    async fn waits(&mut self, plan: &Plan) -> Result<(), Error> {
        tell("answers that are lost, and holders that vanish");
        self.wrong::<Ours>(plan).await?;
        self.wrong::<Direct>(plan).await?;
        let mut waiting = JoinSet::new();
        // One after the other within each client.
        let (one, other) = (plan.clone(), plan.clone());
        waiting.spawn(async move {
            let mut all = Self::default();
            all.wrong::<DynamodbLease>(&one).await.map(|()| all)
        });
        waiting.spawn(async move {
            let mut all = Self::default();
            all.wrong::<PythonLock>(&other).await.map(|()| all)
        });
        let setting = plan.short.clone();
        waiting.spawn(async move {
            let crashes = tokio::join!(
                crash::polled(&setting),
                line::swept(&setting),
                line::reaped(&setting),
                crash::direct(&setting),
                crash::dynamodb_lease(&setting),
                crash::python_lock(&setting),
            );
            let mut all = Self::default();
            let (polled, swept, reaped, direct, lease, python) = crashes;
            for crash in [polled, swept, reaped, direct, lease, python] {
                all.add(crash::NAME, crash)?;
            }
            Ok(all)
        });
        let mut others = Vec::new();
        for ended in waiting.join_all().await {
            others.extend(ended?.played);
        }
        // They end in any order.
        others.sort_by_key(|played| Who::ALL.iter().position(|who| who.told() == played.client));
        self.played.extend(others);
        Ok(())
    }

    async fn wrong<L: Lock>(&mut self, plan: &Plan) -> Result<(), Error> {
        for fault in [Fault::LoseAnswer, Fault::Throttle] {
            for act in Act::ALL {
                let settled = lost::settled::<L>(&plan.short, act, fault, plan.tries).await;
                self.add(L::WHO.told(), settled)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, who: &'static str, played: Result<Played, String>) -> Result<(), Error> {
        let played = played.map_err(|message| wrong(who, message))?;
        tell(&told::row(&played));
        self.played.push(played);
        Ok(())
    }

    /// A scene, as this client played it.
    #[must_use]
    pub fn of(&self, scene: &str, client: &str) -> Option<&Played> {
        let mut played = self.played.iter();
        played.find(|played| played.scene == scene && played.client == client)
    }

    /// What a cost table needs: for each scene and client, what one section sends and consumes.
    fn units_per_section(&self) -> Value {
        let mut scenes: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
        for played in &self.played {
            let sections = f64::from(played.sections);
            let per = |value: f64| crate::rounded(value / sections);
            let requests = crate::ratio(played.all.requests, u64::from(played.sections));
            let units = json!({
                "requests": crate::rounded(requests),
                "write_units": per(played.all.write_units),
                "refused_write_units": per(played.all.refused_units),
                "read_units": per(played.all.read_units),
            });
            let clients = scenes.entry(&played.scene).or_default();
            clients.insert(played.client, units);
        }
        json!(scenes)
    }

    fn found(self) -> Found {
        let settings: BTreeMap<_, _> = Who::ALL
            .iter()
            .map(|who| (who.told(), who.settings()))
            .collect();
        Found {
            title: "What a critical section costs",
            told: told::tables(&self),
            measures: promises::measures(&self),
            pictures: vec![told::picture(&self)],
            raw: json!({
                "settings": settings,
                "scenes": self.played,
                "units_per_section": self.units_per_section(),
                "from_afar": self.far,
            }),
        }
    }
}

fn wrong(contestant: &'static str, message: String) -> Error {
    Error::Contestant {
        contestant,
        message,
    }
}

#[cfg(test)]
mod tests;
