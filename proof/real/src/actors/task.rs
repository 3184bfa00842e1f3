//! A task that waits for the result of a start. Its own execution waits for nothing else, and ends when it is told, or before.

use fastrand::Rng;
use leasehold_proof::fake_step_functions::StepFunctionsCall;
use tokio::sync::oneshot::Receiver;

use super::{execution_arn, listen};
use crate::call::json;
use crate::plan::percent;
use crate::promises::{Told, What};
use crate::round::Round;

/// A task that waits for the result.
pub(super) struct Task {
    /// The execution that it waits for.
    start: String,
    /// Its own.
    pub(super) caller: String,
    pub(super) token: String,
    /// Its own ends after so many milliseconds, whatever has become of the start.
    pub(super) ends_after: Option<u64>,
}

impl Task {
    pub(super) fn draw(rng: &mut Rng, name: &str, has_handle: bool) -> Self {
        // An execution that proves its lease is not stopped before its proof.
        let ends = !has_handle && percent(rng, 20);
        let start = execution_arn("started", name);
        Self {
            caller: execution_arn("waits-for-a-result", name),
            start,
            token: format!("the task that waits for {name}"),
            ends_after: ends.then(|| rng.u64(200..=3000)),
        }
    }

    /// It waits from here on.
    pub(super) fn wait(&self, round: &Round, key: &str) -> Receiver<StepFunctionsCall> {
        round.see(round.now(), "", &self.token, What::Secret);
        round.see(round.now(), key, &self.start, What::Waits);
        let service = &round.world.step_functions;
        service.wait(&self.caller, &self.token)
    }

    /// Until it is told, or its execution ends.
    pub(super) async fn listen(
        &self,
        round: &Round,
        key: &str,
        mut waiting: Receiver<StepFunctionsCall>,
    ) {
        let ends_at = self.ends_after.map(|after| round.now() + after * 1000);
        let told = listen(round, &mut waiting, ends_at).await;
        let see = |what| round.see(round.now(), key, &self.start, what);
        let mut status = "SUCCEEDED";
        if let Some(call) = told {
            see(What::Told(told_by(&call)));
        } else if ends_at.is_some() {
            see(What::CallerEnded);
            see(What::GaveUp);
            status = "FAILED";
        }
        round.world.step_functions.end(&self.caller, status);
    }
}

fn told_by(call: &StepFunctionsCall) -> Told {
    if call.operation != "SendTaskSuccess" {
        let error = call.body["error"].as_str().unwrap_or_default();
        return Told::Error(error.to_owned());
    }
    if json(call.output())["leasehold"]["outcome"] == "skipped" {
        Told::Skipped
    } else {
        Told::Output
    }
}
