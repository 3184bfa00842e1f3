//! What requests to the table do, and their answers as text.

use std::{fmt::Write as _, time::Duration};

use futures_util::FutureExt as _;
use leasehold::{
    Memory,
    store::{AttributeValue, Item, ScanSegment, Slot, Store as _, Stored, Written},
};

use super::seam::{Answer, Ask};

/// What a request does to the table, and what it is answered.
pub fn performed(memory: &Memory, ask: &Ask) -> Answer {
    let limit = Duration::MAX;
    let segment = ScanSegment {
        segment: 0,
        total: 1,
    };
    match ask {
        Ask::Write(writes) => at_once(memory.write(writes, limit)).map(Answer::Written),
        Ask::Read(items) => {
            at_once(memory.read(items, limit)).map(|slots| Answer::Slots(slots.unwrap_or_default()))
        }
        Ask::ReadKey(key) => at_once(memory.read_key(key, limit)).map(Answer::Rows),
        Ask::Scan => at_once(memory.scan(segment, None, 100, limit)).map(Answer::Page),
        Ask::HeldBy(holder) => at_once(memory.held_by(holder, None, 100, limit)).map(Answer::Page),
        Ask::Succeed(..)
        | Ask::Fail(..)
        | Ask::Waits(_)
        | Ask::Describe(_)
        | Ask::Received(..)
        | Ask::Begin(..)
        | Ask::Input(_)
        | Ask::Outcome(_)
        | Ask::Stop(..)
        | Ask::Redrives(_) => unreachable!("not the table's"),
    }
    .unwrap_or(Answer::None)
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing to wait for")
}

/// The same for the same attributes, whose order in memory is another each time.
pub fn text_of_item(item: &Item) -> String {
    let mut all: Vec<_> = item.iter().collect();
    all.sort_by_key(|(name, _)| name.as_str());
    all.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = match value {
            AttributeValue::M(fields) => write!(text, "{name}={{{}}};", text_of_item(fields)),
            value => write!(text, "{name}={value:?};"),
        };
        text
    })
}

/// An answer in full, secrets included.
pub fn text_of(answer: &Answer) -> String {
    let slot = |slot: &Slot| {
        slot.item()
            .map_or_else(|| "nothing".to_owned(), text_of_item)
    };
    match answer {
        Answer::Written(Written::Done(before)) => format!("done {}", slot(before)),
        Answer::Written(Written::Refused(parts)) => {
            let parts = parts
                .iter()
                .map(|part| part.as_ref().map_or("held".to_owned(), slot));
            format!("refused {}", parts.collect::<Vec<_>>().join(", "))
        }
        Answer::Slots(slots) => {
            let slots: Vec<_> = slots.iter().map(slot).collect();
            format!("read {}", slots.join(", "))
        }
        Answer::Rows(rows) => {
            let rows = rows.iter().map(|(permit, stored)| match stored {
                Stored::Row(row) => format!("row {permit} {}", text_of_item(&row.to_item())),
                other => format!("row {permit} {other:?}"),
            });
            rows.collect::<Vec<_>>().concat()
        }
        other => format!("{other:?}"),
    }
}
