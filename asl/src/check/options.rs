//! What a check goes by besides the definition.

use std::collections::HashMap;

/// What a function of Leasehold does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Grants a lease.
    Acquire,
    /// Moves its deadline.
    Extend,
    /// Gives it back.
    Release,
}

/// What a check goes by besides the definition. The defaults are those of the functions.
#[derive(Debug, Clone)]
pub struct Options {
    /// `LEASE_CLOCK_MARGIN_MS`: how far clocks may be apart, taken off every lease.
    pub margin_ms: u64,
    /// `LEASE_GUARD_MS`: how long before its deadline a holder stops.
    pub guard_ms: u64,
    /// What functions do, by the names state machines call them by; `None` for one that is not ours, whatever its name says.
    /// Functions that are not named here are known by their names.
    pub names: HashMap<String, Option<Verb>>,
    /// An Express workflow, or one that a template declares so.
    pub express: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            margin_ms: 2000,
            guard_ms: 1000,
            names: HashMap::new(),
            express: false,
        }
    }
}
