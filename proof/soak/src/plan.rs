//! What each client is going to do, drawn before it does anything: a seed, a round, a client and a number make a
//! section. How the sections of different clients meet is up to the machine, and differs from run to run.

use leasehold_local::Fault;

use crate::fixture::FLEETS;
use crate::rng::{choose, seeded};
use fastrand::Rng;

/// Everything that is drawn for one section.
#[derive(Clone, Debug)]
pub struct Section {
    /// The client's own number for it.
    pub number: u64,
    /// A share of the keys of its kind; see [`Section::pick`].
    pub key: u64,
    /// Among the few keys that all want.
    pub hot: bool,
    /// What is asked for, in milliseconds.
    pub ttl: u64,
    /// The calls that ask, one after the other.
    pub asks: Vec<Step>,
    /// What it does when somebody else holds the key.
    pub wait_policy: WaitPolicy,
    /// What it does when nobody tells it anything.
    pub restart_policy: RestartPolicy,
    /// What it does while it holds.
    pub work: Vec<Work>,
    /// How it ends.
    pub end: End,
    /// What comes again after the end, and how much later.
    pub duplicate: Option<(DuplicateCall, u64)>,
    /// Whether its holder's own lease is good enough.
    pub reentrant: bool,
    /// How many copies of its first ask are sent at once.
    pub copies: u64,
    /// Whether it writes to what the lease protects.
    pub writes: bool,
    /// After how many milliseconds its wait in a queue times out, and whether its execution goes on then.
    pub gives_up: Option<(u64, bool)>,
    /// For how many milliseconds an execution does nothing before it dies. One that dies soon after a write may have been
    /// redriven, for all that anybody knows for half a minute.
    pub silence: u64,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Whose processes do it.
    pub fleet: usize,
    /// What goes wrong on the wire.
    pub fault: Option<Fault>,
    /// How long it waits before, in milliseconds.
    pub after: u64,
}

impl Step {
    /// By what is shipped, at once and undisturbed.
    pub const CLEAN: Self = Self {
        fleet: 0,
        fault: None,
        after: 0,
    };

    /// One that waits for as long as this at most, with a fault or without.
    #[must_use]
    pub fn draw(rng: &mut Rng, longest: u64) -> Self {
        Self {
            fleet: rng.usize(..FLEETS.len()),
            fault: (rng.u64(..100) < FAULTY).then(|| *choose(rng, FAULTS)),
            after: rng.u64(..longest),
        }
    }
}

/// See [`Section::wait_policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Asks again and again.
    Asks,
    /// Waits as long as the answer says, and asks whether the holder has shown any life.
    Observes,
    /// Goes elsewhere.
    Leaves,
}

/// See [`Section::restart_policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Asks at once, with the same request id.
    AtOnce,
    /// Starts again after so many milliseconds, with the same request id.
    After(u64),
    /// Is gone for good.
    Never,
}

/// Something that a holder does.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Works for so many milliseconds.
    For(u64),
    /// Extends to this ttl, or its own.
    Extend {
        /// The call.
        step: Step,
        /// In milliseconds.
        ttl: Option<u64>,
        /// Not if it has expired.
        require_unexpired: bool,
        /// How many at once.
        copies: u64,
    },
    /// Extends with the right token and the wrong proof.
    WrongLeaseId(Step),
    /// Does nothing until its lease has been over for so many milliseconds, and writes then.
    WriteAfterExpiry(u64),
}

/// See [`Section::end`].
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// It releases, so many times at once.
    Release(Step, u64),
    /// It dies unseen.
    Crash,
    /// It dies, and that is noticed.
    Reaped(Step),
}

/// A duplicate of something old.
#[derive(Clone, Copy, Debug)]
pub enum DuplicateCall {
    /// The event that asked.
    Ask(Step),
    /// An extend with the handle.
    Extend(Step),
    /// A release with the handle.
    Release(Step),
}

/// What may go wrong on the wire, each as likely as the others.
const FAULTS: &[Fault] = &[
    Fault::LoseAnswer,
    Fault::ResetAnswer,
    Fault::HalfAnswer,
    Fault::FailAnswer,
    Fault::HangAnswer,
    Fault::LoseRequest,
    Fault::LateRequest,
    Fault::Throttle,
    Fault::Conflict,
    Fault::ServerError,
    Fault::Hang,
];

/// How many calls out of a hundred meet a fault.
const FAULTY: u64 = 8;

impl Section {
    /// The section with this number of this client.
    #[must_use]
    pub fn draw(seed: u64, round: u64, client: u64, number: u64) -> Self {
        let rng = &mut seeded(seed, &[round, client, number]);
        let asks = (0..12).map(|_| Step::draw(rng, 450)).collect();
        let wait_policy = match rng.u64(..10) {
            0..=5 => WaitPolicy::Asks,
            6..=7 => WaitPolicy::Observes,
            _ => WaitPolicy::Leaves,
        };
        let restart_policy = match rng.u64(..10) {
            0..=6 => RestartPolicy::AtOnce,
            7..=8 => RestartPolicy::After(rng.u64(300..=3000)),
            _ => RestartPolicy::Never,
        };
        let work = (0..rng.u64(..5)).map(|_| work(rng)).collect();
        let end = match rng.u64(..20) {
            0 => End::Crash,
            1 => End::Reaped(Step::draw(rng, 1500)),
            2..=4 => End::Release(Step::draw(rng, 20), rng.u64(2..=3)),
            _ => End::Release(Step::draw(rng, 20), 1),
        };
        let duplicate = (rng.u64(..100) < 15).then(|| {
            let step = Step::draw(rng, 20);
            let what = match rng.u64(..4) {
                0..=1 => DuplicateCall::Ask(step),
                2 => DuplicateCall::Extend(step),
                _ => DuplicateCall::Release(step),
            };
            (what, rng.u64(..2000))
        });
        Self {
            number,
            key: rng.u64(..),
            hot: rng.u64(..100) < 35,
            ttl: *choose(rng, &[1000, 1000, 1500, 2000, 3000]),
            asks,
            wait_policy,
            restart_policy,
            work,
            end,
            duplicate,
            reentrant: rng.u64(..100) < 5,
            copies: if rng.u64(..100) < 6 {
                rng.u64(2..=3)
            } else {
                1
            },
            writes: rng.u64(..100) < 60,
            gives_up: (rng.u64(..100) < 25).then(|| (rng.u64(..1500), rng.bool())),
            silence: if rng.u64(..100) < 10 {
                0
            } else {
                rng.u64(1000..=2000)
            },
        }
    }

    /// One of these keys.
    #[must_use]
    pub fn pick(&self, keys: &[String]) -> String {
        let count = u64::try_from(keys.len()).unwrap_or(1).max(1);
        keys[usize::try_from(self.key % count).unwrap_or(0)].clone()
    }

    /// Two or three of these that differ.
    #[must_use]
    pub fn pick_several(&self, keys: &[String]) -> Vec<String> {
        let rng = &mut seeded(self.key, &[]);
        let many = rng.usize(2..=3);
        rng.choose_multiple(keys.iter().cloned(), many)
    }
}

fn work(rng: &mut Rng) -> Work {
    match rng.u64(..20) {
        0..=7 => Work::For(rng.u64(1..=120)),
        8 => Work::WrongLeaseId(Step::draw(rng, 20)),
        9..=10 => Work::WriteAfterExpiry(rng.u64(..2000)),
        _ => Work::Extend {
            step: Step::draw(rng, 60),
            ttl: (rng.u64(..100) < 30).then(|| rng.u64(1000..=3000)),
            require_unexpired: rng.u64(..100) < 20,
            copies: if rng.u64(..100) < 8 { 2 } else { 1 },
        },
    }
}
