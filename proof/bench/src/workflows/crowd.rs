//! Many executions at once for one key: what each section then takes.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::time::sleep;

use super::peers::{Counter, PUBLISHED};
use super::scenes::{LOOP, OURS, POLLING, SAMPLE, SAMPLE_LOOP, Scene, work};
use super::stage::Stage;
use crate::Error;

/// How long the key is held, in seconds, besides what the states themselves take.
const HELD_FOR: f64 = 0.1;
/// Between two starts: a service would not start them at the same instant either.
const BETWEEN: Duration = Duration::from_millis(5);

/// A crowd and what it took.
#[derive(Clone, Debug, Serialize)]
pub struct Crowd {
    /// How many executions wanted the key at once.
    pub many: u32,
    /// What they took, with one run of sweep afterwards, which clears up after those who were served.
    pub scene: Scene,
}

impl Crowd {
    /// Whose machine it was.
    #[must_use]
    pub fn who(&self) -> &'static str {
        self.scene.who
    }

    /// From the first start to the last end.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.scene.spent.seconds
    }

    /// Transitions for each section, to have the lease and to wait for it.
    #[must_use]
    pub fn transitions(&self) -> f64 {
        let by = &self.scene.purposes;
        let all = by.lease.transitions + by.waiting.transitions;
        self.scene.spent.each(all)
    }

    /// Events for each section, to have the lease and to wait for it.
    #[must_use]
    pub fn events(&self) -> f64 {
        let by = &self.scene.purposes;
        self.scene.spent.each(by.lease.events + by.waiting.events)
    }

    /// Requests for each section to have the lease and to wait for it, without those that tidy up. An extend is one.
    #[must_use]
    pub fn requests(&self) -> f64 {
        let spent = &self.scene.spent;
        let requests = spent.sections_asked.requests();
        spent.each(requests.saturating_sub(self.scene.extends))
    }

    /// Requests of reap and sweep for each section.
    #[must_use]
    pub fn tidying(&self) -> f64 {
        self.scene
            .spent
            .each(self.scene.spent.tidying_asked.requests())
    }
}

/// Lets so many executions of one kind want one key at once.
pub(super) async fn crowd(stage: &Stage, who: &'static str, many: u32) -> Result<Crowd, Error> {
    let key = format!("{who} {many}");
    let step = json!({"seconds": HELD_FOR});
    let (machine, input) = match who {
        OURS | POLLING => {
            let machine = match who {
                OURS => "QueuedSectionStateMachine",
                _ => "CriticalSectionStateMachine",
            };
            let input = json!({"key": key, "ttl_seconds": 30, "first": step, "second": {}});
            (stage.shipped(machine)?.to_owned(), input)
        }
        _ => {
            let name = match who {
                SAMPLE => "sample",
                SAMPLE_LOOP => "plain",
                _ => "loop",
            };
            let counter = Counter::new(stage, &format!("{name}-{many}"), 0).await?;
            let machine = match who {
                SAMPLE => counter.published(stage, PUBLISHED).await?,
                LOOP => counter.polling_loop(stage).await?,
                _ => counter.plain(stage).await?,
            };
            (machine, work(&key, HELD_FOR))
        }
    };
    let mark = stage.mark();
    let mut runs = Vec::new();
    for _ in 0..many {
        runs.push(stage.start(&machine, &input).await?);
        sleep(BETWEEN).await;
    }
    for run in &runs {
        run.succeeds().await?;
    }
    if who == OURS {
        stage.call("SweepFunction", &json!({})).await?;
    }
    let spent = stage.spent(mark, &runs).await?;
    let name = format!("{who}, {many} at once");
    Ok(Crowd {
        many,
        scene: Scene::new(name, who, spent),
    })
}

/// All that run quickly enough for a crowd of this size, one after the other.
pub(super) async fn crowds(stage: &Stage, sizes: &[u32]) -> Result<Vec<Crowd>, Error> {
    let mut crowds = Vec::new();
    for many in sizes {
        for who in [OURS, POLLING, SAMPLE_LOOP, LOOP] {
            let crowd = crowd(stage, who, *many).await?;
            crate::tell(&format!(
                "{}: {:.1} transitions, {:.1} events, {:.1} requests each, {:.1} to tidy up, {:.1} s in all",
                crowd.scene.name,
                crowd.transitions(),
                crowd.events(),
                crowd.requests(),
                crowd.tidying(),
                crowd.scene.spent.seconds
            ));
            crowds.push(crowd);
        }
    }
    Ok(crowds)
}
