//! All executions of a small definition, second by second: the second opinion.
//!
//! The state of an execution is its position and the age of its lease. Beyond a certain age all ages are equal, so there are
//! finitely many states, and all are visited. Every attempt takes no time or its whole limit. Every call fails in every possible way.

use super::definition::{Definition, Inner, Limit, Target};
use std::collections::HashSet;

/// The clock margin and the guard, which are subtracted from a lease.
const LOST_SECONDS: u64 = 3;

/// The execution's state of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Lease {
    /// It was never granted.
    Never,
    /// It was released, or is lost.
    Over,
    /// Seconds since it was last granted or extended.
    Held(u64),
    /// The same, and an abandoned function may still be running.
    Abandoned(u64),
}

struct Walk<'a> {
    definition: &'a Definition,
    seen: HashSet<(Target, Lease)>,
    open: Vec<(Target, Lease)>,
    /// The states that work under the lease or use its handle, and the states before it.
    with: HashSet<Target>,
    without: HashSet<Target>,
    fault: Option<String>,
}

/// The fault of a definition, if there is one.
pub fn worst(definition: &Definition) -> Option<String> {
    let mut walk = Walk {
        definition,
        seen: HashSet::new(),
        open: Vec::new(),
        with: HashSet::new(),
        without: HashSet::new(),
        fault: None,
    };
    walk.go(Target::Acquire, Lease::Never);
    if let Some(target) = definition.around {
        walk.go(target, Lease::Never);
    }
    while let (Some((at, lease)), None) = (walk.open.pop(), &walk.fault) {
        walk.step(at, lease);
    }
    let both = walk.with.intersection(&walk.without).next();
    let unprotected = both.map(|at| format!("{at:?} is done with the lease and without it"));
    walk.fault.or(unprotected)
}

/// All times that up to this many failed attempts, with growing waits between them, and one more attempt may take.
fn times(limit: u64, again: u64, first_wait: u64, rate: u64) -> Vec<u64> {
    let mut all = vec![0, limit];
    let mut before = vec![0];
    let mut wait = first_wait;
    for _ in 0..again {
        let failed = before
            .iter()
            .flat_map(|time| [time + wait, time + wait + limit]);
        before = failed.collect();
        all.extend(before.iter().flat_map(|time| [*time, time + limit]));
        wait *= rate;
    }
    all.sort_unstable();
    all.dedup();
    all
}

impl Walk<'_> {
    fn trusted(&self) -> u64 {
        self.definition.ttl - LOST_SECONDS
    }

    fn later(&self, lease: Lease, seconds: u64) -> Lease {
        let add = |age: u64| (age + seconds).min(self.trusted() + 1);
        match lease {
            Lease::Never | Lease::Over => lease,
            Lease::Held(age) => Lease::Held(add(age)),
            Lease::Abandoned(age) => Lease::Abandoned(add(age)),
        }
    }

    fn wrong(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }

    fn go(&mut self, to: Target, lease: Lease) {
        if self.seen.insert((to, lease)) {
            self.open.push((to, lease));
        }
    }

    /// Goes to the target of an error, or to the end of the execution.
    fn fail(&mut self, to: Option<Target>, lease: Lease) {
        self.go(to.unwrap_or(Target::Failed), lease);
    }

    fn step(&mut self, at: Target, lease: Lease) {
        match at {
            Target::Acquire => self.acquire(lease),
            Target::Inner(nth) => {
                let definition = self.definition;
                self.inner(at, &definition.inner[nth], lease);
            }
            Target::Release => self.release(at, Target::Done, lease),
            Target::GiveBack => self.release(at, Target::Failed, lease),
            Target::MayRun | Target::Failed | Target::Done => {
                if let Lease::Held(_) = lease {
                    self.wrong(format!("ends at {at:?} without a release"));
                }
            }
        }
    }

    /// An extend or a release needs a handle, even of an ended lease.
    fn takes_handle(&mut self, at: Target, lease: Lease) {
        let met = match lease {
            Lease::Never => &mut self.without,
            _ => &mut self.with,
        };
        met.insert(at);
    }

    fn release(&mut self, at: Target, to: Target, lease: Lease) {
        self.takes_handle(at, lease);
        let after = match lease {
            Lease::Never => Lease::Never,
            _ => Lease::Over,
        };
        self.go(to, after);
    }

    fn acquire(&mut self, lease: Lease) {
        if let Lease::Held(_) = lease {
            self.wrong("acquires although it has the lease already".to_owned());
        }
        // The first attempt was granted the lease, and each response but the last was lost.
        for age in times(
            self.definition.acquire_limit,
            self.definition.acquire_again,
            2,
            1,
        ) {
            let granted = self.later(Lease::Held(0), age);
            self.go(Target::Inner(0), granted);
        }
        let after = match lease {
            Lease::Never => Lease::Never,
            _ => Lease::Over,
        };
        self.fail(self.definition.acquire_caught, after);
    }

    /// Work that begins now and takes this long.
    fn works(&mut self, at: Target, lease: Lease, seconds: u64) -> Lease {
        match lease {
            Lease::Held(_) => _ = self.with.insert(at),
            Lease::Never => _ = self.without.insert(at),
            Lease::Over | Lease::Abandoned(_) => {}
        }
        let after = self.later(lease, seconds);
        if let Lease::Held(age) | Lease::Abandoned(age) = after
            && seconds > 0
            && age > self.trusted()
        {
            self.wrong("works when the lease cannot be trusted any more".to_owned());
        }
        after
    }

    fn inner(&mut self, at: Target, inner: &Inner, lease: Lease) {
        match inner {
            Inner::Work {
                limit,
                again,
                on_timeout,
                on_all,
                next,
            } => {
                let limit = match (limit, lease) {
                    (Limit::Seconds(seconds), _) => *seconds,
                    (Limit::Absent, _) => self.definition.ttl * 10,
                    (Limit::Safe, Lease::Held(age) | Lease::Abandoned(age)) => {
                        // No time is left, so the limit has no value and nothing begins.
                        self.fail(*on_all, lease);
                        match self.trusted().saturating_sub(age) {
                            0 => return,
                            left => left,
                        }
                    }
                    (Limit::Safe, Lease::Never | Lease::Over) => return self.fail(*on_all, lease),
                };
                let is_safe = matches!(
                    inner,
                    Inner::Work {
                        limit: Limit::Safe,
                        ..
                    }
                );
                for seconds in times(limit, again.0, again.1, 2) {
                    // Every attempt computes the remaining time again.
                    if is_safe && seconds > limit {
                        continue;
                    }
                    let after = self.works(at, lease, seconds);
                    self.go(*next, after);
                    self.fail(*on_all, after);
                    let abandoned = match after {
                        Lease::Held(age) => Lease::Abandoned(age),
                        other => other,
                    };
                    self.fail(on_timeout.or(*on_all), abandoned);
                }
            }
            Inner::Extend {
                limit,
                again,
                on_lost,
                on_all,
                next,
            } => {
                self.takes_handle(at, lease);
                if lease == Lease::Never {
                    return self.fail(*on_all, lease);
                }
                self.fail(on_lost.or(*on_all), Lease::Over);
                if lease == Lease::Over {
                    return;
                }
                for seconds in times(*limit, *again, 1, 2) {
                    let after = self.later(lease, seconds);
                    self.fail(*on_all, after);
                }
                for age in [0, *limit] {
                    let age = age.min(self.trusted() + 1);
                    let extended = match lease {
                        Lease::Abandoned(_) => Lease::Abandoned(age),
                        _ => Lease::Held(age),
                    };
                    self.go(*next, extended);
                }
            }
            Inner::Wait(seconds, next) => {
                let after = self.later(lease, *seconds);
                self.go(*next, after);
            }
            Inner::Choice(rules, default) => {
                for next in rules {
                    self.go(*next, lease);
                }
                self.fail(*default, lease);
            }
            Inner::Both(left, right, on_all, next) => {
                for seconds in [0, *left, *right] {
                    let after = self.works(at, lease, seconds);
                    // The other one is still running.
                    let abandoned = match after {
                        Lease::Held(age) => Lease::Abandoned(age),
                        other => other,
                    };
                    self.fail(*on_all, abandoned);
                }
                let after = self.works(at, lease, *left.max(right));
                self.go(*next, after);
                self.go(*next, lease);
            }
        }
    }
}
