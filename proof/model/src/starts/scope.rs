//! The worlds of starts that are explored.

use super::{rows::Tick, service::Status};

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub tick: u8,
    /// Looks of sweep, or of reap.
    pub look: u8,
    pub crash: u8,
    /// Calls of `StartExecution` that take effect and are not answered.
    pub lost: u8,
    /// Those that take effect later or never.
    pub late: u8,
    /// Events that are delivered again.
    pub again: u8,
    /// Starts under a name that is used, with another input.
    pub other: u8,
    pub fail: u8,
    pub redrive: u8,
    /// An operator's force-release; or, where it is to be at once, a start that is stopped.
    pub force: u8,
    /// `wait_seconds` that are over.
    pub leave: u8,
    /// That the service begins or ceases to refuse every start for good, or for now.
    pub deny: u8,
    pub throttle: u8,
    /// Items that are purged.
    pub purge: u8,
    /// An operator repeats a start that has failed.
    pub repeat: u8,
    pub release: u8,
    /// That the key is granted to so many others that the row remembers none of ours.
    pub others: u8,
    /// Ended executions that the service forgets.
    pub forget: u8,
    /// Answers before which and the item's mark anything may happen; at the others both are one step.
    pub slow: u8,
}

pub const NOTHING: Budget = Budget {
    tick: 0,
    look: 0,
    crash: 0,
    lost: 0,
    late: 0,
    again: 0,
    other: 0,
    fail: 0,
    redrive: 0,
    force: 0,
    leave: 0,
    deny: 0,
    throttle: 0,
    purge: 0,
    repeat: 0,
    release: 0,
    others: 0,
    forget: 0,
    slow: 0,
};

/// One small world. Everything that its bounds allow happens in it, in every order.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub name: &'static str,
    /// What it is about, in a few words.
    pub about: &'static str,
    pub starts: u8,
    /// How many ticks a lease is kept after a failure.
    pub keep: Tick,
    /// Somebody else's execution has the first start's name, with another input.
    pub foreign: Option<Status>,
    /// The lease is passed in the input.
    pub passes: bool,
    /// A call of `StartExecution` may arrive however late, as if its signature were good for ever.
    pub ever: bool,
    /// An operator who cancels begins and stops at once, and does not wait for late calls.
    pub at_once: bool,
    pub budget: Budget,
}

impl Scope {
    /// The same, with one look, one duplicate and one slow mark more.
    pub const fn deeper(self) -> Self {
        let budget = Budget {
            look: self.budget.look + 1,
            again: self.budget.again + 1,
            slow: self.budget.slow + 1,
            ..self.budget
        };
        Self { budget, ..self }
    }
}

const SMALL: Scope = Scope {
    name: "",
    about: "",
    starts: 2,
    keep: 0,
    foreign: None,
    passes: false,
    ever: false,
    at_once: false,
    budget: NOTHING,
};

macro_rules! worlds {
    ($($id:ident $name:literal $about:literal { $($field:ident: $value:expr),* } $($budget:ident: $times:literal),*;)*) => {
        $(pub const $id: Scope = Scope {
            name: $name,
            about: $about,
            $($field: $value,)*
            budget: Budget { $($budget: $times,)* ..NOTHING },
            ..SMALL
        };)*

        /// All of them.
        pub const ALL: &[Scope] = &[$($id),*];
    };
}

worlds! {
    PLAIN "starts-plain" "three starts, looks side by side, a crash" { starts: 3 } look: 2, crash: 1;
    LATE "starts-late" "a call of StartExecution is late or lost" {} look: 2, late: 1, lost: 1, tick: 1, slow: 1;
    LATER "starts-later" "two calls are late, and somebody dies" {} look: 1, late: 2, crash: 1, tick: 1, slow: 1;
    AGAIN "starts-again" "events are delivered again, and functions die" {} look: 1, again: 2, crash: 1, slow: 1;
    ORPHAN "starts-orphan" "functions die between item and row" {} look: 2, again: 1, lost: 1, crash: 2;
    PURGED "starts-purged" "a served item is purged, its event comes again, and waits end" {} look: 1, again: 1, purge: 1, leave: 1, tick: 1, slow: 1;
    PURGED_ONE "starts-purged-one" "the same for one start, which may be refused" { starts: 1 } look: 2, again: 2, purge: 2, deny: 1, tick: 2;
    OTHER "starts-other" "two starts of one name and different inputs" {} look: 1, again: 1, other: 1, purge: 1, tick: 1;
    DIRECT "starts-direct" "two deliveries of one start, and it is refused for good" { starts: 1 } look: 1, again: 1, deny: 2, crash: 1, tick: 1, slow: 1;
    DENIED_ONE "starts-denied-one" "refused for good while an earlier call is not answered" { starts: 1 } look: 2, late: 1, lost: 1, deny: 2, tick: 3;
    DENIED "starts-denied" "the same, and another waits" {} look: 1, late: 1, deny: 1, tick: 3, slow: 1;
    THROTTLED "starts-throttled" "limits of the account" {} look: 2, throttle: 2, again: 1;
    LEAVING "starts-leaving" "wait_seconds end, while a call is under way and an event comes again" { starts: 2 } look: 1, leave: 1, late: 1, again: 1, slow: 1;
    LEAVING_THREE "starts-leaving-three" "wait_seconds end in a queue, and an event comes again" { starts: 3 } look: 1, leave: 2, again: 1;
    FORCED_ONE "starts-forced-one" "an operator cancels a start that may be under way" { starts: 1 } look: 2, force: 1, late: 1, tick: 3;
    FORCED "starts-forced" "the same, and another waits" {} look: 1, force: 1, late: 1, tick: 3;
    FORCED_TWICE "starts-forced-twice" "two of an operator's calls" {} look: 1, force: 2, tick: 1;
    STOPPED_ONE "starts-stopped-one" "an operator begins it and stops it at once, and calls are however late" { starts: 1, ever: true, at_once: true } look: 2, force: 1, late: 1, tick: 1;
    STOPPED "starts-stopped" "the same, and another waits" { ever: true, at_once: true } look: 1, force: 1, late: 1, crash: 1, tick: 1;
    FOREIGN_RUNS "starts-foreign-runs" "the name is used by somebody else's execution, which runs" { foreign: Some(Status::Running) } look: 1, late: 1, again: 1, slow: 1;
    FOREIGN_OVER "starts-foreign-over" "the name is used by somebody else's execution, which is over" { foreign: Some(Status::Succeeded) } look: 1, late: 1, again: 1, slow: 1;
    REDRIVEN "starts-redriven" "an execution fails and is redriven, without its lease" {} look: 1, fail: 1, redrive: 1, tick: 1, slow: 1;
    KEPT_ONE "starts-kept-one" "a lease is kept for redrives" { starts: 1, keep: 1 } look: 2, fail: 2, redrive: 2, tick: 3, slow: 1;
    KEPT "starts-kept" "the same, and another waits" { keep: 1 } look: 1, fail: 1, redrive: 1, tick: 2, slow: 1;
    PASSED "starts-passed" "the lease is part of the input, and duplicates have another one" { passes: true } look: 1, again: 1, purge: 1, late: 1, tick: 1, slow: 1;
    REPEATED_ONE "starts-repeated-one" "an operator repeats what was cancelled" { starts: 1, passes: true } look: 2, force: 1, repeat: 1, late: 1, tick: 3;
    REPEATED "starts-repeated" "an operator repeats what has waited too long" { passes: true } look: 1, leave: 1, repeat: 1, late: 1, slow: 1;
    RELEASED_ONE "starts-released-one" "an execution gives its lease back early, and its event comes again" { starts: 1 } look: 2, release: 1, again: 1, late: 1, tick: 1;
    RELEASED "starts-released" "the same, and another waits" {} look: 1, release: 1, crash: 1, late: 1, tick: 1, slow: 1;
    RELEASED_LONG "starts-released-long" "the same, and the row forgets who had the key" { starts: 1 } look: 2, release: 1, again: 1, crash: 1, others: 1, tick: 1;
    FORGOTTEN "starts-forgotten" "the service forgets an execution before its lease ends" {} look: 2, purge: 1, forget: 1, late: 1, tick: 2;
    EVER "starts-ever" "calls that are however late" { ever: true } look: 1, late: 1, tick: 1, again: 1, slow: 1;
}

/// A call comes later than any signature is good, and an answer of before denies what it began.
pub const SERVED_EVER: Scope = Scope {
    starts: 1,
    ever: true,
    budget: Budget {
        look: 2,
        late: 1,
        tick: 3,
        ..NOTHING
    },
    ..SMALL
};

/// Refused and waited out, and a call comes later than any signature is good. No design holds here.
pub const DENIED_EVER: Scope = Scope {
    starts: 1,
    ever: true,
    budget: Budget {
        look: 2,
        late: 1,
        deny: 1,
        tick: 3,
        ..NOTHING
    },
    ..SMALL
};
