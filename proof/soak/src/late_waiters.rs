//! Waiters that have been in a queue for long without an answer. The judgement depends on the number of sweeps that have finished
//! since, not on the time, which depends on the machine.

use std::sync::atomic::Ordering;

use leasehold_proof::fake_step_functions::StepFunctionsCall;
use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use crate::context::Context;
use crate::history::Wait;
use crate::watch::sleep_ms;

/// The first sweep dismisses all waiters whose time has ended; the others allow for faults of the first.
pub const SWEEPS_TO_TELL: u64 = 20;

/// The waiter, and where its answer would arrive.
#[derive(Debug)]
pub struct PendingWait {
    /// The waiter.
    pub wait: Wait,
    /// Its execution, which ends when it is answered: nobody works any more.
    pub execution: String,
    /// The other end of its task token.
    pub waiting: Receiver<StepFunctionsCall>,
}

/// L4: listens once more, now that all is over, until everybody has an answer or enough sweeps have come to
/// their end. Dropped, it leaves those who had none by then in the history.
pub async fn wait_for_answers(context: &Context) {
    let enough = context.swept.load(Ordering::Acquire) + SWEEPS_TO_TELL;
    while listens(context, context.swept.load(Ordering::Acquire) >= enough) {
        sleep_ms(100).await;
    }
}

/// Listens for the last time or not; whether anybody still waits.
fn listens(context: &Context, last: bool) -> bool {
    let mut history = context.history();
    let (pending, waits) = hear(context, std::mem::take(&mut history.pending), last);
    history.late += waits.iter().filter(|wait| wait.answered).count() as u64;
    history.waits.extend(waits);
    history.pending = pending;
    !history.pending.is_empty()
}

/// Who still waits, and what became of the others; of all of them, at the last time.
fn hear(context: &Context, pending: Vec<PendingWait>, last: bool) -> (Vec<PendingWait>, Vec<Wait>) {
    let (mut still, mut waits) = (Vec::new(), Vec::new());
    for mut one in pending {
        match one.waiting.try_recv() {
            Err(TryRecvError::Empty) if !last => still.push(one),
            answer => {
                one.wait.answered = answer.is_ok();
                context.fixture.step_functions.end(&one.execution, "FAILED");
                waits.push(one.wait);
            }
        }
    }
    (still, waits)
}
