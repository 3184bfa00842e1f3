//! The worlds that are explored: how many, for how long, and what may happen in them.

use crate::names::Tick;

/// One small world. Everything that its bounds allow happens in it, in every order.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a kind of thing that happens or does not"
)]
pub struct Scope {
    pub name: &'static str,
    /// What it is about, in a few words.
    pub about: &'static str,
    pub clients: usize,
    /// How long it lasts.
    pub ticks: Tick,
    /// How many calls all its processes may make together.
    pub calls: u8,
    /// How long ago the spent requests were spent.
    pub since: Tick,
    /// How many calls they have made before: if any, the first holds, and the others have seen it.
    pub spent: u8,
    /// How many acquires the first one has behind it, each granted and released, and still on its way.
    pub past: u8,
    /// How many logical acquires a client may make.
    pub attempts: u8,
    pub ttl: Tick,
    pub margin: Tick,
    /// How long the leases of an execution that has ended are left alone; and how long its Lambda may go on.
    pub grace: Tick,
    /// How late an answer of Step Functions may be.
    pub stale: Tick,
    /// How far a clock may be from the true time.
    pub error: Tick,
    /// Which errors clocks start with, in addition to none.
    pub wrong_from_the_start: bool,
    /// How often a clock may jump, anywhere within the error.
    pub jumps: u8,
    pub clocks: Clocks,
    /// Clients write to a resource, with their tokens.
    pub writes: bool,
    /// Somebody sweeps.
    pub sweep: bool,
    /// Executions have two branches: one makes the calls; the other works, by the slowest possible clock, and receives
    /// no answers. They end, are reaped, and are redriven.
    pub branches: bool,
    /// Each call arrives at most once, and is answered at once or never; nothing is under way at the beginning.
    pub once: bool,
    /// The table is restored, once, from a backup of the beginning; everybody has a floor for tokens from then on.
    pub restore: bool,
    /// Rows are purged once free, or deleted by hand, when no old message is under way any more.
    pub purge: bool,
    /// The row may hold an item that is not ours.
    pub strangers: bool,
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

const SMALL: Scope = Scope {
    name: "",
    about: "",
    clients: 2,
    ticks: 4,
    calls: 3,
    spent: 0,
    since: 0,
    past: 0,
    attempts: 2,
    ttl: 1,
    margin: 2,
    grace: 1,
    stale: 1,
    error: 1,
    wrong_from_the_start: false,
    jumps: 0,
    clocks: Clocks::Agree,
    writes: false,
    sweep: false,
    branches: false,
    once: false,
    restore: false,
    purge: false,
    strangers: false,
};

pub const MUTEX: Scope = Scope {
    name: "mutex",
    about: "acquire, extend, release, guarded writes; crashes; clocks that are off by half the margin",
    wrong_from_the_start: true,
    writes: true,
    ..SMALL
};

pub const MEMORY: Scope = Scope {
    name: "memory",
    about: "a key that was granted more often than its row remembers, and every acquire of before comes again",
    spent: 6,
    past: 3,
    attempts: 4,
    margin: 0,
    error: 0,
    ..SMALL
};

pub const SWEPT: Scope = Scope {
    name: "sweep",
    about: "three clients and a sweep, all clocks off by half the margin and jumping",
    clients: 3,
    calls: 2,
    attempts: 1,
    wrong_from_the_start: true,
    jumps: 1,
    sweep: true,
    ..SMALL
};

/// The same with two clients, and a call more.
pub const SWEPT_BY_TWO: Scope = Scope {
    clients: 2,
    calls: 3,
    ..SWEPT
};

pub const JUMPS: Scope = Scope {
    name: "jumps",
    about: "clocks that jump by twice the margin and more: tokens and deadlines hold all the same",
    error: 5,
    jumps: 1,
    writes: true,
    sweep: true,
    clocks: Clocks::Differ,
    ..SMALL
};

pub const OBSERVERS: Scope = Scope {
    name: "observers",
    about: "clocks that are far apart, and leases taken by observation alone",
    ticks: 5,
    error: 5,
    wrong_from_the_start: true,
    clocks: Clocks::Unasked,
    ..SMALL
};

pub const OBSERVED: Scope = Scope {
    name: "observed",
    about: "the same, when one holds and another has seen it: what the holder does from then on",
    spent: 2,
    ..OBSERVERS
};

pub const PURGES: Scope = Scope {
    name: "purge",
    about: "rows that are purged when free, and deleted by hand when held; clocks that are off by half the margin",
    wrong_from_the_start: true,
    purge: true,
    writes: true,
    ..SMALL
};

pub const JOINED: Scope = Scope {
    name: "joined",
    about: "where features meet: clocks off by half the margin, late extends, branches at work, reap, redrive, a restore and its floor",
    ticks: 2,
    calls: 3,
    spent: 2,
    since: 3,
    ttl: 4,
    wrong_from_the_start: true,
    sweep: true,
    branches: true,
    once: true,
    restore: true,
    ..SMALL
};

pub const STRANGERS: Scope = Scope {
    name: "strangers",
    about: "an item that is not ours is in the way",
    strangers: true,
    sweep: true,
    ..SMALL
};

/// All of them.
pub const ALL: [Scope; 9] = [
    MUTEX, MEMORY, SWEPT, JUMPS, OBSERVERS, OBSERVED, PURGES, JOINED, STRANGERS,
];
