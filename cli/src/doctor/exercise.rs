//! The checks that act. They acquire, contend for, extend and release leases on keys of their own, and let some expire. They only
//! call the stack's functions, so the caller needs no permission to write to the table.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::{
    Clock as _, Ended, GrantKind, Inspected, Key, KeyView, LeaseState, ReleaseOutcome, RequestId,
    SystemClock, Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::account::{Account, Answer, CallError, Refusal};
use super::answers::{AcquireRequest, Extended, Granted, Grants, Handle, Released, read};
use super::clocks::{ClockOffset, narrow};
use super::inspect::StackState;
use super::report::{Outcome, Report, Step};
use crate::durations::render;

/// Time beyond the guard for a lease that is to last.
const LONG: Duration = Duration::from_mins(1);
/// Time beyond the guard for a lease that is to expire.
const SHORT: Duration = Duration::from_secs(1);
/// Errors after which the outcome is unknown. The same request is sent again.
const AGAIN: [&str; 2] = ["Lease.Unavailable", "Lease.Throttled"];
/// The pause between two looks at an awaited state.
const PAUSE: Duration = Duration::from_millis(500);

/// Acquires leases, and releases them at the end.
pub(super) struct Actor<'a> {
    pub(super) account: &'a Account,
    pub(super) seen: &'a StackState,
    pub(super) report: &'a mut Report,
    /// How long to wait for what happens by itself, such as a sweep.
    pub(super) patience: Duration,
    /// The beginning of all keys and holders, after their prefix.
    name: String,
    clocks: BTreeMap<&'static str, Option<ClockOffset>>,
    /// Leases to release.
    handles: Vec<Handle>,
    /// Executions to stop.
    pub(super) executions: Vec<String>,
}

impl<'a> Actor<'a> {
    pub(super) fn new(
        account: &'a Account,
        seen: &'a StackState,
        report: &'a mut Report,
        patience: Duration,
    ) -> Self {
        Self {
            account,
            seen,
            report,
            patience,
            name: format!("leasehold-doctor/{}", RequestId::random().as_str()),
            clocks: BTreeMap::new(),
            handles: Vec::new(),
            executions: Vec::new(),
        }
    }

    /// Makes all checks, and cleans up.
    pub(super) async fn act(mut self) {
        // This lease expires during the other checks.
        let lapsing = self.lapse().await;
        if self.life().await {
            let permits = self.permits().await;
            self.record("permits", permits);
            let keys = self.keys().await;
            self.record("keys", keys);
            self.takeover().await;
            self.queue().await;
        }
        let swept = match lapsing {
            Ok(()) => self.swept().await,
            Err(outcome) => Err(outcome),
        };
        self.record("sweep", swept);
        self.clocks();
        // If a function was denied, this check has failed already, and a failure stays.
        self.report.record("roles", Outcome::Pass);
        self.clean_up().await;
    }

    pub(super) fn record(&mut self, check: &'static str, step: Step<()>) {
        self.report
            .record(check, step.err().unwrap_or(Outcome::Pass));
    }

    pub(super) fn key(&self, part: &str) -> String {
        format!("{}{}/{part}", self.seen.key_prefix, self.name)
    }

    fn holder(&self, who: &str) -> String {
        format!("{}{}/{who}", self.seen.holder_prefix, self.name)
    }

    /// The ttl in seconds of a lease that lasts `length` beyond the guard.
    pub(super) fn ttl(&self, length: Duration) -> f64 {
        (self.seen.settings.guard + length).as_secs_f64()
    }

    /// Calls a function, and repeats the call while its outcome is unknown.
    pub(super) async fn call(&mut self, verb: &'static str, event: &impl Serialize) -> Answer {
        let Some(name) = self.seen.functions.get(verb) else {
            return Err(Refusal::Uncalled(CallError::Missing));
        };
        let mut answer = self.account.invoke(name, event).await;
        for _ in 0..3 {
            match &answer {
                Err(refusal) if AGAIN.iter().any(|name| refusal.is(name)) => {
                    SystemClock.sleep(PAUSE).await;
                    answer = self.account.invoke(name, event).await;
                }
                _ => break,
            }
        }
        if let Err(refusal) = &answer
            && refusal.is("Lease.Denied")
        {
            let denied = refusal.clone().outcome(verb);
            self.report.record("roles", denied);
        }
        answer
    }

    /// Calls a function that must not refuse.
    async fn must<T: DeserializeOwned>(
        &mut self,
        verb: &'static str,
        event: &impl Serialize,
    ) -> Step<T> {
        let answer = self.call(verb, event).await;
        read(verb, answer.map_err(|refusal| refusal.outcome(verb))?)
    }

    /// Calls acquire. Remembers which leases to release, which texts are secret, and what the function's clock shows.
    async fn ask(&mut self, request: &AcquireRequest) -> Answer {
        let asked = SystemClock.now();
        let answer = self.call("acquire", request).await?;
        if let Ok(grants) = read::<Grants>("acquire", answer.clone()) {
            let is_now = !matches!(grants.grant, GrantKind::Replayed | GrantKind::Reentered);
            let handles = grants.handles();
            for handle in &handles {
                self.report.keep_secret(handle.lease.lease_id.expose());
            }
            if let Some(first) = handles.first().filter(|_| is_now) {
                self.note_clock("acquire", asked, first.lease.acquired_at);
            }
            self.handles.extend(handles);
        }
        Ok(answer)
    }

    /// Remembers what a function's clock showed at some time since `asked`.
    fn note_clock(&mut self, verb: &'static str, asked: Timestamp, shown: Timestamp) {
        let reading = ClockOffset::of(asked, SystemClock.now(), shown, shown);
        narrow(self.clocks.entry(verb).or_default(), reading);
    }

    pub(super) fn request(&self, key: &str, who: &str, length: Duration) -> AcquireRequest {
        AcquireRequest {
            key: Some(key.to_owned()),
            keys: None,
            holder: self.holder(who),
            request_id: "1",
            ttl_seconds: self.ttl(length),
            permits: None,
        }
    }

    /// Looks again and again until there is something to see, or `--patience` has run out: then the check ends as the last look
    /// says.
    pub(super) async fn eventually<T>(
        &mut self,
        mut look: impl AsyncFnMut(&mut Self) -> Step<Result<T, Outcome>>,
    ) -> Step<T> {
        let until = SystemClock.now().plus(self.patience);
        loop {
            match look(self).await? {
                Ok(found) => return Ok(found),
                Err(outcome) if SystemClock.now() >= until => return Err(outcome),
                Err(_) => SystemClock.sleep(PAUSE).await,
            }
        }
    }

    /// Sends an acquire that must be granted.
    pub(super) async fn acquire(&mut self, request: &AcquireRequest) -> Step<Granted> {
        let answer = self.ask(request).await;
        let answer = answer.map_err(|refusal| refusal.outcome("acquire"))?;
        read("acquire", answer)
    }

    /// Sends an acquire that must be refused with this error.
    async fn refused(&mut self, request: &AcquireRequest, name: &str) -> Step<()> {
        match self.ask(request).await {
            Err(refusal) if refusal.is(name) => Ok(()),
            Err(refusal) => Err(refusal.outcome("acquire")),
            Ok(answer) => {
                let grants: Grants = read("acquire", answer)?;
                let tokens = grants.handles().into_iter();
                let tokens = tokens.map(|handle| handle.lease.fencing_token.to_string());
                let tokens = tokens.collect::<Vec<_>>().join(", ");
                Err(Outcome::fail(format!(
                    "it was granted, with the token {tokens}, instead of {name}"
                )))
            }
        }
    }

    /// Releases the lease, and returns the outcome.
    pub(super) async fn release(&mut self, handle: &Handle) -> Step<ReleaseOutcome> {
        let released: Released = self.must("release", &json!({"lease": handle})).await?;
        self.handles.retain(|held| held != handle);
        Ok(released.outcome)
    }

    async fn released(&mut self, handle: &Handle, wanted: ReleaseOutcome) -> Step<()> {
        let outcome = self.release(handle).await?;
        if outcome == wanted {
            return Ok(());
        }
        let (outcome, wanted) = (outcome.as_str(), wanted.as_str());
        Err(Outcome::fail(format!(
            "release returned {outcome}, expected {wanted}"
        )))
    }

    pub(super) async fn inspect(&mut self, key: &str) -> Step<KeyView> {
        let inspected: Inspected = self.must("inspect", &json!({"key": key})).await?;
        let key = Key::new(key).map_err(|error| Outcome::fail(error.to_string()))?;
        Ok(KeyView::of(key, inspected, SystemClock.now()))
    }

    /// Acquires a lease, and exercises it. Returns whether the key was granted at all.
    async fn life(&mut self) -> bool {
        let key = self.key("life");
        let request = self.request(&key, "first", LONG);
        let granted = self.acquire(&request).await;
        let Ok(granted) = granted.map_err(|outcome| self.report.record("grant", outcome)) else {
            return false;
        };
        self.record("grant", Ok(()));
        let lease = &granted.lease;
        let copies = self.copies(&request, lease).await;
        self.record("copies", copies);
        let other = self.request(&key, "second", LONG);
        let exclusive = self.refused(&other, "Lease.Held").await;
        self.record("exclusive", exclusive);
        let extended = self.extend(lease).await;
        self.record("extend", extended);
        let secrets = self.secrets(&key, lease).await;
        self.record("secrets", secrets);
        let ended = self.ended(lease).await;
        let is_free = ended.is_ok();
        self.record("release", ended);
        if is_free {
            let spent = self.refused(&request, "Lease.Consumed").await;
            self.record("spent", spent);
            let tokens = self.tokens(&other, lease).await;
            self.record("tokens", tokens);
        }
        true
    }

    async fn copies(&mut self, request: &AcquireRequest, first: &Handle) -> Step<()> {
        let again = self.acquire(request).await?.lease.lease;
        let first = &first.lease;
        if again.lease_id == first.lease_id && again.fencing_token == first.fencing_token {
            return Ok(());
        }
        let (first, second) = (first.fencing_token, again.fencing_token);
        Err(Outcome::fail(format!(
            "the tokens are {first} and {second}"
        )))
    }

    async fn extend(&mut self, first: &Handle) -> Step<()> {
        let longer = self.extended(first, LONG * 2).await?;
        let shorter = self.extended(&longer, SHORT).await?;
        let [first, longer, shorter] =
            [first, &longer, &shorter].map(|handle| handle.lease.expires_at());
        if longer <= first {
            return Err(Outcome::fail("a longer ttl did not move the deadline"));
        }
        if shorter < longer {
            return Err(Outcome::fail("a shorter ttl moved the deadline back"));
        }
        Ok(())
    }

    /// The lease after an extend. If that moved the deadline, it shows the function's clock.
    async fn extended(&mut self, handle: &Handle, length: Duration) -> Step<Handle> {
        let event = json!({"lease": handle, "ttl_seconds": self.ttl(length)});
        let asked = SystemClock.now();
        let extended: Extended = self.must("extend", &event).await?;
        let ends = extended.lease.lease.expires_at();
        if ends != handle.lease.expires_at() {
            let ttl = self.seen.settings.guard + length;
            self.note_clock("extend", asked, ends.minus(ttl));
        }
        Ok(extended.lease)
    }

    async fn secrets(&mut self, key: &str, handle: &Handle) -> Step<()> {
        let shown: Value = self.must("inspect", &json!({"key": key})).await?;
        let shown = shown.to_string();
        if shown.contains("lease_id") || shown.contains(handle.lease.lease_id.expose()) {
            return Err(Outcome::fail("inspect shows the lease_id"));
        }
        match self.inspect(key).await?.first() {
            Some(first) if first.state == LeaseState::Held => Ok(()),
            _ => Err(Outcome::fail("inspect does not show the key as held")),
        }
    }

    async fn ended(&mut self, handle: &Handle) -> Step<()> {
        self.released(handle, ReleaseOutcome::Released).await?;
        self.released(handle, ReleaseOutcome::AlreadyReleased).await
    }

    async fn tokens(&mut self, other: &AcquireRequest, first: &Handle) -> Step<()> {
        let later = self.acquire(other).await?.lease;
        self.release(&later).await?;
        let (first, later) = (first.lease.fencing_token, later.lease.fencing_token);
        if later > first {
            return Ok(());
        }
        Err(Outcome::fail(format!(
            "the token {later} came after {first}"
        )))
    }

    async fn permits(&mut self) -> Step<()> {
        let key = self.key("permits");
        let requests = ["first", "second", "third"].map(|who| AcquireRequest {
            permits: Some(2),
            ..self.request(&key, who, LONG)
        });
        let first = self.acquire(&requests[0]).await?;
        let second = self.acquire(&requests[1]).await?;
        self.refused(&requests[2], "Lease.Held").await?;
        for granted in [first, second] {
            self.released(&granted.lease, ReleaseOutcome::Released)
                .await?;
        }
        Ok(())
    }

    async fn keys(&mut self) -> Step<()> {
        let (left, right) = (self.key("left"), self.key("right"));
        let taken = self.acquire(&self.request(&right, "first", LONG)).await?;
        let both = AcquireRequest {
            key: None,
            keys: Some(vec![left.clone(), right]),
            ..self.request(&left, "second", LONG)
        };
        self.refused(&both, "Lease.Held").await?;
        if self.inspect(&left).await?.held().next().is_some() {
            return Err(Outcome::fail(
                "one key was leased although the other was held",
            ));
        }
        self.released(&taken.lease, ReleaseOutcome::Released)
            .await?;
        let answer = self.ask(&both).await;
        let answer = answer.map_err(|refusal| refusal.outcome("acquire"))?;
        let leases = read::<Grants>("acquire", answer)?.handles();
        if leases.len() != 2 {
            return Err(Outcome::fail(format!(
                "two keys were asked for and {} granted",
                leases.len()
            )));
        }
        for lease in &leases {
            self.released(lease, ReleaseOutcome::Released).await?;
        }
        Ok(())
    }

    async fn takeover(&mut self) {
        let (old, new) = match self.taken_over().await {
            Ok(leases) => leases,
            Err(outcome) => return self.report.record("takeover", outcome),
        };
        self.record("takeover", Ok(()));
        let lost = self.lost(&old).await;
        self.record("lost", lost);
        // The response does not matter, because the lease ends at its deadline.
        let _ = self.release(&new).await;
    }

    /// Lets a lease expire and acquires the key again. Returns both handles.
    async fn taken_over(&mut self) -> Step<(Handle, Handle)> {
        let key = self.key("takeover");
        let margin = self.seen.settings.clock_margin;
        if margin > self.patience {
            let why = format!("the margin of {} is longer than --patience", render(margin));
            return Err(Outcome::NotChecked(why));
        }
        let old = self.acquire(&self.request(&key, "first", SHORT)).await?;
        let ttl = self.seen.settings.guard + SHORT;
        SystemClock.sleep(ttl + margin).await;
        let request = self.request(&key, "second", LONG);
        let acquire = async |actor: &mut Self| match actor.ask(&request).await {
            Ok(answer) => Ok(Ok(answer)),
            Err(refusal) if refusal.is("Lease.Held") => Ok(Err(refusal.outcome("acquire"))),
            Err(refusal) => Err(refusal.outcome("acquire")),
        };
        let new: Granted = read("acquire", self.eventually(acquire).await?)?;
        // If sweep ended the lease first, the next holder reads the same.
        let ended = new.previous.map(|previous| previous.ended);
        if ended != Some(Ended::Expired) {
            let found = match ended {
                Some(ended) => format!("the previous lease ended as {}", ended.as_str()),
                None => "there was no previous lease".to_owned(),
            };
            return Err(Outcome::fail(format!("the next grant says that {found}")));
        }
        if new.lease.lease.fencing_token <= old.lease.lease.fencing_token {
            return Err(Outcome::fail("the next holder's token is not larger"));
        }
        Ok((old.lease, new.lease))
    }

    async fn lost(&mut self, old: &Handle) -> Step<()> {
        match self.call("extend", &json!({"lease": old})).await {
            Err(refusal) if refusal.is("Lease.Lost") => {}
            Err(refusal) => return Err(refusal.outcome("extend")),
            Ok(_) => return Err(Outcome::fail("the old holder's extend succeeded")),
        }
        self.released(old, ReleaseOutcome::Lost).await
    }

    async fn lapse(&mut self) -> Step<()> {
        let request = self.request(&self.key("lapse"), "first", SHORT);
        let granted = self.acquire(&request).await?;
        // Only sweep is to free it.
        self.handles.retain(|handle| *handle != granted.lease);
        Ok(())
    }

    async fn swept(&mut self) -> Step<()> {
        let key = self.key("lapse");
        let patience = render(self.patience);
        self.eventually(async |actor| {
            let view = actor.inspect(&key).await?;
            let first = view.first();
            let is_free = first.is_some_and(|first| first.state == LeaseState::Free);
            let found =
                || Outcome::fail(format!("an expired lease was not freed within {patience}"));
            Ok(is_free.then_some(()).ok_or_else(found))
        })
        .await
    }

    /// Compares the functions' clocks with DynamoDB's.
    fn clocks(&mut self) {
        let Some(dynamodb) = self.account.dates.ahead() else {
            let why = Outcome::not_checked("no response of DynamoDB had a date");
            return self.report.record("clock-functions", why);
        };
        let margin = self.seen.settings.clock_margin;
        if self.clocks.is_empty() {
            return;
        }
        let faults = self.clocks.iter().filter_map(|(verb, ahead)| {
            let ahead = (*ahead)?.than(dynamodb);
            ahead.fault(&format!("{verb}'s"), margin)
        });
        self.report
            .record("clock-functions", Outcome::of(faults.collect()));
    }

    /// Releases the leases that are still held, and stops the executions that still run.
    async fn clean_up(&mut self) {
        for execution in std::mem::take(&mut self.executions) {
            // An execution that has ended cannot be stopped. That is no error here.
            let _ = self
                .account
                .sfn
                .stop_execution()
                .execution_arn(execution)
                .send()
                .await;
        }
        let mut left = Vec::new();
        for handle in std::mem::take(&mut self.handles) {
            if self.release(&handle).await.is_err() {
                left.push(handle.lease.key.to_string());
            }
        }
        let days = self.seen.settings.retention.as_secs() / 86_400;
        let keys = self.key("");
        let mut note = format!(
            "Left in the table: free rows whose keys begin with {keys}. The table's TTL purges them after {days} days."
        );
        if !left.is_empty() {
            note = format!(
                "{note} Not released, and free at their deadlines: {}.",
                left.join(", ")
            );
        }
        self.report.left = Some(note);
    }
}
