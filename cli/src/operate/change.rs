//! An act of an operator on a key: what to know before it, the act, and what to say after it. The commands and the console ask for it.

use leasehold::{
    AuditReason, DynamoDb, ForceReleaseOptions, ForceReleaseOutcome, FreezeOutcome, HeldView, Key,
    KeyView, LeaseView, Leases, LimitOutcome, LimitedTo, UnfreezeOutcome, ViewUntil,
};
use serde::Serialize;

use crate::connect::TableClient;
use crate::exit::{Code, Failure};
use crate::next;
use crate::output::json;

/// What to do to a key.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// End the grant of this lease, and no later one.
    ForceRelease {
        lease: Box<LeaseView>,
        held: Box<HeldView>,
        /// The key or its permit, in words.
        what: String,
    },
    Freeze,
    Unfreeze,
    Limit(Option<LimitedTo>),
}

/// What was done.
#[derive(Debug)]
pub(crate) struct Done {
    /// The response of the function operate.
    pub(crate) json: String,
    /// The response in words.
    pub(crate) words: Vec<String>,
    /// What else there is to know.
    pub(crate) note: Option<String>,
    /// Who waits for what was freed, if anybody does.
    waits: Option<String>,
    /// The pool in which there is room now.
    pool: Option<Key>,
    pub(crate) code: Code,
}

impl Done {
    fn new(answer: &impl Serialize, words: String, code: Code) -> Result<Self, Failure> {
        Ok(Self {
            json: json(answer)?,
            words: vec![words],
            note: None,
            waits: None,
            pool: None,
            code,
        })
    }

    /// With who waits.
    fn and_who_waits(mut self, view: &KeyView) -> Self {
        self.waits = who_waits(view);
        self
    }

    /// Serves the first waiter, and says who does it otherwise.
    pub(crate) async fn and_serves(mut self, table_client: &TableClient, key: &Key) -> Self {
        if let Some(pool) = &self.pool
            && next::serve(table_client, pool).await
        {
            let words = "the first waiter of its pool is in it now";
            self.words.push(words.to_owned());
        }
        if let Some(waits) = self.waits.take() {
            let is_served = next::serve(table_client, key).await;
            let words = is_served.then(|| "the first waiter has it now".to_owned());
            self.words.push(words.unwrap_or(waits));
        }
        self
    }
}

impl Change {
    /// The question before it.
    pub(crate) fn question(&self, key: &Key) -> String {
        let key = key.label();
        match self {
            Self::ForceRelease { held, .. } => format!("Evict {}?", held.holder),
            Self::Freeze => format!("Freeze {key}?"),
            Self::Unfreeze => format!("Unfreeze {key}?"),
            Self::Limit(Some(permits)) => format!("Limit {key} to {}?", permits.get()),
            Self::Limit(None) => format!("Remove the limit of {key}?"),
        }
    }

    /// What it does not do, though one may think so.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        match self {
            Self::ForceRelease { held, .. } => work_goes_on(held),
            _ => None,
        }
    }

    /// Does it to a key that was seen like this.
    pub(crate) async fn carry_out(
        &self,
        leases: &Leases<DynamoDb>,
        view: &KeyView,
        because: &AuditReason,
    ) -> Result<Done, Failure> {
        let key = &view.key;
        match self {
            Self::ForceRelease { lease, held, what } => {
                let which = ForceReleaseOptions {
                    permit: Some(lease.permit),
                    fencing_token: Some(lease.fencing_token),
                };
                let forced = leases.force_release(key, which, because).await?;
                let done = forced_words(&forced, view, (held, what))?;
                let pool = held.in_pool.as_ref().map(Key::of_pool);
                Ok(Done { pool, ..done })
            }
            Self::Freeze => {
                let frozen = leases.freeze(key, because).await?;
                let words = match frozen {
                    FreezeOutcome::Frozen => format!("{key} is frozen"),
                    FreezeOutcome::AlreadyFrozen => format!("{key} was already frozen"),
                };
                let mut held = view.held().filter_map(|one| one.lease.held.as_ref());
                let note = held.next().map(|held| {
                    format!(
                        "{} still holds the key, until it releases the lease or the lease ends",
                        held.holder
                    )
                });
                let done = Done::new(&frozen, words, Code::DONE)?;
                Ok(Done { note, ..done })
            }
            Self::Unfreeze => {
                let unfrozen = leases.unfreeze(key, because).await?;
                match unfrozen {
                    UnfreezeOutcome::Unfrozen => {
                        let words = format!("{key} can be granted again");
                        let done = Done::new(&unfrozen, words, Code::DONE)?;
                        Ok(done.and_who_waits(view))
                    }
                    UnfreezeOutcome::NotFrozen => {
                        Done::new(&unfrozen, format!("{key} was not frozen"), Code::FAILURE)
                    }
                }
            }
            Self::Limit(permits) => {
                let limited = leases.limit_to(key, *permits, because).await?;
                limited_words(limited, view)
            }
        }
    }
}

fn forced_words(
    forced: &ForceReleaseOutcome,
    view: &KeyView,
    (held, what): (&HeldView, &str),
) -> Result<Done, Failure> {
    let holder = &held.holder;
    match forced {
        ForceReleaseOutcome::Forced { fencing_token, .. } => {
            let words = format!("{what} is released; {holder} had it");
            let mut done = Done::new(forced, words, Code::DONE)?;
            done.words.push(format!(
                "write to the resource with token {fencing_token}, so that it refuses this holder's writes"
            ));
            Ok(done.and_who_waits(view))
        }
        ForceReleaseOutcome::Cancelled { free_at, .. } => {
            let words = format!(
                "{holder} had not begun, and will not: {what} is free at {free_at}, when no late call can begin it"
            );
            Done::new(forced, words, Code::DONE)
        }
        ForceReleaseOutcome::NotHeld => {
            let words = format!("{holder} no longer holds {what}");
            Done::new(forced, words, Code::FAILURE)
        }
    }
}

fn limited_words(limited: LimitOutcome, view: &KeyView) -> Result<Done, Failure> {
    let (key, held) = (view.key.label(), view.held().count());
    let (words, code) = match limited {
        LimitOutcome::Limited { permits: 0 } => {
            let words = format!("{key} is limited to 0: nobody is granted it");
            (words, Code::DONE)
        }
        LimitOutcome::Limited { permits } => (format!("{key} is limited to {permits}"), Code::DONE),
        LimitOutcome::Unlimited => (format!("{key} has no limit any more"), Code::DONE),
        LimitOutcome::NotLimited => (format!("{key} had no limit"), Code::FAILURE),
    };
    let mut done = Done::new(&limited, words, code)?;
    let has_room = match limited {
        LimitOutcome::Limited { permits } => held < usize::from(permits),
        LimitOutcome::Unlimited => held == 0,
        LimitOutcome::NotLimited => false,
    };
    if has_room {
        done = done.and_who_waits(view);
    } else if limited == LimitOutcome::Unlimited && view.waiting() > 0 {
        // How many may hold it now, only its requests say.
        let words =
            "the next sweep of the stack grants what is free to the waiters, within a minute";
        done.waits = Some(words.to_owned());
    }
    if let LimitOutcome::Limited { permits } = limited
        && held > usize::from(permits)
    {
        let note = format!("held now: {held}; the limit takes effect as leases end");
        done.note = Some(note);
    }
    if matches!(limited, LimitOutcome::Limited { .. }) && view.permits.is_empty() {
        let note = if view.key.pool_name().is_some() {
            format!("{key} has never been used")
        } else {
            format!("{key} has never been leased; if it is a pool, name it with --pool")
        };
        done.note = Some(note);
    }
    Ok(done)
}

/// An evicted execution may work on beside the next holder.
const fn work_goes_on(held: &HeldView) -> Option<&'static str> {
    match held.until {
        ViewUntil::Execution {
            look_again_at: Some(_),
            ..
        } => Some(
            "its execution has ended or is unknown, and a task of it may still be at work beside the next holder",
        ),
        ViewUntil::Execution { .. } => Some(
            "its execution may still run, and learns nothing of this: it works on beside the next holder, \
             unless it is stopped instead",
        ),
        ViewUntil::Ttl { .. } => None,
    }
}

/// That others wait, who are not served by the act itself.
pub(crate) fn who_waits(view: &KeyView) -> Option<String> {
    match view.waiting() {
        0 => None,
        1 => Some("one waits in the queue: the next sweep of the stack, within a minute, grants it to that one".to_owned()),
        n => Some(format!("{n} wait in the queue: the next sweep of the stack, within a minute, grants it to the first")),
    }
}
