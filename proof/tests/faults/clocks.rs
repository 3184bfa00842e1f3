//! Clocks that jump, and clocks that are apart.

use std::{sync::Arc, time::Duration};

use leasehold::{
    Acquired, Clock as _, DynamoDb, Error, ExtendOptions, Lease, LeaseStatus, Leases, ManualClock,
    ReleaseOutcome, Settings, Timestamp,
};

use leasehold_proof::fixture::{Table, request, without_executions};

use crate::operations::{KEY, TTL};

const MS: i64 = 1;
const HOUR: i64 = 3_600_000;
const HALF_MARGIN: i64 = 1_000;

/// A program whose clock shows something else than the time.
struct Program {
    clock: Arc<ManualClock>,
    leases: Leases<DynamoDb>,
    /// By how many milliseconds its clock is ahead.
    ahead: i64,
}

impl Program {
    fn new(table: &Table, ahead: i64) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(0)));
        let leases = table.leases().with_clock(clock.clone());
        Self {
            clock,
            leases,
            ahead,
        }
    }

    /// The time is so, and its clock shows what it shows then.
    fn at(&self, millis: u64) -> &Self {
        let shows = millis.checked_add_signed(self.ahead).unwrap();
        self.clock.set(Timestamp::from_millis(shows));
        self
    }

    async fn ask(&self, holder: &str, id: &str) -> Option<Lease> {
        match self.leases.acquire(request(KEY, holder, id)).await.unwrap() {
            Acquired::Granted(granted) => Some(granted.lease),
            Acquired::Held(_) => None,
        }
    }

    fn believes_in(&self, lease: &Lease) -> bool {
        self.leases.status(lease) != LeaseStatus::Stop
    }
}

const START: u64 = 1_800_000_000_000;

/// When the taker is first granted what the holder acquired at [`START`], in milliseconds after
/// it; and whether the holder still believes in it then.
async fn takeover(table: &Table, holder: &Program, taker: &Program) -> (u64, bool) {
    let lease = holder.at(START).ask("a", "1").await.expect("free");
    let all = u64::try_from((TTL + Settings::default().clock_margin).as_millis()).unwrap();
    let at = START + all.checked_add_signed(holder.ahead - taker.ahead).unwrap();
    assert!(
        taker.at(at - 1).ask("b", "1").await.is_none(),
        "one too early"
    );
    let next = taker.at(at).ask("b", "1").await.expect("over by its clock");
    assert!(next.fencing_token > lease.fencing_token);
    let believes = holder.at(at).believes_in(&lease);
    let lost = holder
        .at(at + 10_000)
        .leases
        .extend(&lease, ExtendOptions::default())
        .await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
    let row = table.row(KEY).await;
    assert_eq!(row.fencing_token, next.fencing_token);
    (at - START, believes)
}

#[tokio::test]
async fn clocks_within_margin_prevent_two_holders() {
    let ahead = [
        -HALF_MARGIN,
        -HALF_MARGIN / 2,
        0,
        HALF_MARGIN / 2,
        HALF_MARGIN,
    ];
    for holders in ahead {
        for takers in ahead {
            let table = Table::start().await;
            let (holder, taker) = (Program::new(&table, holders), Program::new(&table, takers));
            let (after, believes) = takeover(&table, &holder, &taker).await;
            assert!(!believes, "{holders} {takers}: still sure after {after} ms");
        }
    }
}

/// Beyond the margin two may believe so. The order of the tokens holds, by which the resource decides, and the
/// first extend tells.
#[tokio::test]
async fn tokens_keep_order_beyond_margin() {
    let guard = i64::try_from(Settings::default().guard.as_millis()).unwrap();
    for (apart, believes) in [
        (2 * HALF_MARGIN + guard, false),
        (2 * HALF_MARGIN + guard + MS, true),
        (HOUR / 120, true),
    ] {
        let table = Table::start().await;
        let (holder, taker) = (Program::new(&table, 0), Program::new(&table, apart));
        let (_, believed) = takeover(&table, &holder, &taker).await;
        assert_eq!(believed, believes, "{apart} ms apart");
    }
}

#[tokio::test]
async fn clock_jump_shortens_no_lease() {
    for jumps in [
        [-HOUR, -5 * HOUR, HOUR, -HOUR],
        [5 * HOUR, -HOUR, -5 * HOUR, 0],
        [HOUR, HOUR, HOUR, -12 * HOUR],
        [-12 * HOUR, 24 * HOUR, -12 * HOUR, MS],
    ] {
        let table = Table::start().await;
        let mut program = Program::new(&table, 0);
        let mut last = 0;
        for (n, jump) in jumps.into_iter().enumerate() {
            // An earlier holder's lease has either expired by this clock, or it still holds.
            let seconds = 10_000 * u64::try_from(n).unwrap();
            let id = n.to_string();
            let Some(lease) = program.at(START + seconds).ask("a", &id).await else {
                panic!("{jumps:?}: it was released")
            };
            assert!(lease.fencing_token.get() > last, "{jumps:?}");
            last = lease.fencing_token.get();
            program.ahead = jump;
            program.at(START + seconds + 1000);
            let extended = program
                .leases
                .extend(&lease, ExtendOptions::default())
                .await;
            let extended = extended.unwrap().into_lease();
            assert!(extended.expires_at() >= lease.expires_at(), "{jumps:?}");
            let expected = program.clock.now().plus(TTL).max(lease.expires_at());
            assert_eq!(extended.expires_at(), expected, "{jumps:?}");
            let released = program.leases.release(&extended).await.unwrap();
            assert_eq!(released.outcome, ReleaseOutcome::Released);
        }
    }
}

/// The price of a clock that was wrong for a while: the key is free late, or by observation in time.
#[tokio::test]
async fn far_deadline_delays_all_but_observer() {
    let table = Table::start().await;
    let (wrong, right) = (Program::new(&table, 5 * HOUR), Program::new(&table, 0));
    let lease = wrong.at(START).ask("a", "1").await.expect("free");
    let later = START + u64::try_from(2 * TTL.as_millis()).unwrap();
    let request = request(KEY, "b", "1");
    let Acquired::Held(contention) = right
        .at(later)
        .leases
        .acquire(request.clone())
        .await
        .unwrap()
    else {
        panic!("it is held until its own deadline")
    };
    assert_eq!(
        contention.retry.unwrap().retry_at,
        lease.expires_at().plus(Duration::from_millis(2_001))
    );
    let observed = request.observed_version(contention.held.version);
    let taken = right
        .leases
        .acquire(observed)
        .await
        .unwrap()
        .granted()
        .unwrap();
    assert!(taken.lease.fencing_token > lease.fencing_token);
}

/// Whatever a clock shows, the row that it writes can be read again, and a correct clock takes it for one of ours.
#[tokio::test]
async fn extreme_clocks_write_readable_rows() {
    // The year 1970 to its millisecond, and the end of what a date in JSON can say.
    for shows in [0, 1, 2_000, 253_402_300_799_999, u64::MAX] {
        let table = Table::start().await;
        let wrong = Program::new(&table, 0);
        wrong.clock.set(Timestamp::from_millis(shows));
        let lease = wrong.ask("a", "1").await.expect("free");
        let again = wrong.ask("a", "1").await.expect("its own");
        assert_eq!(
            (again.fencing_token, again.expires_at()),
            (lease.fencing_token, lease.expires_at())
        );
        let extended = wrong.leases.extend(&lease, ExtendOptions::default()).await;
        let extended = extended.unwrap().into_lease();
        let written = serde_json::to_string(&extended).unwrap();
        let read: Lease = serde_json::from_str(&written).unwrap();
        assert_eq!(read, extended, "{shows}");
        let released = wrong.leases.release(&read).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released, "{shows}");
        let right = Program::new(&table, 0);
        let next = right.at(START).ask("b", "1").await.expect("released");
        assert!(next.fencing_token > lease.fencing_token, "{shows}");
        without_executions(&wrong.leases)
            .sweep(leasehold::SweepBounds::Schedule)
            .await
            .unwrap();
    }
}
