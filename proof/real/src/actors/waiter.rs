//! Who waits with a task token: an execution joins the queue, holds the key while it runs, and ends; or dies, or its task times out,
//! after which it runs on without the lease.

use std::sync::Arc;

use fastrand::Rng;
use serde_json::json;

use super::{execution_arn, listen, of_kinds, sweeper};
use crate::call::{self, Answer, Handle};
use crate::plan::{Step, choose, percent, seeded};
use crate::promises::{At, What};
use crate::round::Round;
use crate::watch::{BLUR, sleep_ms};
use crate::world::{GRACE, SKEW};

/// How long a waiter stays in the queue.
const WAIT_SECONDS: u64 = 6;
/// How long some hold, in milliseconds: longer than looks that are mistaken take to end a lease.
const LONG: u64 = 4_000;

/// One who waits.
struct Waiter<'a> {
    round: &'a Round,
    /// Its execution.
    who: String,
    key: String,
    token: String,
    asks: Vec<Step>,
    /// How long it is away when nobody answers, in milliseconds; none if for good.
    comes_back: Option<u64>,
    /// After how many milliseconds its task times out.
    gives_up: Option<u64>,
    /// Whether its execution runs on then.
    goes_on: bool,
    /// How long it works before each proof of its lease.
    work: Vec<Step>,
    /// Releases at its end; or it dies, after a silence.
    releases: Option<Step>,
    /// In milliseconds. One that dies soon after a write may have been redriven, for all that anybody knows for half a minute.
    silence: u64,
    /// How it dies.
    status: &'static str,
    told_of: Vec<Step>,
}

/// Waiter after waiter, until the round is over.
pub(super) async fn live(round: Arc<Round>, client: u64) {
    let mut number = 0;
    while !round.is_over() {
        let rng = &mut seeded(round.seed, &[round.number, client, number]);
        let name = format!("r{}-c{client}-s{number}", round.number);
        let waiter = Waiter::draw(rng, &round, execution_arn("waits", &name));
        waiter.play().await;
        number += 1;
    }
}

impl<'a> Waiter<'a> {
    fn draw(rng: &mut Rng, round: &'a Round, who: String) -> Self {
        let token: Vec<_> = (0..12).map(|_| rng.u64(..).to_string()).collect();
        let mut work: Vec<_> = (0..rng.u64(..3)).map(|_| Step::draw(rng, 120)).collect();
        let (after, last) = (LONG, Step::CLEAN);
        work.extend(percent(rng, 25).then_some(Step { after, ..last }));
        Self {
            round,
            who,
            key: choose(rng, &of_kinds(round, &["queue"])).0,
            token: token.join("-"),
            asks: (0..12).map(|_| Step::draw(rng, 450)).collect(),
            comes_back: choose(rng, &[Some(0), Some(0), Some(0), Some(1000), None]),
            gives_up: percent(rng, 25).then(|| rng.u64(..1500)),
            goes_on: rng.bool(),
            work,
            releases: percent(rng, 88).then(|| Step::draw(rng, 20)),
            silence: if percent(rng, 10) {
                0
            } else {
                rng.u64(1000..=2000)
            },
            status: choose(rng, &["FAILED", "ABORTED"]),
            told_of: sweeper::calls(rng),
        }
    }

    fn see(&self, what: What) {
        self.round.see(self.round.now(), &self.key, &self.who, what);
    }

    async fn play(&self) {
        let (round, who) = (self.round, &self.who);
        let step_functions = &round.world.step_functions;
        round.see(round.now(), "", &self.token, What::Secret);
        let mut waiting = step_functions.wait(who, &self.token);
        let asked = round.now();
        // Who knows that it is not in the queue, or nothing, does not listen.
        let gives_up = if self.joins().await {
            self.gives_up
        } else {
            Some(0)
        };
        let until = gives_up.map(|millis| round.now() + millis * 1000);
        let heard = listen(round, &mut waiting, until).await;
        if heard.is_none() && until.is_some() {
            self.see(What::GaveUp);
        }
        match heard {
            Some(call) if call.operation == "SendTaskSuccess" => {
                let output = call::json(call.output());
                if let Some(handle) = round.handle(who, &output["lease"]) {
                    return self.serve(&handle, asked).await;
                }
            }
            Some(call) => {
                self.see(What::GaveUp);
                let error = call.body["error"].as_str().unwrap_or_default();
                // The others if an operator took the lease before anybody had told of it.
                if !["Lease.QueueTimeout", "Lease.Consumed", "Lease.Lost"].contains(&error) {
                    round.unexpected(who, format!("in the queue: {error}"));
                }
            }
            None if self.goes_on => return,
            None => {}
        }
        step_functions.end(who, "SUCCEEDED");
    }

    /// Whether it is in the queue, or has the lease.
    async fn joins(&self) -> bool {
        let (round, who) = (self.round, &self.who);
        let payload = json!({
            "key": self.key,
            "holder": who,
            "request_id": who,
            "task_token": self.token,
            "wait_seconds": WAIT_SECONDS,
        });
        let text = format!("{who}\"");
        for step in &self.asks {
            match round
                .call(who, "acquire", *step, &payload, &text)
                .await
                .answer
            {
                Answer::Well(answer) => {
                    if answer["outcome"] == "queued" {
                        self.see(What::Queued);
                    }
                    return true;
                }
                Answer::Error(name, _) if name == "Lease.Consumed" => return false,
                answer => round.unknown(who, "acquire", &answer, ()),
            }
            match self.comes_back {
                Some(millis) => sleep_ms(millis).await,
                None => return false,
            }
        }
        false
    }

    /// Works, and ends.
    async fn serve(&self, handle: &Handle, asked: At) {
        let (round, who) = (self.round, &self.who);
        if handle.key != self.key || handle.deadline.is_some() {
            round.unexpected(who, format!("with {} for {}", handle.raw, self.key));
        }
        let (token, request) = (handle.token, who.clone());
        self.see(What::Granted {
            token,
            request,
            asked,
        });
        round.enters(round.now(), who, handle, 1, None);
        for step in &self.work {
            round.extend(who, handle, *step, None).await;
        }
        let step_functions = &round.world.step_functions;
        if let Some(step) = self.releases {
            round.leaves(round.now(), who, handle);
            round.release(who, handle, step).await;
            return step_functions.end(who, "SUCCEEDED");
        }
        sleep_ms(self.silence).await;
        round.leaves(round.now() + rest(), who, handle);
        step_functions.end(who, self.status);
        sweeper::tell(round, who, self.status, &self.told_of).await;
    }
}

/// How long after its end something of an execution may be at work. The look that finds it over, and the one that ends the lease, may
/// be by clocks that differ.
pub(super) fn rest() -> At {
    At::try_from(GRACE - SKEW - BLUR).unwrap_or(0) * 1000
}
