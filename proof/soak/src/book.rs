//! Everything that is written down in a round.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::history::{Micros, Op, Place};
use crate::unheard::Unheard;

/// See the module.
#[derive(Debug, Default)]
pub struct Book {
    /// The calls, by the row that they were about.
    pub ops: BTreeMap<Place, Vec<Op>>,
    /// Calls that were made, however many rows each was about.
    pub calls: u64,
    /// Of these, calls that told something.
    pub told: u64,
    /// While somebody believed that a lease was theirs.
    pub beliefs: Vec<Belief>,
    /// Those who waited in line.
    pub waits: Vec<Wait>,
    /// Those who have not been told anything for long, and where they would hear of it.
    pub unheard: Vec<Unheard>,
    /// How many of these were told in the end.
    pub late: u64,
    /// What must not be seen anywhere: lease ids and task tokens.
    pub secrets: BTreeSet<String>,
    /// What was said to people: messages of errors, listings.
    pub said: Vec<String>,
    /// What nobody should have been told.
    pub unexpected: Vec<String>,
    /// Writes to the resource that were told as done, by key: with the fence, and without.
    pub writes: HashMap<String, (u64, u64)>,
    /// Writes that the fence refused.
    pub fenced: u64,
    /// What was done to the processes and the wire, when.
    pub disturbances: Vec<(Micros, String)>,
    /// What befell processes and the wire as a whole, by kind.
    pub befallen: BTreeMap<String, u64>,
}

/// Somebody believes to be alone with something.
#[derive(Clone, Debug)]
pub struct Belief {
    /// With what.
    pub place: Place,
    /// By which grant.
    pub token: u64,
    /// Since when.
    pub from: Micros,
    /// Whose clock, and whose lease.
    pub holder: String,
    /// Until when, if nothing else happens.
    pub until: Micros,
    /// Who.
    pub by: String,
}

/// Somebody waits in line, or asks for what others wait for.
#[derive(Clone, Debug)]
pub struct Wait {
    /// For what.
    pub key: String,
    /// When it asked.
    pub begin: Micros,
    /// When it knew that it was in line; none if it never was.
    pub queued: Option<Micros>,
    /// Its grant's token, once it is confirmed.
    pub token: Option<u64>,
    /// Whether its task token was told anything, or nothing was to be told.
    pub answered: bool,
    /// Who.
    pub by: String,
}
