//! A key and its queue.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::{Case, FakeStepFunctions, Lost, make};
use leasehold::{
    Acquire, Error, Execution, Granted, Lease, Leases, Queued, ReleaseOutcome, RequestDigest,
    Settings, TaskToken, Wait, WaitTime, store::Operations as _, waiter::TokenItem,
};

/// A key whose waiters can be notified.
pub(super) struct QueueCase {
    pub(super) case: Case,
    pub(super) calls: Arc<FakeStepFunctions>,
}

impl std::ops::Deref for QueueCase {
    type Target = Case;

    fn deref(&self) -> &Self::Target {
        &self.case
    }
}

/// A waiter whose turn has come.
pub(super) struct Turn {
    pub(super) who: String,
    /// The output that its task token received.
    pub(super) output: Value,
    pub(super) lease: Lease,
}

impl Turn {
    /// Asserts that the grant before this one was `lease`'s.
    #[track_caller]
    pub(super) fn follows(&self, lease: &Lease) {
        let previous = &self.output["previous"];
        assert_eq!(previous["fencing_token"], lease.fencing_token.get());
    }
}

/// What a token received: the output, or the name of an error and its cause; parsed as JSON.
pub(super) type Answer = Result<Value, (String, Value)>;

/// The waiting time of a case that sets none.
pub(super) const WAIT: Duration = Duration::from_hours(1);

impl QueueCase {
    pub(super) fn new(key: &str) -> Self {
        Self::with(key, Settings::default())
    }

    pub(super) fn with(key: &str, settings: Settings) -> Self {
        let mut case = Case::new(key);
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(case.table.clone(), settings).with_clock(case.clock.clone());
        case.leases = leases.with_engine(calls.clone());
        Self { case, calls }
    }

    /// A held key, and these waiters.
    pub(super) async fn held(key: &str, waiting: &[&str]) -> (Self, Lease) {
        let case = Self::new(key);
        let lease = case.case.lease("holder").await;
        for who in waiting {
            case.join(who).await;
        }
        (case, lease)
    }

    /// A held key, and these waiters. The lease was just released, and the calls that tell the first of them are lost
    /// like this.
    pub(super) async fn released_with(key: &str, lost: (Lost, u32)) -> (Self, Lease) {
        let (case, holder) = Self::held(key, &["a", "b"]).await;
        case.calls.lose(&case.token("a"), lost.0, lost.1);
        case.release(&holder).await;
        (case, holder)
    }

    /// A key that was just granted to the first of these waiters.
    pub(super) async fn handed_over(key: &str, waiting: &[&str]) -> (Self, Turn) {
        let (case, lease) = Self::held(key, waiting).await;
        case.release(&lease).await;
        let turn = case.turn();
        (case, turn)
    }

    /// Tokens contain the key, because a sweep covers all keys.
    pub(super) fn token(&self, who: &str) -> String {
        format!("{}: {who}", self.address.key)
    }

    pub(super) fn queue(&self, token: &str, wait: Duration) -> Wait {
        Wait {
            task_token: TaskToken::new(self.token(token)).expect("a valid token"),
            wait: WaitTime::new(wait).expect("a valid wait"),
            latest: false,
        }
    }

    pub(super) fn request(&self, who: &str) -> Acquire {
        let request_id = make::request_id(format!("by {who}"));
        make::of_execution(self.address.key.clone(), who).request_id(request_id)
    }

    pub(super) fn digest(who: &str) -> RequestDigest {
        let request = make::request_id(format!("by {who}"));
        RequestDigest::of(&make::execution(who), &request)
    }

    /// Says of the execution of this waiter that it runs, or how it ended.
    pub(super) fn is(&self, who: &str, execution: Execution) {
        let holder = make::execution(who);
        self.calls.set_execution(holder.as_str(), execution);
    }

    /// The result for a request that waits with this token.
    pub(super) async fn ask(&self, who: &str, token: &str) -> Result<Queued, Error> {
        self.is(who, Execution::Running);
        let queue = self.queue(token, WAIT);
        self.leases.acquire_queued(self.request(who), queue).await
    }

    /// Asks with this token, and asserts that the request has the lease or that its turn has come.
    pub(super) async fn acquires(&self, who: &str, token: &str) -> Turn {
        let answer = self.ask(who, token).await.expect("an answer");
        assert_eq!(answer, Queued::Acquired);
        self.turn_of(token)
    }

    /// Asserts that exactly these requests are in the queue.
    pub(super) async fn has_waiting(&self, names: &[&str]) {
        let digests: Vec<_> = names.iter().map(|who| Self::digest(who)).collect();
        assert_eq!(self.row().await.waiting(), digests);
    }

    /// Joins the queue, and returns the ticket.
    pub(super) async fn join(&self, who: &str) -> u64 {
        self.join_for(who, WAIT).await
    }

    pub(super) async fn join_for(&self, who: &str, wait: Duration) -> u64 {
        self.is(who, Execution::Running);
        let queue = self.queue(who, wait);
        let answer = self.leases.acquire_queued(self.request(who), queue);
        match answer.await.expect("an answer") {
            Queued::Queued { ticket } => ticket,
            Queued::Acquired => panic!("{who} need not wait"),
        }
    }

    /// The tokens that were answered since the last call of this method, and how.
    pub(super) fn answers(&self) -> Vec<(String, Answer)> {
        let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let ours = self.token("");
        let answers = self.calls.take_answers().into_iter().filter_map(|answer| {
            let who = answer.token.strip_prefix(&ours)?.to_owned();
            let what = answer.result.map(|output| json(&output));
            Some((who, what.map_err(|(name, cause)| (name, json(&cause)))))
        });
        answers.collect()
    }

    pub(super) fn expect_no_answers(&self) {
        let answers = self.answers();
        assert!(answers.is_empty(), "{answers:?}");
    }

    /// The waiter whose turn has come since the last call.
    pub(super) fn turn(&self) -> Turn {
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        let (who, what) = answers.remove(0);
        let output = what.expect("its turn");
        assert_eq!(output["outcome"], "acquired");
        let lease = serde_json::from_value(output["lease"].clone()).expect("a handle");
        Turn { who, output, lease }
    }

    /// The turn of this token, which is the only answer.
    #[track_caller]
    pub(super) fn turn_of(&self, who: &str) -> Turn {
        let turn = self.turn();
        assert_eq!(turn.who, who);
        turn
    }

    /// A release by a client that cannot notify.
    pub(super) async fn release_silently(&self, lease: &Lease) {
        let leases = Leases::new(self.table.clone(), Settings::default());
        let leases = leases.with_clock(self.clock.clone());
        let _ = leases.release(lease).await.expect("released");
    }

    pub(super) async fn release(&self, lease: &Lease) -> ReleaseOutcome {
        self.give_back(lease).await
    }

    pub(super) async fn extend(&self, lease: &Lease) -> Result<Lease, Error> {
        self.extension(lease)
            .await
            .map(leasehold::Extended::into_lease)
    }

    /// Extends, which proves an execution lease.
    pub(super) async fn prove(&self, lease: &Lease) -> Lease {
        self.extend(lease).await.expect("still held")
    }

    pub(super) async fn hand_over(&self) -> bool {
        let handed_over = self.leases.hand_over(&self.address.key).await;
        handed_over.expect("an answer")
    }

    pub(super) async fn sweep(&self) {
        self.swept().await;
    }

    /// The item of a waiter.
    pub(super) async fn waiter(&self, who: &str) -> Option<TokenItem> {
        let (key, request) = (&self.address.key, Self::digest(who));
        let limit = Duration::from_secs(1);
        let waiter = self.leases.store().token_item(key, &request, limit).await;
        waiter.expect("an answer")
    }

    /// A grant to a request that does not wait.
    pub(super) async fn granted(&self, who: &str) -> Granted {
        self.grant(who, &format!("by {who}")).await
    }
}
