//! A section with a key, a permit of one, or several keys, all or none: asking for it, and what comes after.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::holding::{extend, release};
use super::{Client, Shape};
use crate::calls::{Answer, Caller, Handle, Reply, seconds};
use crate::history::{ExtraEffect, Invocation, Micros, Op, Place, Response};
use crate::plan::{DuplicateCall, RestartPolicy, Section, Step, WaitPolicy};
use crate::watch::sleep_ms;

/// What became of asking.
pub(super) enum Asked {
    Granted(Vec<Handle>, Micros),
    Held {
        version: u64,
        wait: u64,
    },
    /// It had its lease, or there is nothing to be had.
    Over,
    Unknown,
}

/// What is asked for.
pub(super) struct Wanted {
    pub(super) keys: Vec<String>,
    pub(super) shape: Shape,
    pub(super) ttl: u64,
    pub(super) reentrant: bool,
    pub(super) request_id: String,
}

impl Wanted {
    /// By the section with the same number of this client.
    pub(super) fn by(plan: &Section, keys: Vec<String>, shape: Shape) -> Self {
        Self {
            keys,
            shape,
            ttl: plan.ttl,
            reentrant: false,
            request_id: format!("section-{}", plan.number),
        }
    }

    /// The rows of which one is asked for, or all of a set.
    fn places(&self) -> Vec<Place> {
        let keys = self.keys.iter();
        let places = keys.flat_map(|key| {
            let place = |permit| Place {
                key: key.clone(),
                permit,
            };
            (0..self.shape.permits()).map(place)
        });
        places.collect()
    }
}

impl Client<'_> {
    pub(super) async fn lease(
        &self,
        caller: &Caller<'_>,
        plan: &Section,
        keys: Vec<String>,
        shape: Shape,
    ) {
        let wanted = Wanted {
            reentrant: plan.reentrant && shape == Shape::Mutex,
            ..Wanted::by(plan, keys, shape)
        };
        let Some((handles, since)) = self.ask_until_granted(caller, plan, &wanted).await else {
            return;
        };
        let handles = self.hold(caller, plan, handles, since, shape).await;
        let Some((duplicate, later)) = plan.duplicate.filter(|_| shape != Shape::Set) else {
            return;
        };
        sleep_ms(later).await;
        match duplicate {
            DuplicateCall::Ask(step) => drop(acquire(caller, &wanted, step, None).await),
            DuplicateCall::Extend(step) => {
                let _ = extend(caller, &handles[0], step, None, false).await;
            }
            DuplicateCall::Release(step) => release(caller, &handles, step).await,
        }
    }

    pub(super) async fn ask_until_granted(
        &self,
        caller: &Caller<'_>,
        plan: &Section,
        wanted: &Wanted,
    ) -> Option<(Vec<Handle>, Micros)> {
        let mut observed = None;
        for (n, step) in plan.asks.iter().enumerate() {
            let copies = match wanted.shape {
                Shape::Mutex | Shape::Permits(_) if n == 0 => plan.copies,
                _ => 1,
            };
            match acquire_at_once(caller, wanted, *step, observed, copies).await {
                Asked::Granted(handles, since) => return Some((handles, since)),
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
    wanted: &Wanted,
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
async fn acquire(caller: &Caller<'_>, wanted: &Wanted, step: Step, observed: Option<u64>) -> Asked {
    let mut payload = json!({
        "holder": caller.holder,
        "request_id": wanted.request_id,
        "ttl_seconds": seconds(wanted.ttl),
        "metadata": {"mark": caller.mark},
    });
    match wanted.shape {
        Shape::Set => payload["keys"] = json!(wanted.keys),
        Shape::Mutex | Shape::Permits(_) => payload["key"] = json!(wanted.keys[0]),
    }
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
    if step.after.is_multiple_of(2) && wanted.shape != Shape::Set {
        payload["if_held"] = "skip".into();
    }
    let reply = caller.call("acquire", step, &payload, &caller.mark).await;
    let (said, asked) = read(caller, wanted, &reply);
    let names = &caller.context.names;
    let ask = Invocation::Acquire {
        holder: names.of(&caller.holder),
        request: names.of(&format!("{} {}", caller.holder, wanted.request_id)),
        ttl: wanted.ttl.try_into().unwrap_or(i64::MAX),
        observed,
        reentrant: wanted.reentrant,
    };
    for place in wanted.places() {
        let about_it = said.iter().find(|(of, _)| *of == place);
        // Each row that nothing is said of may have been granted to a request whose answer was lost.
        let response = about_it.map_or(Response::Unknown, |(_, response)| response.clone());
        if about_it.is_some() || reply.besides != ExtraEffect::Nothing {
            caller
                .context
                .record(place, reply.op(ask.clone(), response));
        }
    }
    asked
}

/// What an answer says of rows. What is said of a semaphore's refusal is about no row alone.
fn read(caller: &Caller<'_>, wanted: &Wanted, reply: &Reply) -> (Vec<(Place, Response)>, Asked) {
    let of_all = |response: Response| {
        let places = wanted.places().into_iter();
        let places = places.filter(|_| wanted.shape == Shape::Mutex);
        places.map(move |place| (place, response.clone())).collect()
    };
    match &reply.answer {
        Answer::Well(answer) if answer["outcome"] == "acquired" => {
            granted(caller, wanted, reply, answer)
        }
        Answer::Well(answer) => held(caller, wanted, &answer["held"], answer),
        Answer::Error(name, message) => match name.as_str() {
            "Lease.Held" => held(caller, wanted, message, message),
            "Lease.Consumed" => (of_all(Response::Consumed), Asked::Over),
            _ => {
                caller.unexpected(&format!("acquire: {name}"));
                (Vec::new(), Asked::Over)
            }
        },
        Answer::Unknown => (Vec::new(), Asked::Unknown),
    }
}

fn granted(
    caller: &Caller<'_>,
    wanted: &Wanted,
    reply: &Reply,
    answer: &Value,
) -> (Vec<(Place, Response)>, Asked) {
    let leases = match wanted.shape {
        Shape::Set => answer["leases"].as_array().cloned().unwrap_or_default(),
        Shape::Mutex | Shape::Permits(_) => vec![answer["lease"].clone()],
    };
    let handles: Option<Vec<_>> = leases.iter().map(|lease| caller.handle(lease)).collect();
    let Some(handles) = handles.filter(|handles| handles.len() == wanted.keys.len()) else {
        caller.unexpected(&format!("not what was asked for: {answer}"));
        return (Vec::new(), Asked::Over);
    };
    let mut said = Vec::new();
    for (n, handle) in handles.iter().enumerate() {
        if !covers(wanted, n, &handle.place) {
            caller.unexpected(&format!("{} for {}", handle.place, wanted.keys[n]));
        }
        let (grant, previous) = match wanted.shape {
            Shape::Set => kind(&answer["grant"], &answer["previous"][n]),
            Shape::Mutex | Shape::Permits(_) => {
                let grant = answer["grant"].as_str().unwrap_or_default();
                (grant, &answer["previous"])
            }
        };
        let response = caller.granted(grant, handle, previous);
        said.push((handle.place.clone(), response));
    }
    (said, Asked::Granted(handles, reply.end))
}

/// Whether a lease of this row is what was asked for: no other key, and no permit beyond the last.
fn covers(wanted: &Wanted, n: usize, place: &Place) -> bool {
    place.key == wanted.keys[n] && place.permit < wanted.shape.permits()
}

/// The answer for a set is "takeover" if any key was taken over.
fn kind<'a>(grant: &Value, previous: &'a Value) -> (&'static str, &'a Value) {
    let kind = if grant == "replayed" || grant == "reentered" {
        "replayed"
    } else if previous.is_null() || previous["ended"] == "released" {
        "new"
    } else {
        "takeover"
    };
    (kind, previous)
}

fn held(
    caller: &Caller<'_>,
    wanted: &Wanted,
    held: &Value,
    when: &Value,
) -> (Vec<(Place, Response)>, Asked) {
    let asked = Asked::Held {
        version: held["version"].as_u64().unwrap_or_default(),
        wait: when["wait_seconds"].as_u64().unwrap_or_default(),
    };
    let response = caller.held(held);
    let key = match wanted.shape {
        Shape::Mutex => &wanted.keys[0],
        Shape::Set => held["key"].as_str().unwrap_or_default(),
        Shape::Permits(_) => return (Vec::new(), asked),
    };
    let place = Place {
        key: key.to_owned(),
        permit: 0,
    };
    (vec![(place, response)], asked)
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
    fn permit_beyond_last_is_not_covered() {
        let covers = |shape, key: &str, permit| {
            let wanted = Wanted::by(&Section::draw(1, 1, 1, 1), vec!["k".to_owned()], shape);
            let key = key.to_owned();
            covers(&wanted, 0, &Place { key, permit })
        };
        assert!(covers(Shape::Mutex, "k", 0) && covers(Shape::Permits(3), "k", 2));
        assert!(!covers(Shape::Mutex, "k", 1) && !covers(Shape::Permits(3), "k", 3));
        assert!(!covers(Shape::Mutex, "j", 0));
    }
}
