//! What requests to the table do, and their answers as text.

use std::{fmt::Write as _, time::Duration};

use futures_util::FutureExt as _;
use leasehold::{
    Memory,
    row::{Item as Stored, Row},
    store::{Address, ScanSegment, Store as _},
};

use super::{
    names,
    seam::{Answer, Ask},
};

/// What a request does to the table, and what it is answered.
pub fn performed(memory: &Memory, ask: &Ask) -> Answer {
    let limit = Duration::MAX;
    let key = names::key();
    let at = |permit: &u16| Address {
        key: key.clone(),
        permit: *permit,
    };
    let segment = ScanSegment {
        segment: 0,
        total: 1,
    };
    match ask {
        Ask::Apply(permit, change) => {
            at_once(memory.apply(&at(permit), change, limit)).map(Answer::Applied)
        }
        Ask::ApplyAll(changes) => {
            let changes = changes
                .iter()
                .map(|(permit, change)| (at(permit), change.clone()));
            let changes: Vec<_> = changes.collect();
            at_once(memory.apply_all(&changes, limit)).map(Answer::AppliedAll)
        }
        Ask::Read(permit) => at_once(memory.read(&at(permit), limit)).map(Answer::Stored),
        Ask::ReadKey => at_once(memory.read_key(&key, limit)).map(Answer::Rows),
        Ask::Join(join, item) => {
            at_once(memory.join(&key, join, &item.0, limit)).map(Answer::Joined)
        }
        Ask::Waiter(request) => at_once(memory.waiter(&key, request, limit)).map(Answer::Waiter),
        Ask::NewToken(item) => at_once(memory.update_task_token(&key, &item.0, limit))
            .map(|waiter| Answer::Waiter(Some(waiter))),
        Ask::Delete(item) => {
            at_once(memory.delete_waiter(&key, &item.0, limit)).map(|()| Answer::Done)
        }
        Ask::Supersede(item, by, leave) => {
            at_once(memory.supersede_waiter(&key, &item.0, by, leave, limit)).map(Answer::Settled)
        }
        Ask::Scan => at_once(memory.scan_held(segment, None, 100, limit)).map(Answer::Page),
        Ask::HeldBy(holder) => at_once(memory.held_by(holder, None, 100, limit)).map(Answer::Page),
        Ask::PutStart(item, repeat) => {
            at_once(memory.put_start(&item.0, *repeat, limit)).map(Answer::PutStart)
        }
        Ask::Start(request) => at_once(memory.start_item(&key, request, limit)).map(Answer::Start),
        Ask::Settle(settling) => {
            let with = settling.with.as_ref();
            let with = with.map(|(permit, change)| (at(permit), change));
            let with = with.as_ref().map(|(at, change)| (at, *change));
            let (item, settlement) = (&settling.item, &settling.settlement);
            at_once(memory.settle_start(item, settlement, with, limit)).map(Answer::Settled)
        }
        Ask::Noted(request) => at_once(memory.redrivable(&key, request, limit)).map(Answer::Noted),
        Ask::Note(note) => {
            at_once(memory.note_redrivable(&note.noted, note.seen, note.times, limit))
                .map(Answer::Yes)
        }
        Ask::ForgetNote(note) => {
            at_once(memory.forget_redrivable(&note.noted, limit)).map(|()| Answer::Done)
        }
        Ask::Succeed(..)
        | Ask::Fail(_)
        | Ask::Describe(_)
        | Ask::Received(..)
        | Ask::Begin(..)
        | Ask::Input(_)
        | Ask::Stop(_)
        | Ask::Redrives(_) => unreachable!("not the table's"),
    }
    .unwrap_or(Answer::None)
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing to wait for")
}

pub fn text_of_item(item: &Stored) -> String {
    let mut all: Vec<_> = item.iter().collect();
    all.sort_by_key(|(name, _)| name.as_str());
    all.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = write!(text, "{name}={value:?};");
        text
    })
}

/// An answer in full, secrets included.
pub fn text_of(answer: &Answer) -> String {
    use leasehold::{
        row::Stored,
        store::{Applied, AppliedAll, Joined, Settled},
    };
    let row = |row: &Row| text_of_item(&row.to_item());
    let stored = |stored: &Stored| match stored {
        Stored::Row(it) => row(it),
        other => format!("{other:?}"),
    };
    match answer {
        Answer::Applied(Applied::Done {
            row: it,
            deadline_before,
        }) => format!("done {deadline_before:?} {}", row(it)),
        Answer::Applied(Applied::Refused(it)) => format!("refused {}", stored(it)),
        Answer::Joined(Joined::Refused(it)) => format!("not joined {}", stored(it)),
        Answer::Settled(Settled::Refused(it)) => format!("not settled {}", stored(it)),
        Answer::Stored(it) => format!("stored {}", stored(it)),
        Answer::AppliedAll(AppliedAll::Refused(rows)) => {
            let rows = rows
                .iter()
                .map(|it| it.as_ref().map_or("none".to_owned(), stored));
            format!("all refused {}", rows.collect::<Vec<_>>().join(", "))
        }
        Answer::Rows(rows) => {
            let rows = rows
                .iter()
                .map(|(permit, it)| format!("row {permit} {}", stored(it)));
            rows.collect::<Vec<_>>().concat()
        }
        Answer::Waiter(Some(waiter)) => {
            format!("waiter {waiter:?} {}", waiter.task_token.expose())
        }
        other => format!("{other:?}"),
    }
}
