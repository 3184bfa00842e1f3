//! A section in a queue: an execution waits with a task token, holds while it runs, and ends.

use std::time::Duration;

use leasehold_proof::fake_step_functions::StepFunctionsCall;
use serde_json::{Value, json};
use tokio::sync::oneshot::Receiver;

use super::asking::Wanted;
use super::{Client, Shape};
use crate::calls::{Answer, Caller, Handle};
use crate::history::{Micros, Wait};
use crate::late_waiters::PendingWait;
use crate::plan::{RestartPolicy, Section, Work};
use crate::rng::seeded;
use crate::watch::sleep_ms;

/// How long a waiter stays in the queue.
const WAIT_SECONDS: u64 = 6;
/// How long it listens before it does something else. By then it has its answer, whatever went wrong once, unless the
/// machine is busy: whether it gets one at all is seen when the round is over.
const LISTENS: Duration = Duration::from_secs(30);
/// How long some hold, in milliseconds: longer than any ttl here, and than looks that are mistaken take to end a lease.
const LONG: u64 = 4_000;

/// What a waiter heard.
enum Heard {
    Call(StepFunctionsCall),
    /// The execution goes on without the lease.
    TimedOut,
    /// It died before.
    Died,
    Nothing,
    /// The token was forgotten.
    Forgotten,
}

impl Client<'_> {
    pub(super) async fn run_in_queue(&self, caller: &Caller<'_>, plan: &Section) {
        let key = &plan.pick(&self.context.keys.lines);
        // Some do not wait, and must not overtake the waiters.
        if plan.hot && plan.writes {
            return self.past_the_line(caller, plan, key).await;
        }
        let caller = &self.execution(plan.number);
        let token = secret(
            self.context.seed,
            self.context.round,
            self.number,
            plan.number,
        );
        self.context.history().secrets.insert(token.clone());
        let step_functions = &self.context.fixture.step_functions;
        let mut waiting = step_functions.wait(&caller.holder, &token);
        let begin = self.context.watch.now();
        let (joined, queued) = join(caller, plan, key, &token).await;
        let mut wait = Wait {
            key: key.clone(),
            begin,
            queued,
            token: None,
            answered: true,
            by: format!("{}{}", caller.mark, caller.holder),
        };
        // Who was told that it is not in the queue, or knows nothing, does not listen.
        let heard = if joined {
            listen(plan, &mut waiting).await
        } else {
            give_up(&mut waiting, plan.writes)
        };
        let mut goes_on = false;
        match heard {
            Heard::Call(call) if call.operation == "SendTaskSuccess" => {
                let output: Value = serde_json::from_str(call.output()).unwrap_or_default();
                if let Some(handle) = caller.handle(&output["lease"]) {
                    if handle.place.key != *key || handle.has_deadline() {
                        caller.unexpected(&format!("{} for {key}", output["lease"]));
                    }
                    wait.token = Some(handle.token);
                    self.serve(caller, plan, handle).await;
                }
            }
            Heard::Call(call) => {
                // Consumed if an operator took the lease before anybody had told of it.
                let error = call.body["error"].as_str().unwrap_or_default();
                if !["Lease.QueueTimeout", "Lease.Consumed"].contains(&error) {
                    caller.unexpected(&format!("answered in the queue: {error}"));
                }
            }
            Heard::TimedOut => goes_on = true,
            Heard::Died => {}
            Heard::Forgotten => wait.answered = false,
            Heard::Nothing => {
                self.context.history().pending.push(PendingWait {
                    wait,
                    execution: caller.holder.clone(),
                    waiting,
                });
                return;
            }
        }
        if !goes_on {
            step_functions.end(&caller.holder, "SUCCEEDED");
        }
        self.context.history().waits.push(wait);
    }

    /// Works, and ends.
    async fn serve(&self, caller: &Caller<'_>, plan: &Section, handle: Handle) {
        let since = self.context.watch.now();
        let lasting = plan.work.iter().filter_map(|work| match *work {
            Work::For(millis) => Some(Work::For(millis)),
            Work::Extend { step, copies, .. } => Some(Work::Extend {
                step,
                ttl: None,
                require_unexpired: false,
                copies,
            }),
            Work::WrongLeaseId(_) | Work::WriteAfterExpiry(_) => None,
        });
        let mut work: Vec<_> = lasting.collect();
        if plan.key.is_multiple_of(6) {
            work.extend([
                Work::For(LONG),
                Work::Extend {
                    step: plan.asks[0],
                    ttl: None,
                    require_unexpired: false,
                    copies: 1,
                },
            ]);
        }
        let plan = Section {
            work,
            ..plan.clone()
        };
        self.hold(caller, &plan, vec![handle], since, Shape::Mutex)
            .await;
    }

    async fn past_the_line(&self, caller: &Caller<'_>, plan: &Section, key: &str) {
        let wanted = Wanted::by(plan, vec![key.to_owned()], Shape::Mutex);
        let begin = self.context.watch.now();
        if let Some((handles, since)) = self.ask_until_granted(caller, plan, &wanted).await {
            let token = Some(handles[0].token);
            self.hold(caller, plan, handles, since, Shape::Mutex).await;
            self.context.history().waits.push(Wait {
                key: key.to_owned(),
                begin,
                queued: None,
                token,
                answered: true,
                by: format!("{}{} past the queue", caller.mark, caller.holder),
            });
        }
    }
}

/// Listens for as long as planned.
async fn listen(plan: &Section, waiting: &mut Receiver<StepFunctionsCall>) -> Heard {
    let patience = plan
        .gives_up
        .map_or(LISTENS, |(millis, _)| Duration::from_millis(millis));
    match (
        tokio::time::timeout(patience, &mut *waiting).await,
        plan.gives_up,
    ) {
        (Ok(Ok(call)), _) => Heard::Call(call),
        (Ok(Err(_)), _) => Heard::Forgotten,
        (Err(_), Some((_, goes_on))) => give_up(waiting, goes_on),
        (Err(_), None) => Heard::Nothing,
    }
}

/// The task times out, or its execution dies; unless it was answered at the last moment.
fn give_up(waiting: &mut Receiver<StepFunctionsCall>, goes_on: bool) -> Heard {
    waiting.close();
    match waiting.try_recv() {
        Ok(call) => Heard::Call(call),
        Err(_) if goes_on => Heard::TimedOut,
        Err(_) => Heard::Died,
    }
}

/// Whether it is in the queue or has the lease, and when it knew that it was in the queue.
async fn join(
    caller: &Caller<'_>,
    plan: &Section,
    key: &str,
    token: &str,
) -> (bool, Option<Micros>) {
    let payload = json!({
        "key": key,
        "holder": caller.holder,
        "request_id": format!("section-{}", plan.number),
        "metadata": {"mark": caller.mark},
        "task_token": token,
        "wait_seconds": WAIT_SECONDS,
    });
    for step in &plan.asks {
        let reply = caller.call("acquire", *step, &payload, &caller.mark).await;
        match &reply.answer {
            Answer::Well(answer) if answer["outcome"] == "queued" => {
                return (true, Some(reply.end));
            }
            Answer::Well(_) => return (true, None),
            Answer::Error(name, _) => {
                if !["Lease.Consumed", "Lease.QueueFull"].contains(&name.as_str()) {
                    caller.unexpected(&format!("acquire in the queue: {name}"));
                }
                return (false, None);
            }
            Answer::Unknown => match plan.restart_policy {
                RestartPolicy::AtOnce => {}
                RestartPolicy::After(millis) => sleep_ms(millis).await,
                RestartPolicy::Never => return (false, None),
            },
        }
    }
    (false, None)
}

/// As long as task tokens are, and like no other.
fn secret(seed: u64, round: u64, client: u64, section: u64) -> String {
    let rng = &mut seeded(seed, &[round, client, section, 0xde5c]);
    let numbers: Vec<_> = (0..12).map(|_| rng.u64(..).to_string()).collect();
    numbers.join("-")
}
