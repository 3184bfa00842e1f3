//! Tokens after a restore.

use std::time::Duration;

use super::{
    Case, TTL, contention, grant, invalid, make,
    make::because,
    plus,
    queue::{QueueCase, Turn},
    with,
};
use leasehold::{
    AcquireAll, Act, Counter, Ended, Error, ExtendOptions, GrantKind, Leases, Memory,
    RaiseFloorOutcome, ReleaseOutcome, Settings, Timestamp, row::Row,
};

impl Case {
    async fn raise(&self, floor: u64) -> RaiseFloorOutcome {
        let floor = Counter::new(floor);
        let raised = self
            .leases
            .raise_floor(&self.address.key, floor, &because())
            .await;
        raised.expect("an answer")
    }

    /// Another deployment on the same table, with this floor.
    fn floored(&self, token_floor: Counter) -> Leases<Memory> {
        let settings = with(Settings::default(), |settings| {
            settings.token_floor = token_floor;
        });
        Leases::new(self.table.clone(), settings).with_clock(self.clock.clone())
    }
}

#[tokio::test]
async fn later_tokens_exceed_raised_floor() {
    let case = Case::new("operate/floor");
    let lease = case.lease("a").await;
    case.give_back(&lease).await;
    let floor = lease.fencing_token.get() + 1_000_000;
    assert_eq!(case.raise(floor).await, RaiseFloorOutcome::Raised);
    let row = case.signed(Act::RaiseFloor).await;
    assert_eq!(case.raise(floor).await, RaiseFloorOutcome::HighEnough);
    assert_eq!(case.raise(1).await, RaiseFloorOutcome::HighEnough);
    assert_eq!(case.row().await, row, "nothing was written");
    // The old holder's release still finds its grant, and its request is still consumed.
    assert_eq!(
        case.give_back(&lease).await,
        ReleaseOutcome::AlreadyReleased
    );
    refused!(case.ask("a", "by a").await, Consumed);
    let next = case.grant("b", "1").await;
    assert!(next.lease.fencing_token.get() > floor);
    // A restored row does not know how the last grant ended.
    assert_eq!(next.grant, GrantKind::Takeover);
    let previous = next.previous.expect("a grant before");
    assert_eq!(previous.fencing_token.get(), floor);
    assert_eq!(previous.ended, Ended::Forced);

    // A frozen key stays frozen, and is not purged.
    let case = Case::new("operate/floor under ice");
    case.freeze_by_operator().await;
    assert_eq!(case.raise(2 * floor).await, RaiseFloorOutcome::Raised);
    let row = case.signed(Act::RaiseFloor).await;
    assert!(row.frozen.is_some() && row.purge_at == Some(Row::NEVER));

    // A key without a row, and one whose lease expired long ago.
    let case = Case::new("operate/floor of nothing");
    assert_eq!(
        case.raise(case.now().as_millis()).await,
        RaiseFloorOutcome::HighEnough
    );
    let floor = case.now().as_millis() + 1_000_000;
    assert_eq!(case.raise(floor).await, RaiseFloorOutcome::Raised);
    let lease = case.lease("a").await;
    assert!(lease.fencing_token.get() > floor);
    case.expire();
    assert_eq!(case.raise(2 * floor).await, RaiseFloorOutcome::Raised);
    let ended = case.row().await.last_grant().ended;
    assert_eq!(ended, Ended::Forced);
    refused!(case.extension(&lease).await, Lost);
    // Without a number the floor is now, and a restored row is below it.
    let case = Case::new("operate/floor by the clock");
    let lease = case.lease("a").await;
    case.give_back(&lease).await;
    case.pass(TTL);
    let raised = case.leases.raise_floor(&lease.key, None, &because()).await;
    assert_eq!(raised.expect("an answer"), RaiseFloorOutcome::Raised);
    assert!(case.lease("b").await.fencing_token.get() > case.now().as_millis());
}

#[tokio::test]
async fn floor_is_not_raised_while_held() {
    let case = Case::new("operate/floor held");
    let lease = case.lease("a").await;
    let floor = Counter::new(lease.fencing_token.get() + 1_000_000);
    let answer = case.leases.raise_floor(&lease.key, floor, &because()).await;
    let is_held = matches!(&answer, Err(Error::Held(by)) if by.held.holder == lease.holder);
    assert!(is_held, "{answer:?}");
    assert_eq!(case.row().await.version, lease.version);
    case.evict(None).await;
    assert_eq!(
        case.raise(floor.expect("valid").get()).await,
        RaiseFloorOutcome::Raised
    );
    let beyond = Counter::new(Counter::MAX);
    let answer = case
        .leases
        .raise_floor(&lease.key, beyond, &because())
        .await;
    invalid(answer, "floor");
}

/// A row that is purged before starts again from the clock, below the floor and below its own tokens.
#[tokio::test]
async fn row_stays_until_clock_passes_token() {
    let year = Duration::from_hours(365 * 24);
    let case = Case::new("operate/floor ahead");
    let ahead = |years| case.now().plus(year * years).as_millis();
    let is_kept = async |by: &str| {
        let row = case.row().await;
        let token = Timestamp::from_millis(row.fencing_token.get());
        assert!(token > case.now(), "{by}");
        let until = token.plus(Settings::default().retention);
        let until = until.as_seconds_rounded_up();
        let purge_at = row.purge_at.expect("a free row");
        assert!((until..until + 9).contains(&purge_at), "{by}: {purge_at}");
    };
    assert_eq!(case.raise(ahead(1)).await, RaiseFloorOutcome::Raised);
    is_kept("a floor of nothing").await;
    assert_eq!(case.raise(ahead(2)).await, RaiseFloorOutcome::Raised);
    is_kept("a floor of a free row").await;
    case.give_back(&case.lease("a").await).await;
    is_kept("a release").await;
    case.lease("b").await;
    case.expire();
    case.swept().await;
    is_kept("sweep").await;
    case.lease("c").await;
    case.evict(None).await;
    is_kept("a forced release").await;
    case.freeze_by_operator().await;
    case.unfreeze_by_operator().await;
    is_kept("a freeze").await;
    // A floor in the year 17000, which no purge waits for.
    let highest = Counter::HIGHEST_FLOOR.get();
    assert_eq!(case.raise(highest).await, RaiseFloorOutcome::Raised);
    assert_eq!(case.row().await.purge_at, Some(Row::NEVER));

    // A deployment with a floor in the future: otherwise the key starts from the floor once more.
    let case = Case::new("operate/deployed floor ahead");
    let floor = case.now().plus(year);
    let leases = case.floored(Counter::new(floor.as_millis()).expect("valid"));
    let lease = grant(&leases, case.request("a", "1")).await.lease;
    let _ = leases.release(&lease).await.expect("released");
    let row = case.row().await;
    assert!(row.purge_at > Some(floor.as_seconds_rounded_up()));
}

/// Rows from a backup are lifted when they are granted: a row, a permit, a set.
#[tokio::test]
async fn a_deployment_may_have_a_floor() {
    let case = Case::new("operate/deployed floor");
    let now = case.now().as_millis();
    let floor = Counter::new(now + 1_000_000).expect("valid");
    let leases = case.floored(floor);
    let old = case.lease("a").await;
    assert!(old.fencing_token < floor);
    contention(&leases, case.request("b", "1")).await;
    // The current holder continues with its token.
    let extended = leases.extend(&old, ExtendOptions::default()).await;
    let extended = extended.expect("extended").into_lease();
    assert_eq!(extended.fencing_token, old.fencing_token);
    case.expire();
    let lifted = grant(&leases, case.request("b", "1")).await;
    assert_eq!(lifted.lease.fencing_token.get(), floor.get() + 1);
    let before = lifted.previous.map(|p| p.fencing_token);
    assert_eq!(before, Some(old.fencing_token));
    let _ = leases.release(&lifted.lease).await.expect("released");
    let next = grant(&leases, case.request("c", "1")).await.lease;
    assert_eq!(next.fencing_token, plus(floor, 2), "counted on from there");

    // A set of a restored row, a row above the floor, and a row that does not exist.
    let key = |name: &str| make::key(format!("{}/{name}", next.key));
    let mut request = case.request("x", "1");
    request.key = key("restored");
    let restored = grant(&case.leases, request).await.lease;
    case.give_back(&restored).await;
    let _ = leases.release(&next).await.expect("released");
    let keys = vec![key("new"), key("restored"), next.key.clone()];
    let set = AcquireAll::new(make::keys(keys), restored.holder, make::ttl(TTL));
    let set = leases.acquire_all(set).await.expect("an answer").granted();
    let tokens = set
        .expect("a grant")
        .leases
        .into_iter()
        .map(|lease| lease.fencing_token);
    assert!(tokens.eq([1, 1, 3].map(|above| plus(floor, above))));

    let permits = make::permits(2);
    let case = Case::new("operate/deployed floor of permits");
    for (leases, id, lifted) in [(&*case.leases, "before", false), (&leases, "after", true)] {
        for holder in ["a", "b"] {
            let request = case.request(holder, id).permits(permits);
            let lease = grant(leases, request).await.lease;
            assert_eq!(lease.fencing_token > floor, lifted);
        }
        case.expire();
    }
}

impl QueueCase {
    /// The table was restored, and the deployed floor is above all of its tokens.
    fn lifted(&mut self) -> Counter {
        let floor = Counter::new(self.now().as_millis() + 1_000_000).expect("valid");
        self.case.leases = self.floored(floor).with_engine(self.calls.clone());
        floor
    }

    /// Asserts that this waiter was granted the key, with a token so far above the floor.
    async fn next(&self, who: &str, floor: Counter, above: u64) -> Turn {
        let turn = self.turn();
        let token = turn.lease.fencing_token.get();
        assert_eq!((turn.who.as_str(), token), (who, floor.get() + above));
        assert_eq!(self.row().await.fencing_token.get(), token);
        turn
    }
}

#[tokio::test]
async fn hand_over_stays_above_floor() {
    // By a release: the first token is lifted, and the others count from there.
    let (mut case, holder) = QueueCase::held("floor/released", &["a", "b"]).await;
    let floor = case.lifted();
    case.release(&holder).await;
    let turn = case.next("a", floor, 1).await;
    turn.follows(&holder);
    let row = case.row().await;
    let before = row.previous.map(|p| p.fencing_token);
    assert_eq!(before, Some(holder.fencing_token));
    case.release(&turn.lease).await;
    case.next("b", floor, 2).await;

    // By sweep.
    let (mut case, _) = QueueCase::held("floor/swept", &["a"]).await;
    let floor = case.lifted();
    case.expire();
    case.sweep().await;
    case.next("a", floor, 1).await;

    // By an extend that came too late.
    let (mut case, holder) = QueueCase::held("floor/late", &["a"]).await;
    let floor = case.lifted();
    case.expire();
    refused!(case.extend(&holder).await, Lost);
    case.next("a", floor, 1).await;

    // By `hand_over`, for a row that was freed by a client that cannot tell anybody.
    let (mut case, holder) = QueueCase::held("floor/left", &["a"]).await;
    case.release_silently(&holder).await;
    let floor = case.lifted();
    assert!(case.hand_over().await);
    case.next("a", floor, 1).await;

    // An operator's own token is no holder's, before the restore or after it.
    let (mut case, holder) = QueueCase::held("floor/forced", &["a"]).await;
    let floor = case.lifted();
    let (_, fencing_token) = case.evict(None).await;
    assert_eq!(fencing_token, plus(floor, 1));
    let turn = case.next("a", floor, 2).await;
    turn.follows(&holder);
}
