//! What the judge makes of executions that are redriven after their lease has ended: beside others, for all that Step Functions
//! asks. The library owes each a decision: its key again, or a stop; or, if redrives are counted only, to be counted.

use super::{
    super::shared::{SKEW, STALE},
    judge::{Judge, Record, Run},
};
use leasehold::{Holder, RequestDigest, RequestId, redrivable::Redrivable, row::Row};

/// The longest time between two looks.
const LONGEST_PAUSE: u64 = 24 * 3_600_000;

/// What there is to a run of an execution beside its beginning and its end.
#[derive(Clone, Copy, Default)]
pub struct Redriven {
    /// How often, and when last.
    times: u32,
    last: u64,
    /// Since when it runs by a redrive, without its key.
    beside: Option<u64>,
    /// Until when such a run lasted.
    beside_until: Option<u64>,
    /// Somebody set out to give its key back, so that there need not be a note.
    gave_back: bool,
}

impl Redriven {
    /// It has its key again, has ended, or was counted.
    pub fn is_over(&mut self, now: u64) {
        if self.beside.take().is_some() {
            self.beside_until = Some(now);
        }
    }

    /// Its lease was ended while it ran, perhaps by an operator.
    pub fn lost(&mut self, by_force: bool, (set_out, now): (u64, u64)) {
        if by_force && set_out <= self.last + 2 * SKEW {
            // The operator had set out before, or may have, by the clocks: a redrive after that counts. Whoever looks at it may stop it,
            // however late.
            self.beside_until = Some(u64::MAX);
        } else if !by_force && self.times > 0 && !self.gave_back {
            self.beside = Some(now);
        }
    }

    pub fn gives_back(&mut self) {
        self.gave_back = true;
        self.beside = None;
    }

    /// It runs again.
    pub fn again(&mut self, has_key: bool, now: u64) {
        self.times += 1;
        self.last = now;
        self.beside_until = self.beside_until.map(|until| until.min(now));
        self.beside = (!has_key && !self.gave_back).then_some(now);
    }
}

impl Record {
    /// Whether a grant to its execution was asked for by the library, because of a redrive; none if by the start itself.
    pub fn was_redriven_by(&self, row: &Row) -> Option<bool> {
        if row.request == self.request {
            return None;
        }
        let by_look = |count| {
            let request = RequestId::new(format!("redrive/{count}")).expect("valid");
            RequestDigest::of(&row.granted_to, &request) == row.request
        };
        Some((0..=self.run().map_or(0, |run| run.redriven.times)).any(by_look))
    }

    fn is_beside(&self) -> Option<u64> {
        self.run()?.redriven.beside
    }
}

impl Judge {
    /// An execution was granted a key again that it had.
    pub fn is_granted_again(&mut self, who: usize, row: &Row, now: u64) {
        let counted = self.counted;
        let record = &mut self.starts[who];
        let Some(by_look) = record.was_redriven_by(row) else {
            return;
        };
        let name = record.name().to_owned();
        let redrives = record.run().map_or(0, |run| run.redriven.times);
        if let Some(run) = record.run_mut() {
            run.redriven.is_over(now);
            run.is_free &= run.ended.is_some();
        }
        self.seen.push("has its key again");
        if by_look && redrives == 0 {
            self.is_wrong(format!("{name} has its key again, and was never redriven"));
        }
        if counted && by_look {
            self.is_wrong(format!("{name} has its key again, and was to be counted"));
        }
    }

    /// Somebody is about to stop an execution that was redriven.
    pub fn is_to_be_stopped(&mut self, execution: &Holder) {
        let Some(who) = self.of(&RequestDigest::of_start(execution)) else {
            return self.is_wrong(format!("{execution} acquires for itself, and is stopped"));
        };
        let record = &self.starts[who];
        let (name, key) = (record.name().to_owned(), record.start.key.clone());
        if self.counted {
            self.is_wrong(format!("{name} is stopped, and was to be counted"));
        }
        let pool = self.starts[who].start.pool.as_ref().map(|pool| &pool.key);
        let since = |key| self.free_since(key).is_some_and(|at| at <= self.set_out);
        if since(&key) && pool.is_none_or(since) {
            self.is_wrong(format!("{name} is stopped, and its key was free"));
        }
    }

    /// It is stopped, by a function that set out then.
    pub fn is_stopped(&mut self, execution: &Holder, set_out: u64) {
        self.decided += 1;
        let Some(who) = self.of(&RequestDigest::of_start(execution)) else {
            return;
        };
        let record = &self.starts[who];
        let name = record.name().to_owned();
        let Some(Run {
            ended: None,
            redriven,
            ..
        }) = record.run()
        else {
            return;
        };
        let was_beside = redriven
            .beside_until
            .map_or(0, |at| at.saturating_add(STALE + 2 * SKEW));
        let lacks_permit = !self.has_permit(who);
        let may_be = redriven.beside.is_some()
            || redriven.gave_back
            || was_beside >= set_out
            || lacks_permit;
        self.seen.push("stopped beside others");
        if !may_be {
            self.is_wrong(format!(
                "{name} is stopped, and does not run without its key"
            ));
        }
    }

    /// A note is stored: of redrives up to its count nobody will see to any more.
    pub fn noted(&mut self, noted: &Redrivable, now: u64) {
        let Some(who) = self.of(&noted.request()) else {
            return;
        };
        let counted = self.counted;
        let record = &mut self.starts[who];
        let name = record.name().to_owned();
        let Some(run) = record.run_mut() else {
            return;
        };
        let is_over = run.redriven.beside.is_some()
            && noted
                .redrives
                .is_some_and(|count| count >= run.redriven.times);
        if !is_over {
            return;
        }
        if counted {
            run.redriven.is_over(now);
            self.decided += 1;
            self.seen.push("counted beside others");
        } else {
            self.is_wrong(format!(
                "{name} runs without its key, and nobody looks again"
            ));
        }
    }

    /// It runs again; with its lease, if that was kept for it.
    pub fn redriven(&mut self, execution: &Holder, now: u64) {
        let Some(who) = self.of(&RequestDigest::of_start(execution)) else {
            return;
        };
        let (has_key, has_permit) = (self.has_key(who), self.has_permit(who));
        let record = &mut self.starts[who];
        let keep = record.start.keep.as_millis();
        let name = record.name().to_owned();
        let Some(run) = record.run_mut() else {
            return;
        };
        let Some((ended, ..)) = run.ended.take() else {
            return;
        };
        let is_kept = keep > 0 && now + 2 * SKEW <= ended + keep && !run.is_free;
        run.is_free |= !is_kept || !has_key;
        run.redriven.again(has_key, now);
        let was_kept_wrongly = is_kept && !has_key;
        if is_kept {
            self.seen.push("redriven to what was kept");
        }
        if is_kept && has_key && !has_permit {
            self.is_wrong(format!("S15: {name} is redriven, and is not in the pool"));
        } else if was_kept_wrongly {
            self.is_wrong(format!("the lease of {name} was not there for a redrive"));
        }
    }

    /// It was redriven after its key was taken back for it.
    pub fn is_guarded(&mut self, execution: &Holder) {
        let Some(who) = self.of(&RequestDigest::of_start(execution)) else {
            return;
        };
        if self.has_key(who)
            && self.has_permit(who)
            && let Some(run) = self.starts[who].run_mut()
        {
            // Its own release may be under way since before.
            run.is_free = run.redriven.gave_back;
            self.seen.push("redriven with its key");
        }
    }

    /// It runs by a redrive without its key, and nobody has seen to that yet.
    pub fn is_beside(&self, who: usize) -> bool {
        self.starts[who].is_beside().is_some()
    }

    /// So many were counted by a call. Without faults it counts at least those that were stopped, or counted only, meanwhile.
    pub fn have_counted(&mut self, unguarded: u64) {
        let decided = std::mem::take(&mut self.decided);
        if self.calm && unguarded < decided {
            self.is_wrong(format!(
                "{decided} ran without a key, and {unguarded} were counted"
            ));
        }
    }

    /// Without faults a redrive is seen to at the first look that shows it, if sweeps come that often; unless
    /// nobody may ask about the machine that comes and goes.
    pub fn nobody_is_beside_for_long(&mut self, pause: u64, unaskable: bool, now: u64) {
        let most = LONGEST_PAUSE + STALE + 2 * pause + 4 * SKEW;
        let calm_since = self.calm_since;
        let is_late = |record: &&Record| {
            let since = record.is_beside();
            since.is_some_and(|at| at.max(calm_since) + most < now) && !(unaskable && record.fickle)
        };
        let late = self.starts.iter().filter(is_late);
        let late: Vec<_> = late.map(|record| record.name().to_owned()).collect();
        for name in late {
            self.is_wrong(format!(
                "{name} was redriven, and still runs without its key"
            ));
        }
    }
}
