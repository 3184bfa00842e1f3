//! Those in line who have waited long without an answer. Whether they ever get one is judged by the sweeps that came to their
//! end since, not by the time, which is up to the machine.

use std::sync::atomic::Ordering;

use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use crate::context::Context;
use crate::fixture::TaskResult;
use crate::history::Wait;
use crate::watch::sleep_ms;

/// The first sweep sends away all whose time is over; the others are for what went wrong with it.
const SWEEPS_TO_TELL: u64 = 20;

/// Who waits, and where it would hear.
pub type PendingWait = (Wait, Receiver<TaskResult>);

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
    let (pending, waits) = hear(std::mem::take(&mut history.pending), last);
    history.late += waits.iter().filter(|wait| wait.answered).count() as u64;
    history.waits.extend(waits);
    history.pending = pending;
    !history.pending.is_empty()
}

/// Who still waits, and what became of the others; of all of them, at the last time.
fn hear(pending: Vec<PendingWait>, last: bool) -> (Vec<PendingWait>, Vec<Wait>) {
    let (mut still, mut waits) = (Vec::new(), Vec::new());
    for (mut wait, mut waiting) in pending {
        match waiting.try_recv() {
            Err(TryRecvError::Empty) if !last => still.push((wait, waiting)),
            answer => {
                wait.answered = answer.is_ok();
                waits.push(wait);
            }
        }
    }
    (still, waits)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::{PendingWait, TaskResult, Wait, hear};

    fn waits() -> (oneshot::Sender<TaskResult>, PendingWait) {
        let (sender, receiver) = oneshot::channel();
        let wait = Wait {
            key: "k".to_owned(),
            begin: 0,
            queued: Some(1),
            token: None,
            answered: false,
            by: "a".to_owned(),
        };
        (sender, (wait, receiver))
    }

    #[test]
    fn one_who_is_answered_late_is_answered_and_one_who_never_is_waits_in_vain() {
        let ((tells, late), (_keeps, never)) = (waits(), waits());
        let (pending, heard) = hear(vec![late, never], false);
        assert_eq!((pending.len(), heard.len()), (2, 0));
        let word = TaskResult::Failure("Lease.QueueTimeout".to_owned());
        assert!(tells.send(word).is_ok());
        let (pending, heard) = hear(pending, false);
        assert_eq!(pending.len(), 1);
        assert!(heard[0].answered);
        let (pending, heard) = hear(pending, true);
        assert!(pending.is_empty());
        assert!(!heard[0].answered);
    }
}
