//! The worlds of executions that are explored.

/// Worlds that differ from one in some fields, each with a budget of its own, and the list of them.
macro_rules! worlds {
    ($(#[$doc:meta])* $all:ident of $base:ident;
     $($id:ident $name:literal $about:literal { $($field:ident: $value:expr),* } $($budget:ident: $times:literal),*;)*) => {
        $(pub const $id: Scope = Scope {
            name: $name,
            about: $about,
            $($field: $value,)*
            budget: Budget { $($budget: $times,)* ..$base.budget },
            ..$base
        };)*

        $(#[$doc])*
        pub const $all: &[Scope] = &[$($id),*];
    };
}

mod pools;
mod programs;
mod results;
mod starts;
mod walks;

pub use pools::*;
pub use programs::*;
pub use results::*;
pub use starts::*;
pub use walks::*;

use leasehold::Receipt;

use super::{
    names::{KeyNo, Tick, Who},
    seam::{Answer, Ask},
};

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub tick: u8,
    /// Looks at executions by sweep.
    pub look: u8,
    pub reap: u8,
    /// Calls with a task token that are late, or whose answers are lost.
    pub lost: u8,
    /// Writes that are late, sent twice, or whose answers are lost.
    pub unheard: u8,
    pub crash: u8,
    /// A task that waits times out.
    pub timeout: u8,
    pub retry: u8,
    /// An execution that has given the key back asks for it once more.
    pub round: u8,
    pub fail: u8,
    /// An execution succeeds that need not: it holds for itself, or is to be stopped.
    pub end: u8,
    pub redrive: u8,
    pub evict: u8,
    /// An operator sets the limit to 0, or takes that back.
    pub limit: u8,
    /// Acquires and extends of programs.
    pub ask: u8,
    /// Writes of programs to the resource.
    pub write: u8,
    /// Clocks that jump.
    pub jump: u8,
    /// The row is purged, or deleted by hand.
    pub wipe: u8,
    /// Events of starts that come again, and those with a name that is used and another input.
    pub again: u8,
    pub other: u8,
    /// Calls of `StartExecution` that are refused for good; and questions and calls that are refused for now, or histories that cannot
    /// be read.
    pub deny: u8,
    pub throttle: u8,
    /// Calls and questions that the role may not make, for now.
    pub forbid: u8,
    /// Whether the index falls behind the table, and how often it catches up.
    pub index: u8,
    /// An operator freezes the key, or takes that back.
    pub freeze: u8,
    /// Executions that were started give their leases back early.
    pub release: u8,
    /// Sections of the same key within what has it.
    pub nest: u8,
    /// Items of starts that are purged.
    pub purge: u8,
    /// What operators do with starts.
    pub repeat: u8,
    pub dismiss: u8,
    pub begin: u8,
    /// Executions are stopped whose tasks wait for starts.
    pub caller: u8,
}

pub const NOTHING: Budget = Budget {
    tick: 0,
    look: 0,
    reap: 0,
    lost: 0,
    unheard: 0,
    crash: 0,
    timeout: 0,
    retry: 0,
    round: 0,
    fail: 0,
    end: 0,
    redrive: 0,
    evict: 0,
    limit: 0,
    ask: 0,
    write: 0,
    jump: 0,
    wipe: 0,
    again: 0,
    other: 0,
    deny: 0,
    throttle: 0,
    forbid: 0,
    index: 0,
    freeze: 0,
    release: 0,
    nest: 0,
    purge: 0,
    repeat: 0,
    dismiss: 0,
    begin: 0,
    caller: 0,
};

/// What an execution does whose task has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// It carries on without the lease.
    CarriesOn,
    /// It enters its acquire once more.
    AsksAnew,
    /// It does not ask: it is started, when it can have the key.
    Start(Held),
    /// It takes leases with a deadline: when the key is free, or in the queue by a task token, or of two keys at once.
    Program,
    Queued,
    Set,
}

/// How a lease is found to have expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// Clocks are within half the margin of the true time: no two believe that they hold.
    Agree,
    /// They are not: all other promises still hold.
    Differ,
    /// They are not, but run at the same rate, and leases are taken by observation only.
    Unasked,
}

/// What becomes of the first call of `StartExecution`, before anything else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstCall {
    Answered,
    /// It arrives later, or never.
    Late,
    /// Whoever is to call has not done so yet.
    Slow,
}

/// What a start does while somebody has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Wait,
    Latest,
    Replace,
    Skip,
    Fail,
}

/// One small world. Everything that its bounds allow happens in it, in every order.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Scope {
    pub name: &'static str,
    /// What it is about, in a few words.
    pub about: &'static str,
    pub executions: usize,
    /// How many have asked before anything goes wrong: the first has the key, the others wait.
    pub begun: Who,
    pub kinds: [Kind; 4],
    /// For how many ticks each asks to keep its lease after a failure.
    pub keep: [Tick; 4],
    /// Whether each proves its lease after a redrive.
    pub guarded: [bool; 4],
    /// How many ticks each waits at most.
    pub wait: Tick,
    /// For how many ticks a function lives, at most; beyond that it may have stood still.
    pub life: Tick,
    /// How many may wait at once.
    pub most_wait: u16,
    /// Only the newest waits: each sends away who waits before it.
    pub latest: bool,
    /// How many may have the key at once, 2 at most; none for the mutex.
    pub permits: Option<u16>,
    /// For how many ticks the key stays closed after a grant.
    pub at_least: Tick,
    /// For how long programs ask for the key, and how much later whoever goes by its clock takes it over.
    pub ttl: Tick,
    pub margin: Tick,
    /// How far a clock may be from the true time; and whether each is from the beginning.
    pub error: Tick,
    pub wrong_from_the_start: bool,
    pub clocks: Clocks,
    /// How often the first program has had the key before. Its requests may all come again.
    pub past: u8,
    /// The table is restored, once, from a backup of the beginning; everybody has a floor for tokens from then on.
    pub restore: bool,
    /// There is an item in the place of the row that is not ours.
    pub stranger: bool,
    /// How much time passes at a time, in half minutes: the last of them again and again.
    pub ticks: &'static [Tick],
    /// Executions that are started find their leases in their inputs.
    pub passes: bool,
    /// Somebody else's execution has the first start's name, and runs or is over.
    pub foreign: Option<bool>,
    pub first_call: FirstCall,
    /// What ends may be redriven, and is noted.
    pub watches: bool,
    /// Which key each wants.
    pub keys: [KeyNo; 4],
    /// How many permits there are of the pool that the keys share, if each needs one besides its key.
    pub pool: Option<u16>,
    /// Where operators limit and force.
    pub operated: &'static [KeyNo],
    /// A task waits for the result of each start.
    pub results: bool,
    /// And what is started stops with the execution of that task.
    pub stops: bool,
    pub budget: Budget,
}

impl Budget {
    /// A call of `StartExecution` is refused like this.
    pub fn refuses(&mut self, answer: &Answer) {
        match answer {
            Answer::Begun(_) => self.deny -= 1,
            Answer::Throttled | Answer::Receipt(Receipt::Unreadable) => {
                self.throttle = self.throttle.saturating_sub(1);
            }
            Answer::Denied => self.forbid -= 1,
            _ => {}
        }
    }

    pub fn loses(&mut self, ask: &Ask) {
        if ask.calls() {
            self.lost -= 1;
        } else {
            self.unheard -= 1;
        }
    }
}

impl Scope {
    /// The same, with one sweep and one retry more.
    pub const fn deeper(self) -> Self {
        let budget = Budget {
            look: self.budget.look + 1,
            retry: self.budget.retry + 1,
            ..self.budget
        };
        Self { budget, ..self }
    }
}

const SMALL: Scope = Scope {
    name: "",
    about: "",
    executions: 2,
    begun: 1,
    kinds: [Kind::Plain; 4],
    keep: [0; 4],
    guarded: [true; 4],
    wait: 100,
    life: 1,
    most_wait: 128,
    latest: false,
    permits: None,
    at_least: 0,
    ttl: 1,
    margin: 0,
    error: 0,
    wrong_from_the_start: false,
    clocks: Clocks::Agree,
    past: 0,
    restore: false,
    stranger: false,
    ticks: &[1],
    passes: false,
    foreign: None,
    first_call: FirstCall::Answered,
    watches: false,
    keys: [0; 4],
    pool: None,
    operated: &[0],
    results: false,
    stops: false,
    budget: NOTHING,
};

pub const NOTIFICATION: Scope = Scope {
    name: "notification",
    about: "a grant is told: answers lost, late and doubled, task tokens that time out, retries with new ones, sweeps",
    begun: 2,
    budget: Budget {
        lost: 1,
        timeout: 1,
        retry: 2,
        ..NOTHING
    },
    ..SMALL
};

pub const RETRIED: Scope = Scope {
    name: "retried-twice",
    about: "task tokens time out twice, while the calls that brought them are under way still",
    begun: 2,
    budget: Budget {
        timeout: 2,
        retry: 2,
        ..NOTHING
    },
    ..SMALL
};

pub const CRASHES: Scope = Scope {
    name: "crashes",
    about: "a grant is told: functions die between any two requests",
    begun: 2,
    budget: Budget {
        crash: 1,
        timeout: 1,
        retry: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const RETOLD: Scope = Scope {
    name: "retold",
    about: "one is told again and again, and looks at its history decide",
    executions: 1,
    begun: 0,
    budget: Budget {
        look: 1,
        lost: 1,
        timeout: 1,
        retry: 1,
        tick: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const NESTED: Scope = Scope {
    name: "nested",
    about: "one holds and has a section of the same key, another waits: functions die, writes are late, sent twice, or not answered",
    begun: 2,
    budget: Budget {
        nest: 1,
        crash: 1,
        unheard: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const CARRIES_ON: Scope = Scope {
    name: "carries-on",
    about: "one whose task has timed out carries on without the lease that it may have been told of, and another waits",
    kinds: [Kind::Plain, Kind::CarriesOn, Kind::Plain, Kind::Plain],
    executions: 3,
    begun: 3,
    budget: Budget {
        look: 1,
        lost: 1,
        timeout: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const ASKS_ANEW: Scope = Scope {
    name: "asks-anew",
    about: "one whose task has timed out asks anew, while looks at its history decide about what it asked for before",
    kinds: [Kind::Plain, Kind::AsksAnew, Kind::Plain, Kind::Plain],
    begun: 2,
    budget: Budget {
        look: 1,
        timeout: 1,
        retry: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const THREE: Scope = Scope {
    name: "three",
    about: "one holds, two wait: order, deaths, retries",
    executions: 3,
    begun: 3,
    budget: Budget {
        crash: 1,
        timeout: 1,
        retry: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const JOINING: Scope = Scope {
    name: "joining",
    about: "one holds, one waits, and a third joins",
    executions: 3,
    begun: 2,
    budget: Budget {
        crash: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const LEAVING: Scope = Scope {
    name: "leaving",
    about: "one holds, one waits, and its time is over",
    executions: 2,
    begun: 2,
    wait: 1,
    budget: Budget {
        look: 1,
        tick: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const REDRIVES: Scope = Scope {
    name: "redrives",
    about: "executions fail with a Lambda function at work, are looked at and reaped by old answers, and are redriven",
    begun: 1,
    executions: 1,
    budget: Budget {
        look: 1,
        reap: 1,
        redrive: 1,
        fail: 1,
        tick: 2,
        ..NOTHING
    },
    ..SMALL
};

pub const PROVEN: Scope = Scope {
    name: "proven",
    about: "one that fails and is redriven twice, and whose proofs come late or twice",
    executions: 1,
    budget: Budget {
        reap: 1,
        redrive: 2,
        fail: 2,
        unheard: 1,
        tick: 2,
        ..NOTHING
    },
    ..SMALL
};

pub const GRACE: Scope = Scope {
    name: "grace",
    about: "one that fails and is redriven again and again, while its Lambda functions are at work",
    executions: 1,
    budget: Budget {
        look: 2,
        redrive: 2,
        fail: 2,
        tick: 2,
        ..NOTHING
    },
    ..SMALL
};

pub const KEPT: Scope = Scope {
    name: "kept",
    about: "leases that are kept for a redrive, without a proof after it",
    begun: 0,
    keep: [1; 4],
    guarded: [false, true, true, true],
    executions: 1,
    budget: Budget {
        look: 1,
        redrive: 1,
        fail: 1,
        tick: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const UNHEARD: Scope = Scope {
    name: "unheard",
    about: "writes that are late, sent twice, or not answered",
    begun: 2,
    budget: Budget {
        unheard: 1,
        timeout: 1,
        retry: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const ENDS: Scope = Scope {
    name: "ends",
    about: "executions that succeed without a release, reaps and sweeps side by side",
    begun: 2,
    budget: Budget {
        look: 1,
        reap: 1,
        end: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const PARTING: Scope = Scope {
    name: "parting",
    about: "one in the queue dies and is reaped, while the key is handed over to it",
    executions: 3,
    begun: 3,
    budget: Budget {
        reap: 1,
        fail: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const EVICTED: Scope = Scope {
    name: "evicted",
    about: "an operator takes the lease away",
    begun: 2,
    budget: Budget {
        evict: 1,
        crash: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const PROGRAM: Scope = Scope {
    name: "program",
    about: "a program has the key with a deadline, extends late, and asks again without waiting; an execution waits behind it",
    kinds: [Kind::Program, Kind::Plain, Kind::Plain, Kind::Plain],
    budget: Budget {
        look: 1,
        ask: 1,
        tick: 2,
        ..NOTHING
    },
    ..SMALL
};

pub const NEWEST: Scope = Scope {
    name: "newest",
    about: "one holds, one waits, and a third sends it away: tokens time out, retries of who was sent away",
    executions: 3,
    begun: 2,
    latest: true,
    budget: Budget {
        timeout: 1,
        retry: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const NEWEST_CRASHES: Scope = Scope {
    name: "newest-crashes",
    about: "the same, and functions die between any two requests",
    executions: 3,
    begun: 2,
    latest: true,
    budget: Budget {
        crash: 1,
        retry: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const NEWEST_UNHEARD: Scope = Scope {
    name: "newest-unheard",
    about: "the same, with calls and writes that are late, sent twice, or not answered",
    executions: 3,
    begun: 2,
    latest: true,
    budget: Budget {
        lost: 1,
        unheard: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const NEWEST_PERMITS: Scope = Scope {
    name: "newest-permits",
    about: "the same for a permit, which is asked for before the queue is joined",
    executions: 3,
    begun: 2,
    latest: true,
    permits: Some(1),
    budget: Budget {
        retry: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const PERMITS: Scope = Scope {
    name: "permits",
    about: "two have permits, a third asks while they give them back, succeed without that, and are looked at",
    executions: 3,
    begun: 2,
    permits: Some(2),
    budget: Budget {
        look: 1,
        end: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const PERMITS_CRASHES: Scope = Scope {
    name: "permits-crashes",
    about: "two have permits, a third waits, and functions die between any two requests",
    executions: 3,
    begun: 3,
    permits: Some(2),
    budget: Budget {
        crash: 1,
        timeout: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const PERMITS_UNHEARD: Scope = Scope {
    name: "permits-unheard",
    about: "two have permits, a third waits: calls and writes that are late, sent twice, or not answered",
    executions: 3,
    begun: 3,
    permits: Some(2),
    budget: Budget {
        lost: 1,
        unheard: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const PERMITS_BOTH: Scope = Scope {
    name: "permits-both",
    about: "two have permits, two wait, and both permits come back at once",
    executions: 4,
    begun: 4,
    permits: Some(2),
    budget: Budget {
        timeout: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const PERMITS_RETRIES: Scope = Scope {
    name: "permits-retries",
    about: "two have permits, a third waits, its task times out, and it asks again while both come back",
    executions: 3,
    begun: 2,
    permits: Some(2),
    budget: Budget {
        timeout: 1,
        retry: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const PACE: Scope = Scope {
    name: "pace",
    about: "the key stays closed after each grant: one gives it back, others wait, and functions die",
    executions: 2,
    begun: 2,
    at_least: 2,
    budget: Budget {
        look: 1,
        tick: 2,
        crash: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const PACE_UNHEARD: Scope = Scope {
    name: "pace-unheard",
    about: "the same, with calls and writes that are late, sent twice, or not answered",
    executions: 2,
    begun: 2,
    at_least: 1,
    budget: Budget {
        look: 1,
        tick: 1,
        lost: 1,
        unheard: 1,
        ..NOTHING
    },
    ..SMALL
};

pub const LIMITED: Scope = Scope {
    name: "limited",
    about: "an operator sets the limit to 0 and takes it back, while the key is handed over",
    executions: 2,
    begun: 2,
    budget: Budget {
        limit: 2,
        ..NOTHING
    },
    ..SMALL
};

pub const LIMITED_PERMITS: Scope = Scope {
    name: "limited-permits",
    about: "the same with two permits, both of which come back",
    executions: 3,
    begun: 3,
    permits: Some(2),
    budget: Budget {
        limit: 1,
        ..NOTHING
    },
    ..SMALL
};

/// All of those without starts.
const PLAIN: [Scope; 32] = [
    NOTIFICATION,
    RETRIED,
    CRASHES,
    RETOLD,
    NESTED,
    CARRIES_ON,
    ASKS_ANEW,
    THREE,
    JOINING,
    LEAVING,
    REDRIVES,
    PROVEN,
    GRACE,
    KEPT,
    UNHEARD,
    ENDS,
    PARTING,
    EVICTED,
    PROGRAM,
    NEWEST,
    NEWEST_CRASHES,
    NEWEST_UNHEARD,
    NEWEST_PERMITS,
    PERMITS,
    PERMITS_CRASHES,
    PERMITS_UNHEARD,
    PERMITS_BOTH,
    PERMITS_RETRIES,
    PACE,
    PACE_UNHEARD,
    LIMITED,
    LIMITED_PERMITS,
];

/// All of them.
pub fn all() -> impl Iterator<Item = Scope> {
    let others = [PROGRAMS, STARTED, RESULTS, POOLED];
    PLAIN
        .into_iter()
        .chain(others.into_iter().flatten().copied())
}
