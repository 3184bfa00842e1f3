//! A section in a queue: waiting for a turn with a task token, and confirming it.

use std::time::Duration;

use serde_json::{Value, json};

use super::asking::Wanted;
use super::holding::{Extended, extend};
use super::{Client, Shape};
use crate::calls::{Answer, Caller, Handle, seconds};
use crate::history::Micros;
use crate::history::Wait;
use crate::plan::{End, RestartPolicy, Section, Step, Work};
use crate::rng::seeded;
use crate::watch::sleep_ms;

/// How long a waiter stays in the queue.
const WAIT_SECONDS: u64 = 6;
/// How long it listens before it does something else. By then it has its answer, whatever went wrong once, unless the
/// machine is busy: whether it gets one at all is seen when the round is over.
const LISTENS: Duration = Duration::from_secs(30);

impl Client<'_> {
    pub(super) async fn run_in_queue(&self, caller: &Caller<'_>, plan: &Section) {
        let key = &plan.pick(&self.context.keys.lines);
        // Some do not wait, and must not overtake the waiters.
        if plan.hot {
            return self.past_the_line(caller, plan, key).await;
        }
        let token = secret(
            self.context.seed,
            self.context.round,
            self.number,
            plan.number,
        );
        self.context.history().secrets.insert(token.clone());
        let mut waiting = self.context.fixture.step_functions.wait(&token);
        let begin = self.context.watch.now();
        let (joined, queued) = self.join(caller, plan, key, &token).await;
        let mut wait = Wait {
            key: key.clone(),
            begin,
            queued,
            token: None,
            answered: true,
            by: format!("{}{}", caller.mark, caller.holder),
        };
        if joined {
            match tokio::time::timeout(LISTENS, &mut waiting).await {
                Ok(Ok(call)) if call.operation == "SendTaskSuccess" => {
                    let output: Value = serde_json::from_str(call.output()).unwrap_or_default();
                    if let Some(handle) = caller.handle(&output["lease"]) {
                        if handle.place.key != *key {
                            caller.unexpected(&format!("{} for {key}", handle.place));
                        }
                        wait.token = self.serve(caller, plan, handle).await;
                    }
                }
                Ok(Ok(call)) => {
                    if call.body["error"] != "Lease.QueueTimeout" {
                        caller.unexpected(&format!("answered in line: {}", call.body["error"]));
                    }
                }
                Ok(Err(_)) => wait.answered = false,
                Err(_) => {
                    self.context.history().pending.push((wait, waiting));
                    return;
                }
            }
        }
        self.context.history().waits.push(wait);
    }

    /// Whether it is in the queue or has the lease, and when it knew that it was in the queue.
    async fn join(
        &self,
        caller: &Caller<'_>,
        plan: &Section,
        key: &str,
        token: &str,
    ) -> (bool, Option<Micros>) {
        let payload = json!({
            "key": key,
            "holder": caller.holder,
            "request_id": format!("section-{}", plan.number),
            "ttl_seconds": seconds(plan.ttl),
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
                        caller.unexpected(&format!("acquire in line: {name}"));
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

    /// Confirms, works, and hands over. The token, if it was confirmed.
    async fn serve(&self, caller: &Caller<'_>, plan: &Section, handle: Handle) -> Option<u64> {
        // Some never come, others die as holders.
        if matches!(plan.end, End::Crash) && plan.key.is_multiple_of(2) {
            return None;
        }
        let mut confirmed = None;
        for step in plan.asks.iter().take(3) {
            let step = Step {
                after: step.after / 10,
                ..*step
            };
            match extend(caller, &handle, step, None, false).await {
                Extended::Yes(longer) => {
                    confirmed = Some((*longer, self.context.watch.now()));
                    break;
                }
                Extended::Lost(_) => return None,
                Extended::No => {}
            }
        }
        let (handle, since) = confirmed?;
        let token = handle.token;
        let short = Section {
            work: plan
                .work
                .iter()
                .filter(|work| matches!(work, Work::For(_) | Work::Extend { .. }))
                .copied()
                .collect(),
            ..plan.clone()
        };
        self.hold(caller, &short, vec![handle], since, Shape::Mutex)
            .await;
        Some(token)
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
                by: format!("{}{} past the line", caller.mark, caller.holder),
            });
        }
    }
}

/// As long as task tokens are, and like no other.
fn secret(seed: u64, round: u64, client: u64, section: u64) -> String {
    let rng = &mut seeded(seed, &[round, client, section, 0xde5c]);
    let numbers: Vec<_> = (0..12).map(|_| rng.u64(..).to_string()).collect();
    numbers.join("-")
}
