//! The rules, each with the sentence it holds a definition to.

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the sentence of each is below")]
pub enum Rule {
    NoRelease,
    Outlasts,
    Unbounded,
    Unconfirmed,
    WithoutLease,
    WorkAfterLost,
    WorkAfterRelease,
    LostRetried,
    HeldUnbounded,
    SharedRequest,
    UnstableRequest,
    ConsumedRequest,
    HandleOverwritten,
    ReleasedWhileRunning,
    AbortedSiblings,
    TooManyEvents,
    Express,
    UnknownError,
    Unreachable,
    Malformed,
    TooLarge,
}

impl Rule {
    /// All of them, in the order of the documentation.
    pub const ALL: &[Self] = &[
        Self::NoRelease,
        Self::Outlasts,
        Self::Unbounded,
        Self::Unconfirmed,
        Self::WithoutLease,
        Self::WorkAfterLost,
        Self::WorkAfterRelease,
        Self::LostRetried,
        Self::HeldUnbounded,
        Self::SharedRequest,
        Self::UnstableRequest,
        Self::ConsumedRequest,
        Self::HandleOverwritten,
        Self::ReleasedWhileRunning,
        Self::AbortedSiblings,
        Self::TooManyEvents,
        Self::Express,
        Self::UnknownError,
        Self::Unreachable,
        Self::Malformed,
        Self::TooLarge,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::NoRelease => "no-release",
            Self::Outlasts => "outlasts",
            Self::Unbounded => "unbounded",
            Self::Unconfirmed => "unconfirmed",
            Self::WithoutLease => "without-lease",
            Self::WorkAfterLost => "work-after-lost",
            Self::WorkAfterRelease => "work-after-release",
            Self::LostRetried => "lost-retried",
            Self::HeldUnbounded => "held-unbounded",
            Self::SharedRequest => "shared-request",
            Self::UnstableRequest => "unstable-request",
            Self::ConsumedRequest => "consumed-request",
            Self::HandleOverwritten => "handle-overwritten",
            Self::ReleasedWhileRunning => "released-while-running",
            Self::AbortedSiblings => "aborted-siblings",
            Self::TooManyEvents => "too-many-events",
            Self::Express => "express",
            Self::UnknownError => "unknown-error",
            Self::Unreachable => "unreachable",
            Self::Malformed => "malformed",
            Self::TooLarge => "too-large",
        }
    }

    /// What a definition is held to.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NoRelease => {
                "Every path from an acquire ends with its release, a lost lease, or work that may still run."
            }
            Self::Outlasts => {
                "What runs between two extends ends before the lease does, at its worst."
            }
            Self::Unbounded => "What runs under a lease has a bound that can be compared with it.",
            Self::Unconfirmed => {
                "Who was woken in line confirms the grant by an extend before it works."
            }
            Self::WithoutLease => {
                "No protected task, extend or release is reached on a path that was granted no lease."
            }
            Self::WorkAfterLost => "No protected task is reached once the lease is lost.",
            Self::WorkAfterRelease => {
                "No protected task is reached with a handle that was given back."
            }
            Self::LostRetried => "A lost lease is not asked for again by a Retry: it stays lost.",
            Self::HeldUnbounded => "Waiting for a held key has an end.",
            Self::SharedRequest => {
                "Branches and items that run side by side have requests of their own."
            }
            Self::UnstableRequest => "All attempts of one acquire are one request.",
            Self::ConsumedRequest => "An acquire that is entered again is another request.",
            Self::HandleOverwritten => "The handle is still there when it is needed.",
            Self::ReleasedWhileRunning => "A lease whose work may still run is left to run out.",
            Self::AbortedSiblings => {
                "No branch or item is aborted while it has a lease of its own."
            }
            Self::TooManyEvents => {
                "A loop ends before the 25 000 events that an execution may have."
            }
            Self::Express => "Leases are taken in Standard workflows.",
            Self::UnknownError => "Every error name that begins with Lease. exists.",
            Self::Unreachable => "Every call of the functions can be reached.",
            Self::Malformed => "The definition has the shape that the service asks for.",
            Self::TooLarge => "The definition can be gone through to the end.",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn cure(self) -> &'static str {
        match self {
            Self::NoRelease => {
                "lead every Catch and every way out to a release; a Choice needs a Default, and States.ALL catches what nobody thought of"
            }
            Self::Outlasts => {
                "bound the task by what is left of the lease (TimeoutSeconds from safe_until), put an extend before it, or ask for a longer ttl_seconds"
            }
            Self::Unbounded => {
                "give it a TimeoutSeconds: a number that fits a ttl_seconds written out, or what is left until safe_until"
            }
            Self::Unconfirmed => "make an extend the first state after the wait in line",
            Self::WithoutLease => {
                "lead every Catch of the acquire, an outcome of held, and every way around the acquire past the work, its extends and its release"
            }
            Self::WorkAfterLost => "lead Lease.Lost to a Fail state, or back to an acquire",
            Self::WorkAfterRelease => "release after the last task that uses the lease",
            Self::LostRetried => {
                "name the errors worth another attempt, without Lease.Lost, Lease.Expired and States.ALL; catch Lease.Lost"
            }
            Self::HeldUnbounded => {
                "retry Lease.Held with MaxAttempts, count the rounds, or wait in line with TimeoutSeconds"
            }
            Self::SharedRequest => "put the Map's index, or the state's name, into request_id",
            Self::UnstableRequest => {
                "build request_id from $states.context.State.Name, State.EnteredTime and Execution.RedriveCount"
            }
            Self::ConsumedRequest => "put $states.context.State.EnteredTime into request_id",
            Self::HandleOverwritten => {
                "keep the handle in a variable (Assign), or give every state and every Catch a ResultPath beside it"
            }
            Self::ReleasedWhileRunning => {
                "catch States.Timeout and Lambda's service exceptions apart, and end without a release: the lease runs out by itself"
            }
            Self::AbortedSiblings => {
                "catch States.ALL inside the branch and make the failure its result; fail after the Parallel or Map"
            }
            Self::TooManyEvents => {
                "count the rounds in a variable and end the loop by it, or wait longer in each"
            }
            Self::Express => {
                "use a Standard workflow: Express runs at least once, and tells nobody of its end"
            }
            Self::UnknownError => "see the table of errors in the README",
            Self::Unreachable => "lead a state to it, or remove it",
            Self::Malformed => "correct the definition",
            Self::TooLarge => "split the definition, or take leases in fewer scopes at once",
        }
    }

    /// The rule of this name.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.id() == id)
    }
}
