//! A section with several keys, all or none.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::Client;
use super::holding::{ending, extend};
use crate::calls::{Answer, Caller, Handle, Reply, seconds};
use crate::history::Belief;
use crate::history::{ExtraEffect, Invocation, Micros, Place, Response};
use crate::plan::{End, RestartPolicy, Section, Step, WaitPolicy, Work};
use crate::rng::seeded;
use crate::watch::sleep_ms;

impl Client<'_> {
    pub(super) async fn several(&self, caller: &Caller<'_>, plan: &Section) {
        let keys = chosen(plan, &self.context.keys.sets);
        let mut granted = None;
        for step in &plan.asks {
            match acquire(caller, plan, &keys, *step).await {
                Asked::Granted(handles, since) => {
                    granted = Some((handles, since));
                    break;
                }
                Asked::Over => return,
                Asked::Held if plan.wait_policy == WaitPolicy::Leaves || self.context.is_over() => {
                    return;
                }
                Asked::Held => {}
                Asked::Unknown => match plan.restart_policy {
                    RestartPolicy::AtOnce => {}
                    RestartPolicy::After(millis) => sleep_ms(millis).await,
                    RestartPolicy::Never => return,
                },
            }
        }
        let Some((handles, since)) = granted else {
            return;
        };
        let mut beliefs: Vec<Belief> = handles
            .iter()
            .map(|handle| self.belief(caller, handle, since))
            .collect();
        for work in &plan.work {
            match work {
                Work::For(millis) => sleep_ms(*millis).await,
                Work::Extend { step, ttl, .. } => {
                    let extends = handles
                        .iter()
                        .map(|handle| extend(caller, handle, *step, *ttl, false));
                    for (belief, extended) in beliefs.iter_mut().zip(join_all(extends).await) {
                        match extended {
                            super::holding::Extended::Yes(longer) => {
                                belief.until = belief.until.max(self.until(longer.safe_until));
                            }
                            super::holding::Extended::Lost(at) => {
                                belief.until = belief.until.min(at);
                            }
                            super::holding::Extended::No => {}
                        }
                    }
                }
                Work::WrongLeaseId(_) | Work::WriteAfterExpiry(_) => {}
            }
        }
        if let End::Release(step, _) = plan.end {
            sleep_ms(step.after).await;
            let now = self.context.watch.now();
            for belief in &mut beliefs {
                belief.until = belief.until.min(now);
            }
            release(caller, &handles, Step { after: 0, ..step }).await;
        }
        self.context.history().beliefs.extend(beliefs);
    }
}

enum Asked {
    Granted(Vec<Handle>, Micros),
    Held,
    Over,
    Unknown,
}

/// Two or three that differ.
fn chosen(plan: &Section, keys: &[String]) -> Vec<String> {
    let rng = &mut seeded(plan.key, &[]);
    let mut left = keys.to_vec();
    let many = rng.usize(2..=3);
    (0..many)
        .map(|_| left.swap_remove(rng.usize(..left.len())))
        .collect()
}

async fn acquire(caller: &Caller<'_>, plan: &Section, keys: &[String], step: Step) -> Asked {
    let payload = json!({
        "keys": keys,
        "holder": caller.holder,
        "request_id": format!("section-{}", plan.number),
        "ttl_seconds": seconds(plan.ttl),
        "metadata": {"mark": caller.mark},
    });
    let reply = caller.call("acquire", step, &payload, &caller.mark).await;
    let names = &caller.context.names;
    let ask = Invocation::Acquire {
        holder: names.of(&caller.holder),
        request: names.of(&format!("{} section-{}", caller.holder, plan.number)),
        ttl: plan.ttl.try_into().unwrap_or(i64::MAX),
        observed: None,
        reentrant: false,
    };
    let record = |key: &str, response: Response| {
        let place = Place {
            key: key.to_owned(),
            permit: 0,
        };
        caller
            .context
            .record(place, reply.op(ask.clone(), response));
    };
    match &reply.answer {
        Answer::Well(answer) => {
            let leases = answer["leases"].as_array().map_or(&[][..], Vec::as_slice);
            let handles: Option<Vec<_>> = leases.iter().map(|l| caller.handle(l)).collect();
            let handles = handles.unwrap_or_default();
            if handles.len() != keys.len() {
                caller.unexpected(&format!("a set that is none: {answer}"));
                return Asked::Over;
            }
            for (n, handle) in handles.iter().enumerate() {
                if handle.place.key != keys[n] {
                    caller.unexpected(&format!("{} for {}", handle.place, keys[n]));
                }
                let previous = &answer["previous"][n];
                let grant = kind(&answer["grant"], previous);
                record(&keys[n], caller.granted(grant, handle, previous));
            }
            Asked::Granted(handles, reply.end)
        }
        Answer::Error(name, message) if name == "Lease.Held" => {
            let key = message["key"].as_str().unwrap_or_default();
            record(key, caller.held(message));
            let others: Vec<_> = keys.iter().filter(|other| *other != key).collect();
            perhaps(&reply, &others, &record);
            Asked::Held
        }
        Answer::Error(name, _) => {
            if name != "Lease.Consumed" {
                caller.unexpected(&format!("acquire of several: {name}"));
            }
            perhaps(&reply, &keys.iter().collect::<Vec<_>>(), &record);
            Asked::Over
        }
        Answer::Unknown => {
            perhaps(&reply, &keys.iter().collect::<Vec<_>>(), &record);
            Asked::Unknown
        }
    }
}

/// The answer for the whole is "takeover" if any key was taken over.
fn kind(grant: &Value, previous: &Value) -> &'static str {
    if grant == "replayed" {
        "replayed"
    } else if previous.is_null() || previous["ended"] == "released" {
        "new"
    } else {
        "takeover"
    }
}

/// Nothing was answered about these, but something may have happened to them.
fn perhaps(reply: &Reply, keys: &[&String], record: &impl Fn(&str, Response)) {
    if reply.besides != ExtraEffect::Nothing {
        for key in keys {
            record(key, Response::Unknown);
        }
    }
}

async fn release(caller: &Caller<'_>, handles: &[Handle], step: Step) {
    let raw: Vec<_> = handles.iter().map(|handle| &handle.raw).collect();
    let payload = json!({"leases": raw});
    let reply = caller
        .call("release", step, &payload, &handles[0].secret)
        .await;
    for (n, handle) in handles.iter().enumerate() {
        let response = match &reply.answer {
            Answer::Well(answer) => ending(caller, &answer["outcomes"][n]),
            Answer::Error(name, _) => {
                caller.unexpected(&format!("release of several: {name}"));
                Response::Unknown
            }
            Answer::Unknown => Response::Unknown,
        };
        let ask = Invocation::Release {
            token: handle.token,
            lease: handle.lease,
        };
        caller
            .context
            .record(handle.place.clone(), reply.op(ask, response));
    }
}
