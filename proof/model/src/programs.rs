//! Programs: they take leases with a deadline, most of them without waiting, each by a clock of its own, and write to a resource that
//! compares tokens.

use leasehold::{Ended, row::Holding, store::Write, transition::Change};

use crate::{
    actions::Action,
    flaws::Flaw,
    invariants::Invariant,
    library::{Call, Handle, LeaseNo, NodeNo, Outcome, Table, TableNo, View},
    names::{self, PROGRAM, Tick, Who},
    scope::{Clocks, Kind},
    seam::Ask,
    state::{Executing, Granted, Phase, State, is_over},
    world::World,
};

/// The table as it is in a backup, and which requests had been granted a lease by then.
pub type Backup = (TableNo, Vec<Granted>);

impl World {
    pub fn is_program(&self, who: Who) -> bool {
        let kind = self.scope.kinds[usize::from(who)];
        matches!(kind, Kind::Program | Kind::Queued | Kind::Set)
    }

    /// Whether its task waits with a token.
    pub fn is_queued(&self, who: Who) -> bool {
        self.scope.kinds[usize::from(who)] == Kind::Queued
    }

    pub fn programs(&self) -> impl Iterator<Item = Who> {
        let all = 0..Who::try_from(self.scope.executions).unwrap_or(0);
        all.filter(|who| self.is_program(*who))
    }

    /// How far the clock of the process that runs this call is from the true time.
    pub fn error_of(&self, state: &State, call: Call) -> Tick {
        match call {
            Call::Sweep(_) | Call::Reap(..) => state.sweeper,
            Call::Acquire(who, ..)
            | Call::Release(who, ..)
            | Call::Prove(who, ..)
            | Call::Nests(who, ..)
            | Call::Start(who, ..) => state.executions[usize::from(who)].clock,
            call => call.of_program().map_or(0, |(who, _)| {
                let executing = state.executions.get(usize::from(who));
                // Who asks only whether it could have the key does so by the slowest clock.
                executing.map_or(-self.scope.error, |executing| executing.clock)
            }),
        }
    }

    /// With which clocks a world begins: programs are alike, so it does not matter which of them has which.
    pub fn clocks(&self) -> Vec<(Vec<Tick>, Tick)> {
        let error = self.scope.error;
        if !self.scope.wrong_from_the_start {
            return vec![(vec![0; self.scope.executions], 0)];
        }
        let programs = self.scope.executions;
        let ahead = |ahead: usize| {
            let of = |n| if n < ahead { error } else { -error };
            (0..programs).map(of).collect::<Vec<_>>()
        };
        let all = (0..=programs).map(ahead);
        // The one that holds from the beginning differs from the others.
        let all = all.flat_map(|clocks| {
            let reversed = clocks.iter().rev().copied().collect::<Vec<_>>();
            let is_same = self.scope.begun == 0 || reversed == clocks;
            [Some(clocks), (!is_same).then_some(reversed)]
        });
        let all = all.flatten();
        all.flat_map(|clocks| [(clocks.clone(), -error), (clocks, error)])
            .collect()
    }

    /// Whether it goes on as a holder.
    fn believes(state: &State, executing: &Executing) -> bool {
        executing.phase == Phase::Section && state.now + executing.clock < executing.until
    }

    /// A Lambda function of it works, by the slowest possible clock.
    fn works(&self, state: &State, executing: &Executing) -> bool {
        executing.work.is_some() && state.now - self.scope.error < executing.until
    }

    /// The leases that programs believe in, as far as clocks allow.
    pub fn believed(&self, state: &State) -> Vec<LeaseNo> {
        if self.scope.clocks == Clocks::Differ {
            return Vec::new();
        }
        let programs = self
            .programs()
            .map(|who| &state.executions[usize::from(who)]);
        let of = |executing: &Executing| {
            let believes = Self::believes(state, executing);
            let works = executing.work.filter(|_| self.works(state, executing));
            let works = works.map(|(lease, _)| lease);
            [
                executing.lease.filter(|_| believes),
                executing.permit.filter(|_| believes),
                works,
            ]
        };
        programs.flat_map(of).flatten().collect()
    }

    pub fn program_may(
        &self,
        state: &State,
        (who, executing): (Who, &Executing),
        actions: &mut Vec<Action>,
    ) {
        let left = &state.left;
        // It makes one call after the other.
        let latest = Some((who, executing.calls));
        let is_latest = |node: &NodeNo| self.library.call(*node).of_program() == latest;
        let busy = state.calls.iter().any(is_latest);
        let asks = |actions: &mut Vec<Action>, action| {
            if left.ask > 0 && !busy {
                actions.push(action);
            }
        };
        match executing.phase {
            Phase::Idle => asks(actions, Action::Asks(who)),
            Phase::Waiting if self.is_queued(who) && left.timeout == 0 => {}
            Phase::Waiting if self.is_queued(who) => actions.push(Action::TimesOut(who)),
            Phase::Failed => {
                asks(actions, Action::Retries(who));
                actions.push(Action::GivesUp(who));
            }
            // An observer waits before it asks again.
            Phase::Waiting
                if executing
                    .observed
                    .is_some_and(|(_, since)| state.now <= since + self.scope.ttl) => {}
            Phase::Waiting => asks(actions, Action::Retries(who)),
            Phase::Section => {
                asks(actions, Action::Extends(who));
                // Not while a Lambda function from before a redrive is running: a workflow can know that, a table cannot.
                if executing.work.is_none() && !busy {
                    actions.push(Action::Releases(who));
                }
                if left.write > 0 && Self::believes(state, executing) {
                    actions.push(Action::Writes(who));
                }
                if left.fail > 0 {
                    actions.push(Action::Fails(who, false));
                    actions.push(Action::Fails(who, true));
                }
            }
            Phase::Releasing if left.retry > 0 && !busy => actions.push(Action::Releases(who)),
            Phase::Proving if !busy => {
                actions.push(Action::Proves(who));
                if left.fail > 0 {
                    actions.push(Action::Fails(who, false));
                }
            }
            Phase::Over if left.redrive > 0 && executing.lease.is_some() => {
                actions.push(Action::IsRedriven(who));
            }
            _ => {}
        }
        if left.jump > 0 && executing.phase != Phase::Over {
            let errors = [-self.scope.error, 0, self.scope.error].into_iter();
            let others = errors.filter(|error| *error != executing.clock);
            actions.extend(others.map(|error| Action::Jumps(who, error)));
        }
    }

    /// What befalls the table of programs.
    pub fn table_may(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend((0..state.writes.len()).map(Action::Lands));
        let nobody_believes = || {
            let mut all = state.executions.iter();
            !all.any(|it| Self::believes(state, it) || self.works(state, it))
        };
        if state.backup.is_some() && nobody_believes() {
            actions.push(Action::Restores);
        }
        if state.left.wipe > 0 && state.calls.is_empty() {
            let table = self.library.table(state.table);
            let held = table
                .row(0)
                .map(|row| row.holding().map(Holding::expires_at));
            // A row is purged once it has been free for days: for longer than clocks are apart, and than anybody's belief lasts.
            // Somebody who deletes it by hand is to wait as long.
            let quiet = state.now > state.seen.wrote_at + 2 * self.scope.error;
            let may = match held {
                Some(Some(until)) => {
                    self.is(Flaw::DeadlineIsTheTablesTtl) && until < names::instant(state.now + 1)
                }
                Some(None) => quiet && nobody_believes(),
                None => false,
            };
            if may {
                actions.push(Action::Wipes);
            }
        }
    }

    /// A program asks for the key; by the same request as before, or by another.
    pub fn program_asks(&self, state: &mut State, who: Who, anew: bool) {
        state.left.ask = state.left.ask.saturating_sub(1);
        if self.is_queued(who) {
            state.executions[usize::from(who)].calls += 1;
            return self.waits(state, who, anew);
        }
        let executing = &mut state.executions[usize::from(who)];
        executing.request += u8::from(anew);
        executing.calls += 1;
        executing.phase = Phase::Waiting;
        let observed = match (self.scope.clocks, executing.observed) {
            (Clocks::Unasked, Some((seen, _))) => Some(seen),
            // A first ask that trusts no clock.
            (Clocks::Unasked, None) => Some(0),
            _ => None,
        };
        let call = Call::Ask(who, executing.request, executing.calls, observed);
        self.begin(state, call);
    }

    pub fn program_extends(&self, state: &mut State, who: Who) -> Option<()> {
        let executing = &mut state.executions[usize::from(who)];
        executing.calls += 1;
        let call = Call::Extend(who, executing.handle()?, executing.calls);
        self.begin(state, call);
        Some(())
    }

    pub fn program_releases(&self, state: &mut State, who: Who) -> Option<()> {
        let executing = &mut state.executions[usize::from(who)];
        // It no longer works under it.
        if executing.phase == Phase::Releasing {
            state.left.retry = state.left.retry.checked_sub(1)?;
        }
        executing.phase = Phase::Releasing;
        executing.calls += 1;
        let call = Call::Return(who, executing.handle()?, executing.calls);
        self.begin(state, call);
        Some(())
    }

    /// A call of a program has come to this.
    pub fn program_hears(&self, state: &mut State, call: Call, outcome: Outcome) {
        let now = state.now;
        let Some((who, n)) = call.of_program() else {
            return;
        };
        let table = self.library.table(state.table);
        let view = table.view(0, 0);
        if let (Call::Extend(_, (lease, _), _), Outcome::Lost) = (call, outcome) {
            // What has expired by the caller's clock is lost to those who wait, and ends a margin later.
            let has = |view: &View| view.lease == Some(lease) && view.queue.is_empty();
            state.seen.must(!table.of_keys().any(has), Invariant::L2);
        }
        let executing = state.executions.get_mut(usize::from(who));
        let Some(executing) = executing.filter(|executing| executing.calls == n) else {
            return;
        };
        let is_its = |lease| executing.handle() == Some(lease);
        match (call, outcome) {
            (Call::Ask(_, request, ..), outcome)
                if executing.phase == Phase::Waiting && executing.request == request =>
            {
                match outcome {
                    Outcome::Has(lease, until) => {
                        executing
                            .has_until(lease, self.believed_until(until, now, executing.clock));
                    }
                    Outcome::Held(version, token) => {
                        let is_own =
                            view.request.as_ref().and_then(names::whose) == Some((who, request));
                        state.seen.must(!is_own, Invariant::L2);
                        if self.scope.clocks == Clocks::Unasked {
                            let is_token = self.is(Flaw::ObservesTheToken);
                            let seen = if is_token { token } else { version };
                            state.executions[usize::from(who)].observed = Some((seen, now));
                        }
                    }
                    Outcome::Consumed => executing.rests(),
                    _ => {}
                }
            }
            (Call::Extend(_, lease, _), outcome)
                if is_its(lease) && matches!(executing.phase, Phase::Section | Phase::Proving) =>
            {
                match outcome {
                    Outcome::Has(_, until) => {
                        executing
                            .has_until(lease, self.believed_until(until, now, executing.clock));
                    }
                    Outcome::Lost if executing.phase == Phase::Proving => {
                        is_over(executing, now, true, true);
                        (executing.lease, executing.permit) = (None, None);
                    }
                    // A Lambda function of another branch goes on.
                    Outcome::Lost if self.scope.budget.fail > 0 => {
                        state.ends_with(who, true, true);
                    }
                    Outcome::Lost => executing.rests(),
                    _ => {}
                }
            }
            (Call::Return(..), Outcome::Done | Outcome::Lost)
                if executing.phase == Phase::Releasing =>
            {
                executing.rests();
            }
            _ => {}
        }
    }

    fn believed_until(&self, until: Tick, now: Tick, clock: Tick) -> Tick {
        if self.is(Flaw::DeadlineCountsFromTheAnswer) {
            now + clock + self.scope.ttl
        } else {
            until
        }
    }

    /// The resource takes a write that carries a token, if that is not older than the last.
    pub fn lands(&self, state: &mut State, place: usize) {
        let token = state.writes.remove(place);
        if token >= state.fence || self.is(Flaw::TheResourceIgnoresTheToken) {
            state.seen.must(token >= state.fence, Invariant::S3);
            state.fence = token;
        }
    }

    /// The table is as it was, and every function is deployed with a floor. Nothing that was sent to the other one is on its way any
    /// more, and nobody believes in a lease of it: an operator who restores a table stops all work first.
    pub fn restores(&self, state: &mut State) -> Option<()> {
        let (table, granted) = *state.backup.take()?;
        Self::clears(state);
        let now = state.now;
        for (who, executing) in (0..).zip(&mut state.executions) {
            executing.work = None;
            match executing.phase {
                Phase::Over | Phase::Idle => {}
                _ if self.is_program(who) => executing.rests(),
                _ => is_over(executing, now, false, true),
            }
        }
        state.table = table;
        state.seen.granted = granted;
        state.index = state.table;
        Some(())
    }

    /// The row is deleted: by DynamoDB once it is free, or by a person before that. Nothing that was sent before is on its way any
    /// more: a row is purged days after its last grant was over, and calls last for seconds.
    pub fn wipes(&self, state: &mut State) {
        state.left.wipe -= 1;
        Self::clears(state);
        state.table = self.library.without_rows(state.table);
        state.seen.granted.clear();
    }

    fn clears(state: &mut State) {
        state.late.clear();
        state.calls.clear();
        state.seen.released.clear();
    }

    /// A change of a program took effect.
    pub fn wrote_for_program(
        &self,
        state: &mut State,
        ask: &Ask,
        (before, after): (&Table, &Table),
    ) {
        if self.scope.budget.wipe > 0 {
            state.seen.wrote_at = state.now;
        }
        state.seen.must(!self.scope.stranger, Invariant::S10);
        let [Write::Row(at, change)] = ask.writes() else {
            return;
        };
        let Some(key) = names::which(at.key.as_str()).filter(|_| at.permit == 0) else {
            return;
        };
        let until = |table: &Table| Some(table.row(key)?.holding()?.expires_at());
        let view = before.view(key, 0);
        match change {
            Change::Extend(extend) => {
                let is_its = view
                    .lease
                    .is_some_and(|it| self.library.callers.is_lease(it, &extend.lease_id));
                let is_over = view
                    .lease
                    .is_some_and(|it| state.seen.released.contains(&it));
                state.seen.must(is_its && !is_over, Invariant::S6);
                state
                    .seen
                    .must(until(after) >= until(before), Invariant::S5);
            }
            // The one write that may shorten a lease is for those whose execution has ended, who have to prove theirs before they go
            // on, or who no longer work.
            Change::ShortenDeadline(_) => {
                let holder = view
                    .holder
                    .and_then(|who| state.executions.get(usize::from(who)));
                let works = holder.is_some_and(|it| it.phase == Phase::Section);
                state.seen.must(!works, Invariant::S5);
            }
            // What sweep frees has expired, by the fastest clock.
            Change::EndIfUnchanged(end)
                if end.ended == Ended::Expired
                    && view.holder.is_some_and(|who| self.is_program(who)) =>
            {
                let now = names::instant(state.now + self.scope.error + 1);
                let margin = names::TICK * u32::from(self.scope.margin.unsigned_abs());
                let is_past = until(before).is_some_and(|until| until.plus(margin) < now);
                state.seen.must(is_past, Invariant::S4);
            }
            Change::Release(_) if self.programs().next().is_some() => {
                state.seen.released.extend(view.lease);
                state.seen.released.sort_unstable();
                state.seen.released.dedup();
            }
            _ => {}
        }
    }

    /// Once nobody does anything any more, the key is free in time: by the slowest clock, whoever asks is granted it, and a sweep
    /// frees it.
    pub fn frees(&self, state: &mut State) {
        let at_once = self.programs().filter(|who| !self.is_queued(*who));
        let is_watched = at_once.count() == self.scope.executions
            && self.scope.clocks != Clocks::Unasked
            && !self.scope.stranger;
        if !is_watched || !state.calls.is_empty() {
            return;
        }
        // An operator who stops grants takes that back, some time.
        let table = self.library.table(state.table);
        if table.of_keys().any(|view| view.limited) {
            return;
        }
        let key = (state.table, state.now, state.backup.is_some());
        let known = self.freed.get(&key).map(|known| *known);
        let frees = known.unwrap_or_else(|| {
            let frees = self.is_freed(state);
            self.freed.insert(key, frees);
            frees
        });
        state.seen.must(frees, Invariant::L1);
    }

    fn is_freed(&self, state: &State) -> bool {
        let mut state = state.clone();
        state.late.clear();
        let error = self.scope.error;
        state.now += self.scope.ttl + self.scope.margin + 2 * error;
        state.sweeper = -error;
        state.index = state.table;
        let held = |state: &State| {
            let table = self.library.table(state.table);
            let mut views = table.of_keys();
            views.find_map(|view| view.holder)
        };
        let mut asked = state.clone();
        self.begin(&mut asked, Call::Ask(PROGRAM, 0, 0, None));
        self.finish(&mut asked);
        self.begin(&mut state, Call::Sweep(100));
        self.finish(&mut state);
        held(&asked) == Some(PROGRAM) && held(&state).is_none()
    }
}

impl Executing {
    pub fn has_until(&mut self, lease: Handle, until: Tick) {
        (self.lease, self.permit, self.until) = (Some(lease.0), lease.1, until);
        (self.phase, self.observed) = (Phase::Section, None);
        self.stands();
    }

    /// It no longer has its lease, and may ask for another.
    pub fn rests(&mut self) {
        (self.lease, self.permit, self.observed) = (None, None, None);
        self.phase = Phase::Idle;
    }
}
