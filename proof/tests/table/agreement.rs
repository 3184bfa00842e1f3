//! The memory store, the DynamoDB store and a reference of a few lines, under the same operations at the same time
//! by the same clock: the same answers, and the same rows.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use leasehold::{
    Acquired, Clock as _, Ended, Error, Extended, GrantKind, Lease, Memory, ReleaseOutcome,
    row::{State, Stored},
};
use leasehold_proof::fixture::{TABLE, Table};
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};

use super::{
    changes::{digest, holder, seconds},
    operations::{Answer, Call, Operation, World, of_all, of_one_key},
    reference::{Before, Fact, Handle, Record, Reference},
};

const MOMENT: Duration = Duration::from_millis(1);

fn in_memory() -> World<Memory> {
    World::new(Memory::new())
}

async fn on_a_table() -> World<Table> {
    let table = Table::without_table().await;
    leasehold::table::create(&table.client, TABLE)
        .await
        .unwrap();
    World::new(table)
}

async fn both_agree(operations: &[Operation], seen: &Seen) -> Result<(), TestCaseError> {
    let (mut memory, mut table) = (in_memory(), on_a_table().await);
    for operation in operations {
        let (_, ours) = memory.take(operation).await;
        let (_, theirs) = table.take(operation).await;
        ours.lines().for_each(|line| seen.note(line));
        prop_assert_eq!(ours, theirs, "after {:?}", operation);
    }
    Ok(())
}

async fn all_three_agree(operations: &[Operation], seen: &Seen) -> Result<(), TestCaseError> {
    let (mut memory, mut table) = (in_memory(), on_a_table().await);
    let mut reference = Reference::new(seconds(0).as_millis());
    for operation in operations {
        // A key that was never leased gets a row of the operator's, of which the reference knows nothing.
        if operation.call == Call::Freeze && reference.row.is_none() {
            continue;
        }
        // No two calls at the very same moment: an extend may be taken for the copy of the one before.
        reference.now += 1;
        memory.clock.advance(MOMENT);
        table.clock.advance(MOMENT);
        let said = reference.take(operation);
        let (answer, ours) = memory.take(operation).await;
        let (_, theirs) = table.take(operation).await;
        prop_assert_eq!(&ours, &theirs, "after {:?}", operation);
        seen.note(&format!("{said:?}"));
        prop_assert_eq!(fact(&answer), said, "{:?}: {}", operation, ours);
        let stored = memory.stored(0).await;
        prop_assert!(
            is(&stored, reference.row.as_ref()),
            "{:?}: {:?} and {:?}",
            operation,
            stored,
            reference.row
        );
        prop_assert_eq!(memory.clock.now().as_millis(), reference.now);
    }
    Ok(())
}

fn fact(answer: &Result<Answer, Error>) -> Fact {
    match answer {
        Err(error) => Fact::Refused(error.name()),
        Ok(Answer::Acquired(Acquired::Granted(granted))) => Fact::Granted {
            kind: match granted.grant {
                GrantKind::New => "new",
                GrantKind::Replayed => "replayed",
                GrantKind::Takeover => "takeover",
            },
            handle: handle(&granted.lease),
            previous: granted.previous.as_ref().map(before),
        },
        Ok(Answer::Acquired(Acquired::Held(contention))) => Fact::Held {
            token: contention.held.fencing_token.get(),
            version: contention.held.version.get(),
            retry_at: contention.retry_at.as_millis(),
        },
        Ok(Answer::Extended(Extended::Extended { lease })) => Fact::Extended(handle(lease)),
        Ok(Answer::Extended(Extended::Revived { lease, lapsed })) => {
            Fact::Revived(handle(lease), u64::try_from(lapsed.as_millis()).unwrap())
        }
        Ok(Answer::Released(released)) => {
            let outcome = match released.outcome {
                ReleaseOutcome::Released => "released",
                ReleaseOutcome::AlreadyReleased => "already released",
                ReleaseOutcome::Lost => "lost",
            };
            Fact::Released(outcome, released.expired)
        }
        Ok(Answer::Swept(swept)) => Fact::Swept(swept.freed),
        Ok(_) => Fact::Done,
    }
}

fn handle(lease: &Lease) -> Handle {
    Handle {
        token: lease.fencing_token.get(),
        version: lease.version.get(),
        ttl: lease.ttl.as_millis(),
        expires: lease.expires_at.as_millis(),
    }
}

fn before(previous: &leasehold::Previous) -> Before {
    let who = (0..u8::MAX).find(|who| previous.holder == holder(*who));
    Before {
        who: who.unwrap(),
        token: previous.fencing_token.get(),
        ended: previous.ended,
    }
}

fn is(stored: &Stored, record: Option<&Record>) -> bool {
    let (row, record) = match (stored, record) {
        (Stored::Row(row), Some(record)) => (row, record),
        (stored, record) => return *stored == Stored::Absent && record.is_none(),
    };
    let state: Result<(u64, u64), Ended> = match &row.state {
        State::Held(held) => Ok((held.ttl.as_millis(), held.expires_at.as_millis())),
        State::Free { ended, .. } => Err(*ended),
    };
    let past = row.past_requests.iter().flatten();
    let remembered: Vec<_> = std::iter::once(&row.request).chain(past).cloned().collect();
    let granted: Vec<_> = record
        .granted
        .iter()
        .map(|(who, request)| digest(*who, *request))
        .collect();
    remembered == granted
        && row.granted_to == holder(record.granted[0].0)
        && (row.fencing_token.get(), row.version.get()) == (record.token, record.version)
        && row.previous.as_ref().map(before) == record.previous
        && state == record.state
        && row.frozen.is_some() == record.frozen
}

const SEED: [u8; 32] = *b"both stores do as the third says";

/// What was seen, and how often: sequences in which nothing fits show nothing.
#[derive(Default)]
struct Seen(Mutex<BTreeMap<String, usize>>);

impl Seen {
    /// By the first words of what it comes to.
    fn note(&self, what: &str) {
        let words = what
            .split([' ', '{', '(', ')', '"', ':', ','])
            .filter(|word| !word.is_empty());
        let first: Vec<_> = words.take(2).collect();
        *self.0.lock().unwrap().entry(first.join(" ")).or_default() += 1;
    }

    fn all(self, expected: &[&str]) {
        let seen = self.0.into_inner().unwrap();
        println!("{seen:?}");
        for what in expected {
            assert!(seen.contains_key(*what), "no {what} in {seen:?}");
        }
    }
}

/// The same sequences each time, in which all that is to be seen is seen; others each time, as many as are asked for.
fn runner(cases: u32) -> TestRunner {
    let asked = std::env::var("DIFFERENTIAL_CASES").ok();
    let config = ProptestConfig {
        cases: asked.as_deref().map_or(cases, |n| n.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED)),
    }
}

#[test]
fn both_stores_and_the_reference_agree_on_every_operation() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let seen = Seen::default();
    let agree = |operations: Vec<Operation>| runtime.block_on(all_three_agree(&operations, &seen));
    runner(60).run(&of_one_key(), agree).unwrap();
    seen.all(&[
        "Granted kind",
        "Held token",
        "Extended Handle",
        "Revived Handle",
        "Released released",
        "Released already",
        "Released lost",
        "Refused Lease.Consumed",
        "Refused Lease.Frozen",
        "Refused Lease.Lost",
    ]);
}

#[test]
fn both_stores_agree_on_lines_permits_sets_operators_and_strangers() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let seen = Seen::default();
    let agree = |operations: Vec<Operation>| runtime.block_on(both_agree(&operations, &seen));
    runner(60).run(&of_all(), agree).unwrap();
    seen.all(&[
        "Acquired Granted",
        "Acquired Held",
        "Set Granted",
        "Set Held",
        "Queued Acquired",
        "Queued Queued",
        "token of",
        "Extended Extended",
        "Released Released",
        "Swept Swept",
        "Reaped Reaped",
        "0/0 Foreign",
        "2/1 Row",
        "Lease.Corrupt the",
        "Lease.Lost the",
    ]);
}
