//! The names and times of the worlds of executions.

use std::{collections::HashMap, sync::OnceLock, time::Duration};

use leasehold::{
    Counter, ExecutionInput, ExecutionName, Holder, Key, ObservedVersion, Permits, Pool,
    RequestDigest, RequestId, StateMachineArn, TaskToken, Timestamp, row::Entry,
};
use serde_json::Value;

/// An execution, or a program.
pub type Who = u8;
/// One logical acquire.
pub type Attempt = u8;

/// A point in time, in ticks of half a minute since a beginning that is the same for all worlds.
pub type Tick = i16;
/// What a start gives its execution, without the lease that it may be passed.
pub type Input = u8;

/// One of the keys of a world, or the pool that they share.
pub type KeyNo = u8;
/// That of the pool, which has rows and a queue as a key has.
pub const POOL: KeyNo = 2;
/// How many there are at most, the pool included.
pub const KEYS: usize = 3;

/// The request of a start.
pub const START: Attempt = 100;
/// That of the library for an execution that was redriven once; after it those for twice, and more.
const REDRIVEN: Attempt = START + 1;
/// The requests of sections within what an execution has, from here on.
pub const NESTED: Attempt = 200;
/// The input of an execution that somebody else began under a start's name.
pub const FOREIGN: Input = 9;

/// A program of no world: it asks only whether it could have the key.
pub const PROGRAM: Who = 4;

/// From here on, those whose tasks wait for the results of starts: each start has one.
pub const CALLERS: Who = 20;

/// What Step Functions says is at most this old, and nothing else takes as long.
pub const TICK: Duration = Duration::from_secs(30);

const BEGINNING: u64 = 1_800_000_000_000;

/// For so long a signed request is good.
pub const SIGNATURE: Tick = 10;
/// Within this time whoever marked the row calls `StartExecution`.
pub const CALLS_WITHIN: Tick = 2;

/// The floor that is deployed after a restore: above every token that was given out before.
pub fn floor() -> Counter {
    Counter::new(BEGINNING + 864_000_000).expect("below the highest")
}

/// What a program has observed.
pub fn version(seen: u64) -> ObservedVersion {
    Counter::new(seen).map_or(ObservedVersion::NONE, Into::into)
}

/// The beginning of a tick.
pub fn instant(at: Tick) -> Timestamp {
    let beginning = Timestamp::from_millis(BEGINNING);
    if at < 0 {
        beginning.minus(TICK * u32::from(at.unsigned_abs()))
    } else {
        beginning.plus(TICK * u32::from(at.unsigned_abs()))
    }
}

/// In which tick this is.
pub fn tick(at: Timestamp) -> Tick {
    let since = at.since(instant(0)).as_secs() / TICK.as_secs();
    Tick::try_from(since).expect("soon")
}

pub fn key(which: KeyNo) -> Key {
    match which {
        0 => Key::new("a key").expect("a short name"),
        POOL => pool(1).key,
        _ => Key::new("another key").expect("a short name"),
    }
}

/// The pool, of which there are so many permits.
pub fn pool(permits: u16) -> Pool {
    let name = Key::new("a pool").expect("a short name");
    Pool::new(&name, Permits::new(permits).expect("few"))
}

/// Which of them this is; the key of no row is none.
pub fn which(key: &str) -> Option<KeyNo> {
    (0..=POOL).find(|which| self::key(*which).as_str() == key)
}

pub fn holder(who: Who) -> Holder {
    let name = match who {
        PROGRAM => "a program".to_owned(),
        CALLERS.. => format!(
            "arn:aws:states:eu-west-1:123456789012:execution:calls:c{}",
            who - CALLERS
        ),
        _ => format!("arn:aws:states:eu-west-1:123456789012:execution:machine:e{who}"),
    };
    Holder::new(name).expect("a short name")
}

/// Whose name this is.
pub fn who(holder: &Holder) -> Who {
    let after = |prefix| {
        let number = holder.as_str().rsplit(prefix).next();
        number.and_then(|n| n.parse::<Who>().ok())
    };
    let caller = || Some(CALLERS + after(":c")?);
    after(":e").or_else(caller).unwrap_or(PROGRAM)
}

/// The state machine of all executions.
pub fn machine() -> StateMachineArn {
    let arn = "arn:aws:states:eu-west-1:123456789012:stateMachine:machine";
    StateMachineArn::new(arn).expect("an ARN")
}

/// Under which name the execution of a start begins.
pub fn name(who: Who) -> ExecutionName {
    ExecutionName::new(format!("e{who}")).expect("a short name")
}

pub fn input(n: Input) -> ExecutionInput {
    ExecutionInput::new(format!("{{\"n\":{n}}}")).expect("JSON")
}

/// Which input this is, whatever was added to it.
pub fn of_input(json: &str) -> Input {
    let value: Value = serde_json::from_str(json).expect("JSON");
    let n = value["n"].as_u64().expect("one of ours");
    Input::try_from(n).expect("few")
}

pub fn request_id(attempt: Attempt) -> RequestId {
    let id = match attempt {
        REDRIVEN..NESTED => format!("redrive/{}", attempt - START),
        _ => format!("attempt {attempt}"),
    };
    RequestId::new(id).expect("a short name")
}

pub fn request(who: Who, attempt: Attempt) -> RequestDigest {
    if attempt == START {
        return RequestDigest::of_start(&holder(who));
    }
    RequestDigest::of(&holder(who), &request_id(attempt))
}

/// Whose request this is, and which, of all that anybody makes in any world.
pub fn whose(request: &RequestDigest) -> Option<(Who, Attempt)> {
    static ALL: OnceLock<HashMap<RequestDigest, (Who, Attempt)>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let attempts = || (0..16).chain(START..REDRIVEN + 4).chain(NESTED..NESTED + 8);
        let all = (0..=PROGRAM).flat_map(|who| attempts().map(move |n| (who, n)));
        all.map(|(who, n)| (self::request(who, n), (who, n)))
            .collect()
    });
    all.get(request).copied()
}

/// Of an entry of the pool: whose grant of a key it names, and the token of that with its permit.
pub fn entry(entry: &Entry) -> Option<(Who, u64)> {
    let (who, _) = whose(&entry.request)?;
    let permit = u64::from(entry.permit) << 60;
    Some((who, entry.fencing_token.get() | permit))
}

/// The request of no grant.
pub fn nobody() -> RequestDigest {
    request(PROGRAM + 1, 0)
}

/// The token of the task that waits for the result of a start, of its n-th attempt.
pub fn result_token(who: Who, n: u8) -> TaskToken {
    TaskToken::new(format!("result {who}.{n}")).expect("a short name")
}

/// Whose start's result it is for, and of which attempt.
pub fn of_result_token(token: &TaskToken) -> Option<(Who, u8)> {
    let (who, n) = token.expose().strip_prefix("result ")?.split_once('.')?;
    Some((who.parse().ok()?, n.parse().ok()?))
}

/// What an execution that was started comes to.
pub fn output(who: Who) -> String {
    format!("\"output of e{who}\"")
}

/// The task token of an execution's n-th attempt.
pub fn token(who: Who, n: u8) -> TaskToken {
    TaskToken::new(format!("{who}.{n}")).expect("a short name")
}

/// Whose token it is, and of which attempt.
pub fn of_token(token: &TaskToken) -> Option<(Who, u8)> {
    let (who, n) = token.expose().split_once('.')?;
    Some((who.parse().ok()?, n.parse().ok()?))
}
