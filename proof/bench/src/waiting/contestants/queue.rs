//! Our queue: `Leases::acquire_in_line`, woken by a call back, `extend` to confirm, `release`.
//!
//! What a workflow gets from `SendTaskSuccess`, a client here gets through a channel of this process: the calls
//! to Step Functions are no part of what is measured. Confirming and cleaning up go through the door aside.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::{
    Acquire, BadValue, Call, Connection, Delivery, DynamoDb, Execution, ExtendOptions, Extended,
    Holder, Key, Lease, Leases, Queue, RequestId, Settings, SweepBounds, TaskToken, Ttl, WaitTime,
    Workflows,
};
use serde::Deserialize;
use tokio::sync::oneshot;

use super::{KEY, told};
use crate::site::Site;
use crate::waiting::course::Course;
use crate::waiting::crew::{Client, Crew};
use crate::waiting::diary::{Diary, What};

pub(super) const SETTINGS: &str = "Leases::acquire_in_line, ttl 60 s, stays in line for an hour; told through a channel in this process instead of \
     by Step Functions; inside once extend has confirmed; confirming, and a sweep every second, counted aside";

const TABLE: &str = "leases";
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What a task token is told.
type Answer = Result<Lease, String>;

/// Who waits, by task token. Each is told once.
#[derive(Default)]
struct Waiting(Mutex<HashMap<String, oneshot::Sender<Answer>>>);

/// The part of the output that a client goes on with.
#[derive(Deserialize)]
struct Output {
    lease: Lease,
}

impl Waiting {
    fn all(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Answer>>> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, token: &TaskToken, answer: Answer) -> Delivery {
        let waiting = self.all().remove(token.expose());
        if waiting.is_some_and(|waiting| waiting.send(answer).is_ok()) {
            Delivery::Delivered
        } else {
            Delivery::Refused
        }
    }
}

impl Workflows for Waiting {
    fn succeed<'a>(
        &'a self,
        token: &'a TaskToken,
        output: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        let answer = serde_json::from_str(&output).map(|output: Output| output.lease);
        let answer = answer.map_err(|error| told(&error));
        Box::pin(std::future::ready(Ok(self.tell(token, answer))))
    }

    fn fail<'a>(
        &'a self,
        token: &'a TaskToken,
        error: &'a str,
        _: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        let delivery = self.tell(token, Err(error.to_owned()));
        Box::pin(std::future::ready(Ok(delivery)))
    }

    fn look_up<'a>(&'a self, _: &'a Holder, _: Duration) -> Call<'a, Execution> {
        Box::pin(std::future::ready(Ok(Execution::Running)))
    }
}

struct Waiter {
    number: usize,
    turn: u64,
    waiting: Arc<Waiting>,
    leases: Leases<DynamoDb>,
    aside: Leases<DynamoDb>,
}

impl Client for Waiter {
    type Held = Lease;

    async fn acquire(&mut self) -> Answer {
        self.turn += 1;
        let name = format!("client {}, turn {}", self.number, self.turn);
        let (request, queue) = ask(self.number, &name).map_err(|error| told(&error))?;
        let (sender, answer) = oneshot::channel();
        self.waiting.all().insert(name, sender);
        let joined = self.leases.acquire_in_line(request, queue).await;
        joined.map_err(|error| told(&error))?;
        let lease = answer.await.map_err(|error| told(&error))??;
        match self.aside.extend(&lease, ExtendOptions::default()).await {
            Ok(Extended::Extended { lease } | Extended::Revived { lease, .. }) => Ok(lease),
            Err(error) => Err(told(&error)),
        }
    }

    async fn release(&mut self, held: Lease) -> Result<(), String> {
        let released = self.leases.release_strictly(&held).await;
        released.map(|_| ()).map_err(|error| told(&error))
    }
}

fn ask(number: usize, name: &str) -> Result<(Acquire, Queue), BadValue> {
    let holder = Holder::new(format!("client-{number}"))?;
    let request = Acquire::new(Key::new(KEY)?, holder, Ttl::new(Duration::from_mins(1))?);
    let queue = Queue {
        task_token: TaskToken::new(name)?,
        wait: WaitTime::new(Duration::from_hours(1))?,
    };
    Ok((request.request_id(RequestId::new(name)?), queue))
}

pub(super) async fn enter(
    site: &Site,
    course: &Course,
    diary: &Arc<Diary>,
) -> Result<Crew, String> {
    let client = Connection::client(&site.config().await);
    let created = leasehold::table::create(&client, TABLE).await;
    created.map_err(|error| told(&error))?;
    let waiting = Arc::new(Waiting::default());
    let leases = |client| {
        let leases = Leases::new(DynamoDb::new(client, TABLE), Settings::default());
        leases.with_workflows(waiting.clone())
    };
    let aside = leases(Connection::client(&site.config_aside().await));
    let leases = leases(client);
    let waiter = |number| Waiter {
        number,
        turn: 0,
        waiting: Arc::clone(&waiting),
        leases: leases.clone(),
        aside: aside.clone(),
    };
    let waiters = (0..course.waiters).map(waiter).collect();
    let crew = Crew::of(waiters, course, diary);
    Ok(crew.beside(sweep(aside, Arc::clone(diary))))
}

/// Cleans up after those who were served, as the schedule does.
async fn sweep(leases: Leases<DynamoDb>, diary: Arc<Diary>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        if let Err(error) = leases.sweep(SweepBounds::Schedule).await {
            diary.write(0, What::Failed(format!("sweep: {}", told(&error))));
        }
    }
}
