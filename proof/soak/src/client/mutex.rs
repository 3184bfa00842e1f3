//! A section with one key: asking for it, and what comes after.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Client, Shape};
use crate::calls::{Answer, Caller, Handle, Reply, seconds};
use crate::history::{ExtraEffect, Invocation, Micros, Op, Place, Response};
use crate::plan::{DuplicateCall, RestartPolicy, Section, Step, WaitPolicy};
use crate::watch::sleep_ms;

/// What became of asking.
pub(super) enum Asked {
    Granted(Box<Handle>, Micros),
    Held {
        version: u64,
        wait: u64,
    },
    /// It had its lease, or there is nothing to be had.
    Over,
    Unknown,
}

/// What is asked for.
pub(super) struct Wanted<'a> {
    pub(super) key: &'a str,
    pub(super) shape: Shape,
    pub(super) ttl: u64,
    pub(super) reentrant: bool,
    pub(super) request_id: String,
}

impl Wanted<'_> {
    /// Whether a lease of this row is what was asked for: no other key, and no permit beyond the last.
    fn covers(&self, place: &Place) -> bool {
        place.key == self.key && place.permit < self.shape.permits()
    }
}

impl Client<'_> {
    pub(super) async fn one(&self, caller: &Caller<'_>, plan: &Section, key: &str, shape: Shape) {
        let wanted = Wanted {
            key,
            shape,
            ttl: plan.ttl,
            reentrant: plan.reentrant && shape == Shape::Mutex,
            request_id: format!("section-{}", plan.number),
        };
        let Some((handle, since)) = self.ask_until_granted(caller, plan, &wanted).await else {
            return;
        };
        let handle = self.hold(caller, plan, handle, since, shape).await;
        let Some((duplicate, later)) = plan.duplicate else {
            return;
        };
        sleep_ms(later).await;
        match duplicate {
            DuplicateCall::Ask(step) => drop(acquire(caller, &wanted, step, None).await),
            DuplicateCall::Extend(step) => {
                let _ = super::holding::extend(caller, &handle, step, None, false).await;
            }
            DuplicateCall::Release(step) => super::release(caller, &handle, step).await,
        }
    }

    pub(super) async fn ask_until_granted(
        &self,
        caller: &Caller<'_>,
        plan: &Section,
        wanted: &Wanted<'_>,
    ) -> Option<(Handle, Micros)> {
        let mut observed = None;
        for (n, step) in plan.asks.iter().enumerate() {
            let copies = if n == 0 { plan.copies } else { 1 };
            match acquire_at_once(caller, wanted, *step, observed, copies).await {
                Asked::Granted(handle, since) => return Some((*handle, since)),
                Asked::Over => return None,
                Asked::Held { version, wait } => {
                    if plan.wait_policy == WaitPolicy::Leaves || self.context.is_over() {
                        return None;
                    }
                    observed = None;
                    if plan.wait_policy == WaitPolicy::Observes && wanted.shape == Shape::Mutex {
                        sleep_ms(wait * 1000).await;
                        observed = Some(version);
                    }
                }
                Asked::Unknown => match plan.restart_policy {
                    RestartPolicy::AtOnce => {}
                    RestartPolicy::After(millis) => sleep_ms(millis).await,
                    RestartPolicy::Never => return None,
                },
            }
        }
        None
    }
}

/// Copies of one request, each by another fleet. They may get different answers, but not two grants.
async fn acquire_at_once(
    caller: &Caller<'_>,
    wanted: &Wanted<'_>,
    step: Step,
    observed: Option<u64>,
    copies: u64,
) -> Asked {
    let fleets = crate::fixture::FLEETS.len();
    let copy = |n: usize| Step {
        fleet: (step.fleet + n) % fleets,
        fault: step.fault.filter(|_| n == 0),
        ..step
    };
    let copies = usize::try_from(copies).unwrap_or(1);
    let asked = (0..copies).map(|n| acquire(caller, wanted, copy(n), observed));
    let asked = join_all(asked).await;
    let best = asked.into_iter().min_by_key(|asked| match asked {
        Asked::Granted(..) => 0,
        Asked::Unknown => 1,
        Asked::Held { .. } => 2,
        Asked::Over => 3,
    });
    best.unwrap_or(Asked::Over)
}

/// One call of acquire, and what it says of the rows.
pub(super) async fn acquire(
    caller: &Caller<'_>,
    wanted: &Wanted<'_>,
    step: Step,
    observed: Option<u64>,
) -> Asked {
    let mut payload = json!({
        "key": wanted.key,
        "holder": caller.holder,
        "request_id": wanted.request_id,
        "ttl_seconds": seconds(wanted.ttl),
        "metadata": {"mark": caller.mark},
    });
    if let Shape::Permits(permits) = wanted.shape {
        payload["permits"] = permits.into();
    }
    if let Some(version) = observed {
        payload["observed_version"] = version.into();
    }
    if wanted.reentrant {
        payload["reentrant"] = true.into();
    }
    // The same in another form.
    if step.after.is_multiple_of(2) {
        payload["on_held"] = "result".into();
    }
    let reply = caller.call("acquire", step, &payload, &caller.mark).await;
    let names = &caller.context.names;
    let ask = Invocation::Acquire {
        holder: names.of(&caller.holder),
        request: names.of(&format!("{} {}", caller.holder, wanted.request_id)),
        ttl: wanted.ttl.try_into().unwrap_or(i64::MAX),
        observed,
        reentrant: wanted.reentrant,
    };
    let end = reply.end;
    let (response, at, asked) = match &reply.answer {
        Answer::Well(answer) if answer["outcome"] == "acquired" => {
            let Some(handle) = caller.handle(&answer["lease"]) else {
                return Asked::Over;
            };
            if !wanted.covers(&handle.place) {
                caller.unexpected(&format!("{} for {}", handle.place, wanted.key));
            }
            let grant = answer["grant"].as_str().unwrap_or_default();
            let response = caller.granted(grant, &handle, &answer["previous"]);
            (
                response,
                handle.place.permit,
                Asked::Granted(Box::new(handle), end),
            )
        }
        Answer::Well(answer) => {
            let (response, asked) = held(caller, &answer["held"], answer);
            (response, 0, asked)
        }
        Answer::Error(name, message) => match name.as_str() {
            "Lease.Held" => {
                let (response, asked) = held(caller, message, message);
                (response, 0, asked)
            }
            "Lease.Consumed" => (Response::Consumed, 0, Asked::Over),
            _ => {
                caller.unexpected(&format!("acquire: {name}"));
                (Response::Unknown, 0, Asked::Over)
            }
        },
        Answer::Unknown => (Response::Unknown, 0, Asked::Unknown),
    };
    record(caller, wanted, &reply, &ask, &response, at);
    asked
}

fn held(caller: &Caller<'_>, held: &Value, when: &Value) -> (Response, Asked) {
    let asked = Asked::Held {
        version: held["version"].as_u64().unwrap_or_default(),
        wait: when["wait_seconds"].as_u64().unwrap_or_default(),
    };
    (caller.held(held), asked)
}

/// What is said of a semaphore's refusal is about no row alone. But each of its rows may have been granted to a
/// request whose answer was lost.
fn record(
    caller: &Caller<'_>,
    wanted: &Wanted<'_>,
    reply: &Reply,
    ask: &Invocation,
    response: &Response,
    at: u16,
) {
    for permit in 0..wanted.shape.permits() {
        let about_it = wanted.shape == Shape::Mutex
            || (permit == at && matches!(response, Response::Granted { .. }));
        if !about_it && reply.besides == ExtraEffect::Nothing {
            continue;
        }
        let place = Place {
            key: wanted.key.to_owned(),
            permit,
        };
        let response = if about_it {
            response.clone()
        } else {
            Response::Unknown
        };
        caller
            .context
            .record(place, reply.op(ask.clone(), response));
    }
}

impl Reply {
    /// The call as the history has it.
    #[must_use]
    pub fn op(&self, ask: Invocation, response: Response) -> Op {
        Op {
            begin: self.begin,
            end: self.end,
            clock: self.clock,
            ask,
            response,
            besides: self.besides,
            by: self.by.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_beyond_the_last_is_none_that_was_asked_for() {
        let wanted = |shape| Wanted {
            key: "k",
            shape,
            ttl: 1000,
            reentrant: false,
            request_id: String::new(),
        };
        let covers = |shape, key: &str, permit| {
            let key = key.to_owned();
            wanted(shape).covers(&Place { key, permit })
        };
        assert!(covers(Shape::Mutex, "k", 0) && covers(Shape::Permits(3), "k", 2));
        assert!(!covers(Shape::Mutex, "k", 1) && !covers(Shape::Permits(3), "k", 3));
        assert!(!covers(Shape::Mutex, "j", 0));
    }
}
