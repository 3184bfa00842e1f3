//! Who starts executions through keys, again and again as queues deliver.

use std::sync::Arc;

use fastrand::Rng;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::execution::Execution;
use super::task::Task;
use super::{execution_arn, keys};
use crate::call::{self, Reply, all_of};
use crate::plan::{Step, choose, percent, seeded};
use crate::promises::{Answer, At, What};
use crate::round::Round;
use crate::watch::sleep_ms;
use crate::world::{FLEETS, MACHINE};

/// How executions are started through one key.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// What the starts do while somebody else has the key.
    if_held: &'static [&'static str],
    /// How many of them may run at once.
    pub(super) permits: usize,
    /// Some wait for a second, and no longer.
    gives_up: bool,
    /// They are passed the handle of their lease, and prove it.
    pub(super) has_handle: bool,
    /// They need a permit of the round's pool besides.
    pub(super) in_pool: bool,
}

/// One for each key.
#[rustfmt::skip]
pub(super) const WAYS: [Way; 7] = [
    Way { if_held: &["wait"], permits: 1, gives_up: false, has_handle: false, in_pool: false },
    Way { if_held: &["wait"], permits: 1, gives_up: false, has_handle: true, in_pool: false },
    Way { if_held: &["wait", "skip"], permits: 3, gives_up: false, has_handle: false, in_pool: false },
    Way { if_held: &["wait", "skip", "fail"], permits: 1, gives_up: true, has_handle: false, in_pool: false },
    Way { if_held: &["wait"], permits: 1, gives_up: false, has_handle: false, in_pool: true },
    Way { if_held: &["wait"], permits: 1, gives_up: false, has_handle: true, in_pool: true },
    Way { if_held: &["wait"], permits: 3, gives_up: false, has_handle: false, in_pool: true },
];

/// How many of the round may have a permit of its pool at once.
pub(super) const POOL: usize = 2;
/// As many of a key are open at once, so that all have had their turn soon after the round.
const OPEN: usize = 4;
/// How long after an answer whoever may have been sent away asks again.
const ASKED_AGAIN: At = 3_000_000;
/// How often a call of unknown outcome is repeated.
const REPEATED: usize = 12;

/// One start, with everything that is drawn for it.
struct Start<'a> {
    round: &'a Round,
    way: Way,
    key: String,
    name: String,
    /// Its execution.
    who: String,
    request: Value,
    if_held: &'static str,
    gives_up: bool,
    calls: Vec<Step>,
    /// Somebody asks for another input by the same name.
    has_rival: bool,
    task: Option<Task>,
    execution: Execution,
}

/// Start after start through one key, until the round is over and each has had its turn.
pub(super) async fn live(round: Arc<Round>, way: usize) {
    let mut open = JoinSet::new();
    let mut count = 0;
    while !round.is_over() {
        let purpose = [round.number, 0x57a7, way as u64, count];
        let mut rng = seeded(round.seed, &purpose);
        sleep_ms(rng.u64(100..=600)).await;
        while open.try_join_next().is_some() {}
        if open.len() < OPEN {
            let round = Arc::clone(&round);
            open.spawn(async move { Start::draw(&mut rng, &round, way, count).play().await });
            count += 1;
        }
    }
    open.join_all().await;
}

impl<'a> Start<'a> {
    fn draw(rng: &mut Rng, round: &'a Round, number: usize, count: u64) -> Self {
        let way = WAYS[number];
        let name = format!("r{}-start-{number}-{count}", round.number);
        let own = format!("/start-{number}");
        let mut keys = keys(round.number).into_iter().map(|(key, _)| key);
        let key = keys.find(|key| key.ends_with(&own)).expect("its key");
        let if_held = choose(rng, way.if_held);
        let gives_up = way.gives_up && if_held == "wait" && rng.bool();
        // What is refused is the answer of the call alone.
        let has_task = if_held != "fail" && percent(rng, 35);
        let who = execution_arn("started", &name);
        let task = has_task.then(|| Task::draw(rng, &name, way.has_handle));
        let (pool, pass) = (
            pool(round),
            if way.has_handle {
                json!("handle")
            } else {
                json!(true)
            },
        );
        let request = json!({
            "key": key,
            "state_machine_arn": MACHINE,
            "name": name,
            "input": {"name": name},
            "if_held": if_held,
            "pass_lease": pass,
            "permits": way.permits,
            "pool": way.in_pool.then(|| json!({"name": pool, "permits": POOL})),
            "wait_seconds": gives_up.then_some(1),
            "task_token": task.as_ref().map(|task| &task.token),
            "stop_with_caller": task.is_some(),
            "caller": task.as_ref().map(|task| &task.caller),
        });
        let copies = choose(rng, &[1, 1, 1, 2]);
        Self {
            round,
            way,
            key,
            name,
            request,
            if_held,
            gives_up,
            calls: (0..copies).map(|_| Step::draw(rng, 200)).collect(),
            has_rival: percent(rng, 20),
            task,
            execution: Execution::draw(rng, &who, way.has_handle),
            who,
        }
    }

    fn see(&self, at: At, what: What) {
        self.round.see(at, &self.key, &self.who, what);
    }

    async fn play(&self) {
        let round = self.round;
        let asked = What::Asked(self.request["input"].to_string());
        self.see(round.now(), asked);
        let waiting = self.task.as_ref().map(|task| task.wait(round, &self.key));
        let told = async {
            if let (Some(task), Some(waiting)) = (&self.task, waiting) {
                task.listen(round, &self.key, waiting).await;
            }
        };
        tokio::join!(told, self.start());
    }

    async fn start(&self) {
        let (round, service) = (self.round, &self.round.world.step_functions);
        let has_begun = || service.input_of(&self.who).is_some();
        let calls = self.calls.iter().map(|step| self.deliver(*step));
        let mut heard = join_all(calls).await.into_iter().flatten().last();
        let mut asked = round.now();
        while matches!(heard, None | Some(Answer::Started | Answer::Queued)) && !has_begun() {
            // What was accepted, and does not give up, begins without another call.
            let waits = heard.is_some() && self.if_held == "wait" && !self.gives_up;
            let is_certain = waits && !self.may_be_stopped();
            if !is_certain && round.now() > asked + ASKED_AGAIN {
                heard = self.deliver(Step::CLEAN).await.or(heard);
                asked = round.now();
            }
            if round.patience_is_over() {
                return;
            }
            sleep_ms(30).await;
        }
        if has_begun() {
            self.execution.run(round).await;
        }
        if heard != Some(Answer::Refused) {
            self.come_late().await;
        }
    }

    fn may_be_stopped(&self) -> bool {
        let task = self.task.as_ref();
        task.is_some_and(|task| task.ends_after.is_some())
    }

    /// Calls until somebody answers: the first time with the fault of the step, then by the other fleets.
    async fn deliver(&self, first: Step) -> Option<Answer> {
        for repeated in 0..REPEATED {
            let again = Step {
                fleet: (first.fleet + repeated) % FLEETS.len(),
                fault: None,
                after: 50,
            };
            let step = if repeated == 0 { first } else { again };
            let reply = self.call(step, &self.request).await;
            let Some(answer) = self.answer(&reply) else {
                continue;
            };
            let (asked, at) = (reply.begin, reply.end);
            self.see(at, What::Heard { asked, answer });
            match answer {
                Answer::Queued if self.way.permits == 1 => self.see(at, What::Queued),
                // Permits are granted in no order.
                Answer::Queued => {
                    let place = all_of(&self.key);
                    self.round.see(at, &place, &self.who, What::Queued);
                }
                Answer::Skipped | Answer::Failed => self.see(at, What::GaveUp),
                Answer::Started | Answer::Refused => {}
            }
            return Some(answer);
        }
        None
    }

    async fn call(&self, step: Step, request: &Value) -> Reply {
        // Nothing but this start has it in its requests.
        let text = format!("{}\"", self.name);
        let round = self.round;
        round.call(&self.who, "start", step, request, &text).await
    }

    fn answer(&self, reply: &Reply) -> Option<Answer> {
        let may_skip = self.if_held == "skip" || self.may_be_stopped();
        match &reply.answer {
            call::Answer::Well(answer) if answer["execution_arn"] == self.who.as_str() => {
                match answer["outcome"].as_str() {
                    Some("started") => return Some(Answer::Started),
                    Some("queued") => return Some(Answer::Queued),
                    Some("skipped") if may_skip => return Some(Answer::Skipped),
                    _ => {}
                }
            }
            call::Answer::Error(name, said) => match name.as_str() {
                "Lease.Held" if self.if_held == "fail" => return Some(Answer::Refused),
                // Whose turn comes by its own call after its caller has ended hears so; every other call, that it is skipped.
                "Lease.NotStarted"
                    if self.may_be_stopped() && said.to_string().contains("caller has ended") =>
                {
                    return Some(Answer::Skipped);
                }
                "Lease.NotStarted" if self.gives_up => return Some(Answer::Failed),
                _ => {}
            },
            _ => {}
        }
        self.round.unknown(&self.who, "start", &reply.answer, None)
    }

    /// The same request once more, as a queue delivers late; and another by the same name, which is refused.
    async fn come_late(&self) {
        let is_accepted = self.deliver(Step::CLEAN).await.is_some();
        if self.has_rival && is_accepted {
            let mut rival = self.request.clone();
            rival["input"] = json!({"name": "another"});
            let reply = self.call(Step::CLEAN, &rival).await;
            if let call::Answer::Well(answer) = reply.answer {
                let what = format!("for another input: {answer}");
                self.round.unexpected(&self.who, what);
            }
        }
    }
}

/// The name of the pool of the round.
pub(super) fn pool(round: &Round) -> String {
    format!("round-{}/pool", round.number)
}
