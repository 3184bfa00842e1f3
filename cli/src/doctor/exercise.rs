//! The checks that act. They acquire, contend for, extend and release leases on keys of their own, and let some expire. They only
//! call the stack's functions, so the caller needs no permission to write to the table.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::{Clock as _, RequestId, SystemClock, Timestamp};
use serde_json::{Value, json};

use super::account::{Account, Answer, Refusal};
use super::clocks::{ClockOffset, narrow};
use super::inspect::StackState;
use super::report::{Outcome, Report};
use crate::durations::render;

/// Time beyond the guard for a lease that is to last.
const LONG: Duration = Duration::from_mins(1);
/// Time beyond the guard for a lease that is to expire.
const SHORT: Duration = Duration::from_secs(1);
/// Errors after which the outcome is unknown. The same request is sent again.
const AGAIN: [&str; 2] = ["Lease.Unavailable", "Lease.Throttled"];
/// The pause between two looks at an awaited state.
const PAUSE: Duration = Duration::from_millis(500);

/// A step's result, or the outcome of its check if the step failed.
pub(super) type Step<T> = Result<T, Outcome>;

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
    handles: Vec<Value>,
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
    pub(super) async fn call(&mut self, verb: &'static str, event: &Value) -> Answer {
        let mut answer = self.call_once(verb, event).await;
        for _ in 0..3 {
            match &answer {
                Err(refusal) if AGAIN.iter().any(|name| refusal.is(name)) => {
                    SystemClock.sleep(PAUSE).await;
                    answer = self.call_once(verb, event).await;
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

    async fn call_once(&mut self, verb: &'static str, event: &Value) -> Answer {
        let Some(name) = self.seen.functions.get(verb) else {
            let missing = super::account::CallError::Missing;
            return Err(Refusal::Uncalled(missing));
        };
        let asked = SystemClock.now();
        let answer = self.account.invoke(name, event).await?;
        self.learn(verb, asked, event, &answer);
        Ok(answer)
    }

    /// Remembers which leases to release, which texts are secret, and what the function's clock shows.
    fn learn(&mut self, verb: &'static str, asked: Timestamp, event: &Value, answer: &Value) {
        let several = answer["leases"].as_array().cloned();
        let leases = several.unwrap_or_else(|| vec![answer["lease"].clone()]);
        for lease in leases.iter().filter(|lease| lease["lease_id"].is_string()) {
            self.report
                .keep_secret(lease["lease_id"].as_str().unwrap_or_default());
            if verb == "acquire" {
                self.handles.push(lease.clone());
            }
        }
        let lease = &leases.first().cloned().unwrap_or_default();
        let now = match verb {
            "acquire" if answer["grant"] == "new" || answer["grant"] == "takeover" => {
                instant(lease, "acquired_at")
            }
            "extend" if event["ttl_seconds"].is_number() => {
                let ttl =
                    Duration::from_secs_f64(event["ttl_seconds"].as_f64().unwrap_or_default());
                // An extend that did not move the deadline shows no clock.
                let is_moved = lease["expires_at"] != event["lease"]["expires_at"];
                let ends = is_moved.then(|| instant(lease, "expires_at")).flatten();
                ends.map(|ends| ends.minus(ttl))
            }
            _ => None,
        };
        if let Some(now) = now {
            let reading = ClockOffset::of(asked, SystemClock.now(), now, now);
            narrow(self.clocks.entry(verb).or_default(), reading);
        }
    }

    pub(super) fn request(&self, key: &str, who: &str, length: Duration) -> Value {
        let (holder, ttl) = (self.holder(who), self.ttl(length));
        json!({"key": key, "holder": holder, "request_id": "1", "ttl_seconds": ttl})
    }

    /// Sends an event that must not be refused.
    async fn must(&mut self, verb: &'static str, event: &Value) -> Step<Value> {
        let answer = self.call(verb, event).await;
        answer.map_err(|refusal| refusal.outcome(verb))
    }

    /// Looks again and again until there is something to see, or `--patience` is over: then the check ends as the last look
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
    pub(super) async fn acquire(&mut self, request: &Value) -> Step<Value> {
        let answer = self.must("acquire", request).await?;
        if answer["outcome"] == "acquired" {
            return Ok(answer);
        }
        Err(Outcome::fail("acquire returned no lease"))
    }

    /// Sends an acquire that must be refused with this error.
    async fn refused(&mut self, request: &Value, name: &str) -> Step<()> {
        match self.call("acquire", request).await {
            Err(refusal) if refusal.is(name) => Ok(()),
            Err(refusal) => Err(refusal.outcome("acquire")),
            Ok(answer) => {
                let token = &answer["lease"]["fencing_token"];
                Err(Outcome::fail(format!(
                    "it was granted, with the token {token}, instead of {name}"
                )))
            }
        }
    }

    /// Releases the lease, and returns the outcome.
    pub(super) async fn release(&mut self, lease: &Value) -> Step<String> {
        let answer = self.must("release", &json!({"lease": lease})).await?;
        self.handles.retain(|handle| handle != lease);
        Ok(answer["outcome"].as_str().unwrap_or_default().to_owned())
    }

    async fn released(&mut self, lease: &Value, wanted: &str) -> Step<()> {
        let outcome = self.release(lease).await?;
        if outcome == wanted {
            return Ok(());
        }
        Err(Outcome::fail(format!(
            "release returned {outcome}, expected {wanted}"
        )))
    }

    pub(super) async fn inspect(&mut self, key: &str) -> Step<Value> {
        self.must("inspect", &json!({"key": key})).await
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
        let lease = &granted["lease"];
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

    async fn copies(&mut self, request: &Value, lease: &Value) -> Step<()> {
        let again = self.acquire(request).await?;
        let same = ["lease_id", "fencing_token"];
        if same
            .iter()
            .all(|field| again["lease"][field] == lease[field])
        {
            return Ok(());
        }
        let (first, second) = (&lease["fencing_token"], &again["lease"]["fencing_token"]);
        Err(Outcome::fail(format!(
            "the tokens are {first} and {second}"
        )))
    }

    async fn extend(&mut self, lease: &Value) -> Step<()> {
        let mut ends = Vec::new();
        let mut latest = lease.clone();
        for length in [LONG * 2, SHORT] {
            let event = json!({"lease": latest, "ttl_seconds": self.ttl(length)});
            latest = self.must("extend", &event).await?["lease"].clone();
            ends.push(instant(&latest, "expires_at"));
        }
        if ends[0] <= instant(lease, "expires_at") {
            return Err(Outcome::fail("a longer ttl did not move the deadline"));
        }
        if ends[1] < ends[0] {
            return Err(Outcome::fail("a shorter ttl moved the deadline back"));
        }
        Ok(())
    }

    async fn secrets(&mut self, key: &str, lease: &Value) -> Step<()> {
        let shown = self.inspect(key).await?.to_string();
        if shown.contains("lease_id") || shown.contains(lease["lease_id"].as_str().unwrap_or("\""))
        {
            return Err(Outcome::fail("inspect shows the lease_id"));
        }
        if shown.contains("\"held\"") {
            return Ok(());
        }
        Err(Outcome::fail("inspect does not show the key as held"))
    }

    async fn ended(&mut self, lease: &Value) -> Step<()> {
        self.released(lease, "released").await?;
        self.released(lease, "already_released").await
    }

    async fn tokens(&mut self, other: &Value, first: &Value) -> Step<()> {
        let later = self.acquire(other).await?;
        let later = &later["lease"];
        self.release(later).await?;
        let (first, later) = (&first["fencing_token"], &later["fencing_token"]);
        if later.as_u64() > first.as_u64() {
            return Ok(());
        }
        Err(Outcome::fail(format!(
            "the token {later} came after {first}"
        )))
    }

    async fn permits(&mut self) -> Step<()> {
        let key = self.key("permits");
        let mut requests = ["first", "second", "third"].map(|who| self.request(&key, who, LONG));
        for request in &mut requests {
            request["permits"] = 2.into();
        }
        let first = self.acquire(&requests[0]).await?;
        let second = self.acquire(&requests[1]).await?;
        self.refused(&requests[2], "Lease.Held").await?;
        for granted in [first, second] {
            self.released(&granted["lease"], "released").await?;
        }
        Ok(())
    }

    async fn keys(&mut self) -> Step<()> {
        let (left, right) = (self.key("left"), self.key("right"));
        let taken = self.acquire(&self.request(&right, "first", LONG)).await?;
        let mut both = self.request(&left, "second", LONG);
        both.as_object_mut().map(|fields| fields.remove("key"));
        both["keys"] = json!([left, right]);
        self.refused(&both, "Lease.Held").await?;
        let shown = self.inspect(&left).await?;
        if shown["state"] == "held" {
            return Err(Outcome::fail(
                "one key was leased although the other was held",
            ));
        }
        self.released(&taken["lease"], "released").await?;
        let granted = self.acquire(&both).await?;
        let leases = granted["leases"].as_array().cloned().unwrap_or_default();
        if leases.len() != 2 {
            return Err(Outcome::fail(format!(
                "two keys were asked for and {} granted",
                leases.len()
            )));
        }
        for lease in &leases {
            self.released(lease, "released").await?;
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
        // The answer does not matter, because the lease ends at its deadline.
        let _ = self.release(&new).await;
    }

    /// Lets a lease expire and acquires the key again. Returns both handles.
    async fn taken_over(&mut self) -> Step<(Value, Value)> {
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
        let acquire = async |actor: &mut Self| match actor.call("acquire", &request).await {
            Ok(answer) => Ok(Ok(answer)),
            Err(refusal) if refusal.is("Lease.Held") => Ok(Err(refusal.outcome("acquire"))),
            Err(refusal) => Err(refusal.outcome("acquire")),
        };
        let new = self.eventually(acquire).await?;
        let (old, lease) = (&old["lease"], &new["lease"]);
        // If sweep ended the lease first, the next holder reads the same.
        if new["previous"]["ended"] != "expired" {
            let ended = &new["previous"]["ended"];
            return Err(Outcome::fail(format!(
                "the next grant says that the previous lease ended as {ended}"
            )));
        }
        if lease["fencing_token"].as_u64() <= old["fencing_token"].as_u64() {
            return Err(Outcome::fail("the next holder's token is not larger"));
        }
        Ok((old.clone(), lease.clone()))
    }

    async fn lost(&mut self, old: &Value) -> Step<()> {
        match self.call("extend", &json!({"lease": old})).await {
            Err(refusal) if refusal.is("Lease.Lost") => {}
            Err(refusal) => return Err(refusal.outcome("extend")),
            Ok(_) => return Err(Outcome::fail("the old holder's extend succeeded")),
        }
        self.released(old, "lost").await
    }

    async fn lapse(&mut self) -> Step<()> {
        let request = self.request(&self.key("lapse"), "first", SHORT);
        let granted = self.acquire(&request).await?;
        // Only sweep is to free it.
        self.handles.retain(|handle| *handle != granted["lease"]);
        Ok(())
    }

    async fn swept(&mut self) -> Step<()> {
        let key = self.key("lapse");
        let patience = render(self.patience);
        self.eventually(async |actor| {
            let is_free = actor.inspect(&key).await?["state"] == "free";
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
        for lease in std::mem::take(&mut self.handles) {
            if self.release(&lease).await.is_err() {
                left.push(lease["key"].as_str().unwrap_or_default().to_owned());
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

fn instant(lease: &Value, field: &str) -> Option<Timestamp> {
    lease[field].as_str()?.parse().ok()
}
