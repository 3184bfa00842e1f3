//! What a holder does: work, extend, oversleep, write to what the lease protects, release.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Client, Shape};
use crate::calls::{Answer, Caller, Handle, seconds};
use crate::fixture::{GRACE, SKEW};
use crate::history::{Belief, Denial, Invocation, Micros, Millis, Response};
use crate::plan::{End, Section, Step, Work};
use crate::watch::{BLUR, sleep_ms};

/// What an extend came to.
pub(super) enum Extended {
    Yes(Box<Handle>),
    Lost(Micros),
    /// Expired, or nobody knows.
    No,
}

impl Client<'_> {
    /// Holds them as planned, to the end. The handles as they were known last.
    pub(super) async fn hold(
        &self,
        caller: &Caller<'_>,
        plan: &Section,
        mut handles: Vec<Handle>,
        since: Micros,
        shape: Shape,
    ) -> Vec<Handle> {
        let beliefs = handles
            .iter()
            .map(|handle| self.belief(caller, handle, since));
        let mut beliefs: Vec<_> = beliefs.collect();
        let writes = plan.writes && shape == Shape::Mutex;
        let read = if writes {
            self.enter(&handles[0]).await
        } else {
            None
        };
        for work in &plan.work {
            match work {
                Work::For(millis) => sleep_ms(*millis).await,
                Work::WrongLeaseId(step) => forge(caller, &handles[0], *step).await,
                Work::WriteAfterExpiry(millis) => {
                    let over = self.until(handles[0].expires_at);
                    let left = over.saturating_sub(self.context.watch.now()) / 1000;
                    sleep_ms(left + millis).await;
                }
                Work::Extend {
                    step,
                    ttl,
                    require_unexpired,
                    copies,
                } => {
                    let copy = |n| Step {
                        fault: step.fault.filter(|_| n == 0),
                        ..*step
                    };
                    for (handle, belief) in handles.iter_mut().zip(&mut beliefs) {
                        let held = &*handle;
                        let extends = (0..*copies)
                            .map(|n| extend(caller, held, copy(n), *ttl, *require_unexpired));
                        for extended in join_all(extends).await {
                            match extended {
                                Extended::Yes(longer) => {
                                    belief.until = belief.until.max(self.until(longer.safe_until));
                                    *handle = *longer;
                                }
                                Extended::Lost(at) if handle.has_deadline() => {
                                    belief.until = belief.until.min(at);
                                }
                                // While its execution runs, nobody may take it.
                                Extended::Lost(at) => {
                                    let denial = Denial {
                                        place: handle.place.clone(),
                                        token: handle.token,
                                        at,
                                    };
                                    self.context.history().denials.push(denial);
                                }
                                Extended::No => {}
                            }
                        }
                    }
                }
            }
        }
        if let Some(read) = read {
            self.add(&handles[0], read).await;
        }
        if let End::Release(step, copies) = plan.end {
            sleep_ms(step.after).await;
            let now = self.context.watch.now();
            for belief in &mut beliefs {
                belief.until = belief.until.min(now);
            }
            let step = Step { after: 0, ..step };
            let releases = (0..copies).map(|_| release(caller, &handles, step));
            join_all(releases).await;
        }
        if !handles[0].has_deadline() {
            self.end_execution(caller, plan, &mut beliefs).await;
        }
        self.context.history().beliefs.extend(beliefs);
        if let End::Reaped(step) = plan.end {
            sleep_ms(step.after).await;
            let at_rest = handles[0].has_deadline();
            reap(caller, Step { after: 0, ..step }, at_rest).await;
        }
        handles
    }

    /// The execution succeeds after its release, and dies otherwise. Then something of it is at work for as long as the
    /// grace lasts.
    async fn end_execution(&self, caller: &Caller<'_>, plan: &Section, beliefs: &mut [Belief]) {
        let mut status = "SUCCEEDED";
        if !matches!(plan.end, End::Release(..)) {
            sleep_ms(plan.silence).await;
            status = if plan.writes { "FAILED" } else { "ABORTED" };
            // The look that finds it over, and the one that ends the lease, may be by clocks that differ.
            let rest = u64::try_from(GRACE - SKEW - BLUR).unwrap_or(0) * 1000;
            for belief in beliefs {
                belief.until = belief.until.min(self.context.watch.now() + rest);
            }
        }
        self.context
            .fixture
            .step_functions
            .end(&caller.holder, status);
    }

    fn belief(&self, caller: &Caller<'_>, handle: &Handle, since: Micros) -> Belief {
        Belief {
            place: handle.place.clone(),
            token: handle.token,
            from: since,
            until: self.until(handle.safe_until),
            holder: caller.holder.clone(),
            by: format!("{}{}", caller.mark, caller.holder),
        }
    }

    /// When its own clock shows this.
    fn until(&self, safe_until: Millis) -> Micros {
        self.context.watch.at(safe_until - self.clock_offset)
    }

    /// The number that was read on coming in.
    async fn enter(&self, handle: &Handle) -> Option<u64> {
        let (resource, key) = (&self.context.fixture.resource, &handle.place.key);
        let read = resource.enter(key, handle.token).await;
        self.context.history().fenced += u64::from(read.is_none());
        read
    }

    /// Writes the number, whether its lease is over or not: the fence is to tell.
    async fn add(&self, handle: &Handle, read: u64) {
        let (resource, key) = (&self.context.fixture.resource, &handle.place.key);
        let passed = resource.add(key, handle.token, read).await;
        let mut history = self.context.history();
        *history.writes.entry(key.clone()).or_default() += u64::from(passed);
        history.fenced += u64::from(!passed);
    }
}

pub(super) async fn extend(
    caller: &Caller<'_>,
    handle: &Handle,
    step: Step,
    ttl: Option<u64>,
    require_unexpired: bool,
) -> Extended {
    let mut payload = json!({"lease": handle.raw});
    if let Some(ttl) = ttl {
        payload["ttl_seconds"] = seconds(ttl);
    }
    if require_unexpired {
        payload["require_unexpired"] = true.into();
    }
    let reply = caller.call("extend", step, &payload, &handle.secret).await;
    let ask = Invocation::Extend {
        token: handle.token,
        lease: handle.lease,
        ttl: ttl.map_or_else(|| own_ttl(&handle.raw), |ttl| ttl.try_into().unwrap_or(0)),
        require_unexpired,
    };
    let (response, extended) = match &reply.answer {
        Answer::Well(answer) => {
            let Some(longer) = caller.handle(&answer["lease"]) else {
                return Extended::No;
            };
            if (longer.token, longer.lease) != (handle.token, handle.lease) {
                caller.unexpected(&format!("an extend answered with another lease: {answer}"));
            }
            let response = Response::Extended {
                revived: answer["outcome"] == "revived",
                version: longer.version,
                expires_at: longer.expires_at,
            };
            (response, Extended::Yes(Box::new(longer)))
        }
        Answer::Error(name, _) if name == "Lease.Lost" => {
            (Response::Lost, Extended::Lost(reply.end))
        }
        Answer::Error(name, _) if name == "Lease.Expired" => (Response::Expired, Extended::No),
        Answer::Error(name, _) => {
            caller.unexpected(&format!("extend: {name}"));
            (Response::Unknown, Extended::No)
        }
        Answer::Unknown => (Response::Unknown, Extended::No),
    };
    caller
        .context
        .record(handle.place.clone(), reply.op(ask, response));
    extended
}

/// The length that the handle says.
fn own_ttl(lease: &Value) -> Millis {
    let seconds = lease["ttl_seconds"].as_f64().unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "a few thousand")]
    let millis = (seconds * 1000.0).round() as Millis;
    millis
}

/// Who has seen a token, which is public, and guesses the proof.
async fn forge(caller: &Caller<'_>, handle: &Handle, step: Step) {
    let mut forged = handle.clone();
    let turned: String = handle.secret.chars().rev().collect();
    forged.raw["lease_id"] = turned.clone().into();
    forged.lease = caller.context.names.of(&turned);
    forged.secret = turned;
    let _ = extend(caller, &forged, step, None, false).await;
}

/// Releases them with one call.
pub(super) async fn release(caller: &Caller<'_>, handles: &[Handle], step: Step) {
    let payload = match handles {
        [one] => json!({"lease": one.raw}),
        several => {
            let raw: Vec<_> = several.iter().map(|handle| &handle.raw).collect();
            json!({"leases": raw})
        }
    };
    let secret = &handles[0].secret;
    let reply = caller.call("release", step, &payload, secret).await;
    for (n, handle) in handles.iter().enumerate() {
        let response = match &reply.answer {
            Answer::Well(answer) if handles.len() == 1 => ending(caller, &answer["outcome"]),
            Answer::Well(answer) => ending(caller, &answer["outcomes"][n]),
            Answer::Error(name, _) => {
                caller.unexpected(&format!("release: {name}"));
                Response::Unknown
            }
            Answer::Unknown => Response::Unknown,
        };
        let ask = Invocation::Release {
            token: handle.token,
            lease: handle.lease,
        };
        let place = handle.place.clone();
        caller.context.record(place, reply.op(ask, response));
    }
}

/// Tells that the caller is no more, and perhaps that nothing of it is at work.
async fn reap(caller: &Caller<'_>, step: Step, at_rest: bool) {
    let context = caller.context;
    let now = context.watch.now();
    for belief in &mut context.history().beliefs {
        if at_rest && belief.holder == caller.holder {
            belief.until = belief.until.min(now);
        }
    }
    let payload = json!({
        "source": "aws.states",
        "detail-type": "Step Functions Execution Status Change",
        "detail": {"executionArn": caller.holder, "status": "SUCCEEDED"},
    });
    // None of its requests is like no other, for a fault to meet it alone.
    let step = Step {
        fault: None,
        ..step
    };
    let reply = caller.call("reap", step, &payload, "").await;
    if let Answer::Error(name, _) = &reply.answer {
        caller.unexpected(&format!("reap: {name}"));
    }
    let holder = context.names.of(&caller.holder);
    context.anywhere(&reply.op(Invocation::Reap { holder }, Response::Done));
}

/// What a release says of one lease.
fn ending(caller: &Caller<'_>, outcome: &Value) -> Response {
    match outcome.as_str() {
        Some("released") => Response::Released,
        Some("already_released") => Response::AlreadyReleased,
        Some("lost") => Response::Lost,
        Some("kept") => Response::Kept,
        _ => {
            caller.unexpected(&format!("release: {outcome}"));
            Response::Unknown
        }
    }
}
