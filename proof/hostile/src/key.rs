//! Hostile names: keys, holders and request ids that are to be distinguished, whatever they look like.

use std::sync::Arc;

use arbitrary::{Result as Chosen, Unstructured};
use leasehold::{
    Acquire, Acquired, GrantKind, Holder, Key, Keys, KeysDigest, Leases, ManualClock, Memory,
    RequestDigest, RequestId, Settings, Ttl,
};

use crate::{
    NO_CASE, Verdict,
    fixture::{self, NOW},
    mutate::part,
};

/// Who asks for what, and by which request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    key: String,
    holder: String,
    request_id: String,
}

/// What names are made of: parts that look the same, vanish, join with what is next to them, or mean something to us; one
/// between two bars.
const PARTS: &str = "a|b|ab|\u{e9}|e\u{301}|\u{212b}|\u{c5}|A\u{30a}|\u{202e}|\u{200b}|\u{200d}|\u{feff}|\u{fffd}|\u{ff}|\
    \u{10ffff}|\u{1d54f}|#|/|,|\"|\\|{|:| |%00|LEASE#0000|WAIT#|0|1|\u{ad}|\u{660}";
const CONTROLS: &str = "\u{0}|\u{1}|\u{8}|\n|\u{7f}|\u{80}";

/// Twice a key, a holder and a request id, one a line, where a vertical tab means a line break; or choices.
pub fn judge(bytes: &[u8]) -> Verdict {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let mut lines = text.split('\n').map(|line| line.replace('\u{b}', "\n"));
        let mut next = || lines.next().unwrap_or_default();
        return judge_pair(&[(); 2].map(|()| Asked {
            key: next(),
            holder: next(),
            request_id: next(),
        }));
    }
    match pair(&mut Unstructured::new(bytes)) {
        Ok(asked) => judge_pair(&asked),
        Err(_) => Ok(NO_CASE.to_owned()),
    }
}

/// Two who ask, whose names are close to each other.
fn pair(choices: &mut Unstructured<'_>) -> Chosen<[Asked; 2]> {
    let one = Asked {
        key: name(choices)?,
        holder: name(choices)?,
        request_id: name(choices)?,
    };
    let mut other = one.clone();
    match choices.int_in_range(0..=5)? {
        0 => {}
        // The same letters, parted elsewhere.
        1 => shift(&mut other.holder, &mut other.request_id),
        2 => shift(&mut other.key, &mut other.holder),
        3 => std::mem::swap(&mut other.holder, &mut other.request_id),
        4 => other.key = name(choices)?,
        _ => other.holder = name(choices)?,
    }
    Ok([one, other])
}

fn shift(from: &mut String, to: &mut String) {
    if let Some(last) = from.pop() {
        to.insert(0, last);
    }
}

fn name(choices: &mut Unstructured<'_>) -> Chosen<String> {
    let mut name = String::new();
    if choices.ratio(1, 40)? {
        return Ok(name);
    }
    for _ in 0..choices.int_in_range(1..=4)? {
        // Most keys are refused for their control characters otherwise.
        let parts = if choices.ratio(1, 60)? {
            CONTROLS
        } else {
            PARTS
        };
        name += &part(parts, choices)?;
    }
    if choices.ratio(1, 30)? {
        let (most, filler) = (
            *choices.choose(&[1023_usize, 1024, 1025])?,
            part(PARTS, choices)?,
        );
        while name.len() + filler.len() <= most {
            name += &filler;
        }
    }
    Ok(name)
}

/// Lets both ask, one after the other. No name is refused without a reason or changed, no different ones are taken for the
/// same, nor the same for different ones. Returns what the second was answered.
fn judge_pair(asked: &[Asked; 2]) -> Verdict {
    let [one, other] = asked;
    let (Some(first), Some(second)) = (checked(one)?, checked(other)?) else {
        return Ok("refused".to_owned());
    };
    let same_request = (&one.holder, &one.request_id) == (&other.holder, &other.request_id);
    if (digest(&first) == digest(&second)) != same_request {
        return Err("one digest for two requests, or two for one".to_owned());
    }
    let pair = |a: &Acquire, b: &Acquire| {
        let keys = Keys::new(vec![a.key.clone(), b.key.clone()]);
        keys.ok().and_then(|keys| KeysDigest::of(&keys))
    };
    if pair(&first, &second) != pair(&second, &first) {
        return Err("a set has two digests".to_owned());
    }
    let table = Memory::new();
    let leases =
        Leases::new(table.clone(), Settings::default()).with_clock(Arc::new(ManualClock::at(NOW)));
    let granted = fixture::now(leases.acquire(first.clone())).and_then(Acquired::granted);
    let granted = granted.map_err(|error| format!("the first was refused: {error}"))?;
    let json = serde_json::to_value(&granted.lease).map_err(|error| error.to_string())?;
    if json["key"] != one.key.as_str() || json["holder"] != one.holder.as_str() {
        return Err(format!("{json} is not what was asked for"));
    }
    let again = fixture::now(leases.acquire(second)).map_err(|error| error.to_string())?;
    let rows = table.all();
    let keys: Vec<_> = rows.iter().map(|(pk, ..)| pk.as_str()).collect();
    let mut expected = vec![one.key.as_str(), other.key.as_str()];
    expected.sort_unstable();
    expected.dedup();
    if keys != expected {
        return Err(format!("the table has {keys:?}"));
    }
    match again {
        Acquired::Granted(again) if again.grant == GrantKind::Replayed => {
            (one == other && again.lease == granted.lease).then(|| "replayed".to_owned())
        }
        Acquired::Granted(_) => (one.key != other.key).then(|| "granted".to_owned()),
        Acquired::Held(contention) => {
            let right = one.key == other.key && !same_request;
            let by = contention.held.holder.as_str() == one.holder
                && contention.held.by_you == (one.holder == other.holder);
            (right && by).then(|| "held".to_owned())
        }
    }
    .ok_or_else(|| "one was taken for the other".to_owned())
}

fn digest(asked: &Acquire) -> RequestDigest {
    RequestDigest::of(&asked.holder, &asked.request_id)
}

/// The request, unless its names are to be refused.
fn checked(asked: &Asked) -> Result<Option<Acquire>, String> {
    let fits = |text: &str| (1..=1024).contains(&text.len());
    let (key, holder) = (
        Key::new(asked.key.clone()),
        Holder::new(asked.holder.clone()),
    );
    let id = RequestId::new(asked.request_id.clone());
    // Pools have a name space of their own.
    let plain =
        !asked.key.chars().any(char::is_control) && !asked.key.starts_with("leasehold pool ");
    for (taken, fine) in [
        (key.is_ok(), fits(&asked.key) && plain),
        (holder.is_ok(), fits(&asked.holder)),
        (id.is_ok(), fits(&asked.request_id)),
    ] {
        if taken != fine {
            return Err(format!("{asked:?}: taken or refused without a reason"));
        }
    }
    let (Ok(key), Ok(holder), Ok(id)) = (key, holder, id) else {
        return Ok(None);
    };
    let ttl = Ttl::new(std::time::Duration::from_secs(60)).map_err(|error| error.to_string())?;
    Ok(Some(Acquire::new(key, holder, ttl).request_id(id)))
}
