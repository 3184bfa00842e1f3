//! The writes of items that are no rows: from every state that they lead to, and from a stranger's item, each does on a real
//! DynamoDB API what its pure function says, answer and item.

use std::time::Duration;

use leasehold::{
    AtLeast, Counter, ExecutionInput, ExecutionName, Holder, KeepTime, Key, Lifetime, Memory,
    Metadata, PassLease, RequestDigest, RequestId, StartItem, StartStatus, StateMachineArn,
    TableRules, TaskToken, Timestamp,
    redrivable::Redrivable,
    request::Request,
    store::{ItemAddress, Note, Settlement, Slot, Store as _, Write, Written},
    waiter::Waiter,
};
use leasehold_proof::fixture::{TABLE, Table, s};

use super::transition::LIMIT;

const MACHINE: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:orders";

fn holder(name: &str) -> Holder {
    let arn = format!("arn:aws:states:eu-west-1:123456789012:execution:orders:{name}");
    Holder::new(arn).unwrap()
}

fn key() -> Key {
    Key::new("k").unwrap()
}

fn request(digest: RequestDigest) -> Request {
    Request {
        holder: holder("a"),
        digest,
        keys: None,
        lifetime: Lifetime::Execution {
            keep: KeepTime::default(),
        },
        permits: None,
        at_least: AtLeast::default(),
        metadata: Metadata::default(),
    }
}

fn waiter(token: &str, asked_at: u64, superseded: bool) -> Waiter {
    Waiter {
        request: request(RequestDigest::of(
            &holder("a"),
            &RequestId::new("1").unwrap(),
        )),
        task_token: TaskToken::new(token).unwrap(),
        ticket: asked_at,
        asked_at: Timestamp::from_millis(asked_at),
        deadline: Timestamp::from_millis(100 + asked_at),
        purge_at: asked_at,
        superseded_by: superseded.then(|| holder("later")),
    }
}

fn of_waiters() -> Vec<Write> {
    let mut all = Vec::new();
    for waiter in [
        waiter("x", 5, false),
        waiter("y", 6, false),
        waiter("y", 4, false),
    ] {
        all.push(Write::Wait(key(), waiter.clone()));
        all.push(Write::NewToken(key(), waiter.clone()));
        all.push(Write::Supersede(key(), waiter, holder("later")));
    }
    for superseded in [false, true] {
        all.push(Write::Forget(key(), waiter("x", 5, superseded)));
    }
    all
}

fn start(asked_at: u64) -> StartItem {
    StartItem {
        key: key(),
        state_machine: StateMachineArn::new(MACHINE).unwrap(),
        name: ExecutionName::new("a").unwrap(),
        input: ExecutionInput::new(r#"{"a": 1}"#).unwrap(),
        pass_lease: PassLease::default(),
        request: request(RequestDigest::of_start(&holder("a"))),
        asked_at: Timestamp::from_millis(asked_at),
        deadline: Timestamp::from_millis(100),
        status: StartStatus::Waiting,
    }
}

fn of_starts() -> Vec<Write> {
    let (first, again) = (start(5), start(6));
    let mut all = vec![
        Write::Start(first.clone()),
        Write::Restart(again.clone()),
        Write::Settle(again, Settlement::Withdrawn),
    ];
    let (by, purge_at) = (holder("later"), 7);
    let settlements = [
        Settlement::Begun { purge_at },
        Settlement::Skipped { purge_at },
        Settlement::Superseded { by, purge_at },
        Settlement::Failed("why".to_owned()),
        Settlement::Withdrawn,
        Settlement::Dismissed,
    ];
    all.extend(settlements.map(|settlement| Write::Settle(first.clone(), settlement)));
    all
}

fn of_notes() -> Vec<Write> {
    let note = |version: u64, redrives, seen| {
        let noted = Redrivable {
            key: key(),
            execution: holder("a"),
            started: true,
            permits: None,
            keep: KeepTime::default(),
            redrives,
            ended_at: Timestamp::from_millis(5),
            version,
        };
        let look_at = Timestamp::from_millis(9);
        Note {
            noted,
            seen,
            look_at,
            purge_at: 9,
        }
    };
    let (first, second) = (note(1, None, None), note(2, Some(1), Some(1)));
    let forget = [first.noted.clone(), second.noted.clone()].map(Write::ForgetNote);
    let writes = [first, second, note(3, None, Some(2))].map(Write::Note);
    writes.into_iter().chain(forget).collect()
}

fn of_rules() -> Vec<Write> {
    let rules = |floor, stopped| {
        Write::Rules(TableRules {
            clock_margin: Duration::from_secs(2),
            guard: Duration::from_secs(1),
            token_floor: Counter::new(floor).unwrap(),
            stopped,
        })
    };
    vec![rules(1, false), rules(2, true), rules(10, false)]
}

/// What somebody else may have written there.
fn strange(address: &ItemAddress) -> Slot {
    let (pk, sk) = address.keys();
    let item = [("pk", s(&pk)), ("sk", s(&sk)), ("odd", s("x"))];
    Slot::of(Some(
        item.map(|(name, value)| (name.to_owned(), value)).into(),
    ))
}

/// An item and nothing else, on both tables.
async fn laid(table: &Table, address: &ItemAddress, slot: &Slot) -> Memory {
    let (memory, (pk, sk)) = (Memory::new(), address.keys());
    if let Some(item) = slot.item() {
        memory.put_at(&pk, &sk, item);
        let put = table.client.put_item().table_name(TABLE);
        put.set_item(Some(item.clone())).send().await.unwrap();
    } else {
        let delete = table.client.delete_item().table_name(TABLE);
        let delete = delete.key("pk", s(&pk)).key("sk", s(&sk));
        delete.send().await.unwrap();
    }
    memory
}

async fn stored(store: &impl leasehold::store::Store, address: &ItemAddress) -> Slot {
    let read = store.read(std::slice::from_ref(address), LIMIT).await;
    read.unwrap().unwrap().remove(0)
}

#[tokio::test]
async fn every_write_of_an_item_does_what_its_function_says() {
    let table = Table::patient().await;
    let store = table.store();
    for writes in [of_waiters(), of_starts(), of_notes(), of_rules()] {
        let address = writes[0].address();
        let mut states: Vec<Slot> = vec![Slot::EMPTY, strange(&address)];
        let (mut at, mut done) = (0, vec![false; writes.len()]);
        while let Some(before) = states.get(at).cloned() {
            at += 1;
            for (write, done) in writes.iter().zip(&mut done) {
                assert_eq!(write.address(), address);
                let memory = laid(&table, &address, &before).await;
                let alone = std::slice::from_ref(write);
                let ours = memory.write(alone, LIMIT).await.unwrap();
                let theirs = store.write(alone, LIMIT).await.unwrap();
                assert_eq!(ours, theirs, "{write:?} on {before:?}");
                let after = stored(&memory, &address).await;
                assert_eq!(
                    after,
                    stored(&store, &address).await,
                    "{write:?} on {before:?}"
                );
                *done |= matches!(ours, Written::Done(_));
                if !states.contains(&after) {
                    states.push(after);
                }
            }
        }
        assert!(done.iter().all(|done| *done), "{done:?}");
    }
}
