//! An execution that was started through a key: it takes its time, proves its lease, and ends.

use fastrand::Rng;

use super::starter::{POOL, WAYS, pool};
use super::{sweeper, waiter};
use crate::call::{all_of, json, place};
use crate::plan::{Step, choose, percent};
use crate::promises::What;
use crate::round::Round;
use crate::watch::sleep_ms;

/// What is drawn for it.
pub(super) struct Execution {
    who: String,
    /// For how many milliseconds.
    works: u64,
    /// It proves its lease with its handle.
    proofs: Vec<Step>,
    status: &'static str,
    /// Whether its history tells that nothing of it is at work after its end.
    is_at_rest: bool,
    told_of: Vec<Step>,
}

impl Execution {
    pub(super) fn draw(rng: &mut Rng, who: &str, has_handle: bool) -> Self {
        let longest = choose(rng, &[100, 300, 1500]);
        // What fails after a proof may have been redriven, for all that anybody knows for half a minute.
        let may_fail = !has_handle && percent(rng, 25);
        let proofs = if has_handle { rng.u64(1..=2) } else { 0 };
        Self {
            who: who.to_owned(),
            works: rng.u64(20..=longest),
            proofs: (0..proofs).map(|_| Step::draw(rng, 300)).collect(),
            status: if may_fail { "FAILED" } else { "SUCCEEDED" },
            is_at_rest: has_handle || percent(rng, 75),
            told_of: sweeper::calls(rng),
        }
    }

    /// It ends, unless it was stopped before.
    pub(super) async fn run(&self, round: &Round) {
        let (who, service) = (&self.who, &round.world.step_functions);
        if self.is_at_rest {
            service.has_received(who, "{}");
        }
        sleep_ms(self.works).await;
        if !self.proofs.is_empty() {
            let input = json(&service.input_of(who).unwrap_or_default());
            if let Some(handle) = round.handle(who, &input["leasehold"]["lease"]) {
                for step in &self.proofs {
                    round.extend(who, &handle, *step, None).await;
                }
            }
        }
        let is_running = service.is_running(who);
        let status = if is_running { self.status } else { "ABORTED" };
        service.end(who, status);
        sweeper::tell(round, who, status, &self.told_of).await;
    }
}

/// Writes down what Step Functions has run, whoever asked for it.
pub fn see_runs(round: &Round) {
    for run in round.world.step_functions.runs() {
        let (_, name) = run.execution.rsplit_once("-start-").expect("a start");
        let (number, _) = name.split_once('-').expect("a way");
        let number: usize = number.parse().expect("a number");
        let (way, key) = (
            WAYS[number],
            format!("round-{}/start-{number}", round.number),
        );
        let mut input = json(&run.input);
        let passed = input["leasehold"].take();
        input.as_object_mut().expect("it").remove("leasehold");
        let lease = if way.has_handle {
            &passed["lease"]
        } else {
            &passed
        };
        let token = lease["fencing_token"].as_u64().unwrap_or(0);
        let permit = place(&key, lease["permit"].as_u64().unwrap_or(0));
        let (who, from) = (&run.execution, round.watch.shown(run.from));
        round.see(from, &key, who, What::Began(input.to_string()));
        let (request, asked) = (who.clone(), round.asked(who));
        let granted = What::Granted {
            token,
            request,
            asked,
        };
        round.see(from, &permit, who, granted);
        let mut rooms = vec![(permit, 1)];
        rooms.extend((way.permits > 1).then(|| (all_of(&key), way.permits)));
        rooms.extend(way.in_pool.then(|| (pool(round), POOL)));
        for (place, room) in &rooms {
            let (room, until) = (*room, None);
            round.see(from, place, who, What::Entered { token, room, until });
        }
        let Some(until) = run.until.map(|until| round.watch.shown(until)) else {
            continue;
        };
        round.see(until, &key, who, What::Ended(run.status));
        let is_at_rest = run.status == "SUCCEEDED" || run.is_answered;
        let left = until + if is_at_rest { 0 } else { waiter::rest() };
        for (place, _) in &rooms {
            round.see(left, place, who, What::Left { token });
        }
    }
}
