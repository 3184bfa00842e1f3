//! The writes of items that are no rows: from every state that they lead to, and from a stranger's item, each does on the
//! store what its pure function says, answer and item.

use std::time::Duration;

use leasehold::{
    AtLeast, Counter, ExecutionInput, ExecutionName, Holder, KeepTime, Key, Lifetime, Metadata,
    PassLease, Permits, Pool, RequestDigest, RequestId, ResultItem, StartItem, StartStatus,
    StateMachineArn, TableRules, TaskToken, Timestamp,
    redrivable::Redrivable,
    request::{InsteadOf, Request},
    store::{AttributeValue, AwaitedResult, Blob, ItemAddress, Note, Settlement, Slot, Write},
    waiter::TokenItem,
};

use crate::{
    Bench,
    stores::{Checked, Stores},
};

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
        pool: None,
        at_least: AtLeast::default(),
        metadata: Metadata::default(),
        instead_of: None,
    }
}

fn waiter(token: &str, asked_at: u64, superseded: bool) -> TokenItem {
    TokenItem {
        request: Request {
            instead_of: (token == "y").then_some(InsteadOf::Waiters),
            pool: (token == "x").then(|| Pool::new(&key(), Permits::new(2).unwrap())),
            ..request(RequestDigest::of(
                &holder("a"),
                &RequestId::new("1").unwrap(),
            ))
        },
        task_token: TaskToken::new(token).unwrap(),
        ticket: asked_at,
        deadline: Timestamp::from_millis(100 + asked_at),
        purge_at: asked_at,
        superseded_by: superseded.then(|| holder("later")),
    }
}

fn of_waiters() -> Vec<Write> {
    let mut all = Vec::new();
    for (waiter, read) in [
        (waiter("x", 5, false), None),
        (waiter("y", 6, false), Some("x")),
        (waiter("y", 4, false), Some("y")),
    ] {
        let read = read.map(|token| TaskToken::new(token).unwrap());
        all.push(Write::Wait(key(), waiter.clone(), read.clone()));
        all.push(Write::NewToken(key(), waiter.clone(), read));
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
        request: Request {
            instead_of: (asked_at == 6).then_some(InsteadOf::Holder),
            ..request(RequestDigest::of_start(&holder("a")))
        },
        asked_at: Timestamp::from_millis(asked_at),
        deadline: Timestamp::from_millis(100),
        stop_with: (asked_at == 6).then(|| holder("caller")),
        status: StartStatus::Waiting,
    }
}

fn of_starts() -> Vec<Write> {
    let (first, again) = (start(5), start(6));
    let (failed, skipped) = (
        StartItem {
            status: StartStatus::Failed("why".to_owned()),
            ..start(5)
        },
        StartItem {
            status: StartStatus::Skipped,
            ..start(5)
        },
    );
    let mut all = vec![
        Write::Start(first.clone()),
        Write::Restart(again.clone(), Box::new(first.clone())),
        Write::Restart(first.clone(), Box::new(again.clone())),
        Write::Restart(again.clone(), Box::new(failed)),
        Write::Settle(again, Settlement::Failed("late".to_owned())),
        Write::Start(skipped),
    ];
    let (by, purge_at) = (holder("later"), 7);
    let settlements = [
        Settlement::Begun { purge_at },
        Settlement::Skipped { purge_at },
        Settlement::Superseded { by, purge_at },
        Settlement::Failed("why".to_owned()),
        Settlement::Dismissed { purge_at },
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
            pool: (version == 2).then(|| Pool::new(&key(), Permits::new(2).unwrap())),
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

fn result_item(token: &str, asked_at: u64, missing: bool) -> ResultItem {
    ResultItem {
        key: key(),
        execution: holder("a"),
        task_token: TaskToken::new(token).unwrap(),
        stop_with: (token == "x").then(|| holder("caller")),
        asked_at: Timestamp::from_millis(asked_at),
        missing_since: missing.then(|| Timestamp::from_millis(8)),
    }
}

fn of_callers() -> Vec<Write> {
    let calls = [("caller", 5), ("another", 6), ("caller", 4)];
    let calls = calls.map(|(caller, at)| (result_item("x", at, false), holder(caller)));
    let listed = calls
        .clone()
        .map(|(item, caller)| Write::Called(item, caller));
    let forgotten = calls.map(|(item, caller)| Write::ForgetCalled(item, caller));
    listed.into_iter().chain(forgotten).collect()
}

fn of_results() -> Vec<Write> {
    let result = |token: &str, asked_at, missing: bool| AwaitedResult {
        item: result_item(token, asked_at, missing),
        look_at: Timestamp::from_millis(9),
        purge_at: 9,
        instead_of: (token != "x").then(|| TaskToken::new("x").unwrap()),
    };
    let (first, later) = (result("x", 5, false), result("y", 6, false));
    let missing = result("x", 5, true);
    vec![
        Write::Result(first.clone()),
        Write::Result(later.clone()),
        Write::Result(result("z", 4, false)),
        Write::LookAtResult(missing),
        Write::LookAtResult(first.clone()),
        Write::LookAtResult(later.clone()),
        Write::ForgetResult(first.item),
        Write::ForgetResult(later.item),
    ]
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
    let item = [("pk", pk), ("sk", sk), ("odd", "x".to_owned())];
    let item = item.map(|(name, text)| (name.to_owned(), AttributeValue::S(text)));
    Slot::of(Some(item.into()))
}

/// When a write happens, said a second time: both tables go by the same plan, and a plan without a condition would be the same on
/// both.
fn may(write: &Write, slot: &Slot) -> bool {
    let value = |name: &str| slot.item().and_then(|item| item.get(name));
    let text = |name| value(name).and_then(|value| value.as_s().ok().map(String::as_str));
    let number = |name| value(name).and_then(|value| value.as_n().ok()?.parse::<u64>().ok());
    let is_absent = slot.item().is_none();
    let waits_as_read = |item: &StartItem, status| {
        let asked_at = Some(item.asked_at.as_millis());
        text("status") == Some(status) && number("asked_at") == asked_at
    };
    match write {
        Write::Wait(_, _, Some(read)) | Write::NewToken(_, _, Some(read)) => {
            let request = value("request").and_then(|value| value.as_b().ok());
            let named = |request: &Blob| {
                let digits = request.as_ref().iter().map(|byte| format!("{byte:02x}"));
                format!("WAIT#{}", digits.collect::<String>())
            };
            let is_same = request.map(named) == Some(write.address().keys().1);
            let was_sent_away = value("superseded_by").is_some();
            is_same && text("task_token") == Some(read.expose()) && !was_sent_away
        }
        Write::Forget(_, waiter) | Write::Supersede(_, waiter, _) => {
            text("task_token") == Some(waiter.task_token.expose())
        }
        Write::Result(AwaitedResult { instead_of, .. }) => match instead_of {
            None => is_absent,
            Some(read) => text("task_token") == Some(read.expose()),
        },
        Write::Called(..) => is_absent || value("holder").is_some(),
        Write::LookAtResult(AwaitedResult { item, .. }) | Write::ForgetResult(item) => {
            text("task_token") == Some(item.task_token.expose())
        }
        Write::ForgetCalled(_, caller) => is_absent || text("holder") == Some(caller.as_str()),
        Write::Wait(_, _, None)
        | Write::NewToken(_, _, None)
        | Write::Start(_)
        | Write::Note(Note { seen: None, .. }) => is_absent,
        Write::Restart(_, read) => waits_as_read(read, read.status.word()),
        Write::Settle(_, Settlement::Begun { .. }) => value("status").is_some(),
        Write::Settle(item, Settlement::Dismissed { .. }) => waits_as_read(item, "failed"),
        Write::Settle(item, _) => waits_as_read(item, "waiting"),
        Write::Note(Note { seen, .. }) => number("version") == *seen,
        Write::ForgetNote(noted) => number("version") == Some(noted.version),
        Write::Rules(rules) => {
            number("token_floor").is_none_or(|floor| floor <= rules.token_floor.get())
        }
        Write::Row(..) => unreachable!("no row"),
    }
}

/// What an item does not have once this has happened: no index has what nobody waits for, and nothing is said of what is over.
fn gone(write: &Write) -> &'static [&'static str] {
    match write {
        Write::Forget(_, waiter) if waiter.superseded_by.is_some() => {
            &["holder", "sweep_after", "task_token"]
        }
        Write::Result(AwaitedResult { item, .. }) if item.stop_with.is_none() => {
            &["stop_with", "missing_since"]
        }
        Write::Result(_) => &["missing_since"],
        Write::LookAtResult(AwaitedResult { item, .. }) if item.missing_since.is_none() => {
            &["missing_since"]
        }
        Write::Restart(..) => &["reason", "purge_at"],
        Write::Settle(_, Settlement::Dismissed { .. }) => &["holder"],
        Write::Start(item) if item.status == StartStatus::Skipped => &["holder", "sweep_after"],
        Write::Settle(_, Settlement::Begun { .. } | Settlement::Skipped { .. }) => {
            &["holder", "sweep_after", "reason", "superseded_by"]
        }
        Write::Settle(_, Settlement::Superseded { .. }) => &["holder", "sweep_after"],
        Write::Settle(_, Settlement::Failed(_)) => &["sweep_after"],
        _ => &[],
    }
}

/// The item of somebody else's request, where only digests that collide would put it.
fn of_another(write: &Write) -> Slot {
    let mut item = write.after(&Slot::EMPTY).and_then(Slot::into_item);
    if let Some(item) = &mut item {
        let another = AttributeValue::B(Blob::new("another"));
        item.insert("request".to_owned(), another);
    }
    Slot::of(item)
}

/// Everything that is written beside rows, the writes of one item together.
fn all() -> [Vec<Write>; 6] {
    [
        of_waiters(),
        of_starts(),
        of_notes(),
        of_results(),
        of_callers(),
        of_rules(),
    ]
}

impl<B: Bench> Stores<B> {
    pub(crate) async fn item_writes_agree(&self) -> Checked {
        for writes in all() {
            self.each_from_every_state(&writes).await?;
        }
        Ok(())
    }

    async fn each_from_every_state(&self, writes: &[Write]) -> Checked {
        let address = writes[0].address();
        let mut states = vec![Slot::EMPTY, strange(&address), of_another(&writes[0])];
        let (mut at, mut done) = (0, vec![false; writes.len()]);
        while let Some(before) = states.get(at).cloned() {
            at += 1;
            let mut stands = false;
            for (write, done) in writes.iter().zip(&mut done) {
                assert_eq!(write.address(), address);
                if !stands {
                    self.lay(&address, &before).await;
                }
                let what = (write, &before);
                let happened = self.write(std::slice::from_ref(write), &what).await?;
                let after = self.same_items(std::slice::from_ref(&address), &what);
                let after = after.await?.remove(0);
                assert_eq!(happened, may(write, &before), "{what:?}");
                let left = after.item().filter(|_| happened);
                let stays = |name: &&str| left.is_some_and(|item| item.contains_key(*name));
                let stays = gone(write).iter().find(|name| stays(name));
                assert_eq!(stays, None, "{what:?}");
                *done |= happened;
                stands = !happened;
                if !states.contains(&after) {
                    states.push(after);
                }
            }
        }
        assert!(done.iter().all(|done| *done), "{done:?}");
        self.lay(&address, &Slot::EMPTY).await;
        Ok(())
    }
}
