//! Those in line who have not been told anything for long. Whether they ever are is judged by the sweeps that came to their
//! end since, not by the time, which is up to the machine.

use std::sync::atomic::Ordering;

use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use crate::book::Wait;
use crate::scene::Scene;
use crate::watch::rest;
use crate::world::Word;

/// The first sweep sends away all whose time is over; the others are for what went wrong with it.
const SWEEPS_TO_TELL: u64 = 20;

/// Who waits, and where it would hear.
pub type Unheard = (Wait, Receiver<Word>);

/// L4: listens once more, now that all is over, until everybody has been told something or enough sweeps have come to
/// their end. Dropped, it leaves those who were not told by then in the book.
pub async fn hear_out(scene: &Scene) {
    let enough = scene.swept.load(Ordering::Acquire) + SWEEPS_TO_TELL;
    while listens(scene, scene.swept.load(Ordering::Acquire) >= enough) {
        rest(100).await;
    }
}

/// Listens for the last time or not; whether anybody still waits.
fn listens(scene: &Scene, last: bool) -> bool {
    let mut book = scene.book();
    let (unheard, waits) = hear(std::mem::take(&mut book.unheard), last);
    book.late += waits.iter().filter(|wait| wait.answered).count() as u64;
    book.waits.extend(waits);
    book.unheard = unheard;
    !book.unheard.is_empty()
}

/// Who still waits, and what became of the others; of all of them, at the last time.
fn hear(unheard: Vec<Unheard>, last: bool) -> (Vec<Unheard>, Vec<Wait>) {
    let (mut still, mut waits) = (Vec::new(), Vec::new());
    for (mut wait, mut waiting) in unheard {
        match waiting.try_recv() {
            Err(TryRecvError::Empty) if !last => still.push((wait, waiting)),
            told => {
                wait.answered = told.is_ok();
                waits.push(wait);
            }
        }
    }
    (still, waits)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::{Unheard, Wait, Word, hear};

    fn waits() -> (oneshot::Sender<Word>, Unheard) {
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
    fn one_who_is_told_late_is_told_and_one_who_never_is_waits_in_vain() {
        let ((tells, late), (_keeps, never)) = (waits(), waits());
        let (unheard, heard) = hear(vec![late, never], false);
        assert_eq!((unheard.len(), heard.len()), (2, 0));
        let word = Word::Failure("Lease.QueueTimeout".to_owned());
        assert!(tells.send(word).is_ok());
        let (unheard, heard) = hear(unheard, false);
        assert_eq!(unheard.len(), 1);
        assert!(heard[0].answered);
        let (unheard, heard) = hear(unheard, true);
        assert!(unheard.is_empty());
        assert!(!heard[0].answered);
    }
}
