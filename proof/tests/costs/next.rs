//! How long it takes from the end of a lease, or from the instant at which something is due, until whoever waits first is told: by path.
//! No path waits for the next run of a sweep.
use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use leasehold::test_support::FakeStepFunctions;
use leasehold::{
    Acquire, AtLeast, AuditReason, Clock as _, DynamoDb, Execution, ExecutionName,
    ForceReleaseOptions, Holder, KeepTime, Key, Lease, Leases, Lifetime, LimitedTo, Operator,
    Permits, Queue, Reason, RequestId, ResultTo, Settings, Start, StartRules, StateMachineArn,
    SweepBounds, SystemClock, TaskToken, Timestamp, Wait, WaitTime,
};

use leasehold_proof::fixture::{Table, request};

const TIMES: u32 = 20;
const MARGIN: Duration = Duration::from_millis(200);
/// How long after the beginning everything is due.
const SOON: Duration = Duration::from_secs(2);

struct Case {
    table: Table,
    calls: Arc<FakeStepFunctions>,
    queue: Queue<DynamoDb>,
    measured: Vec<(&'static str, Vec<Duration>)>,
}

fn execution(who: &str) -> Holder {
    let machine = "arn:aws:states:us-east-1:123456789012:execution:leasehold-queued-section";
    Holder::new(format!("{machine}:{who}")).unwrap()
}

fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("alice").unwrap(),
        why: Reason::new("test").unwrap(),
    }
}

impl Case {
    async fn start() -> Self {
        let table = Table::start().await;
        let calls = Arc::new(FakeStepFunctions::default());
        let mut settings = Settings::default();
        (settings.clock_margin, settings.reap_grace) = (MARGIN, SOON);
        let leases = Leases::new(table.store(), settings);
        let queue = leases.with_engine(calls.clone());
        Self {
            table,
            calls,
            queue,
            measured: Vec::new(),
        }
    }

    /// Somebody waits for the key, or has it at once.
    async fn asks(
        &self,
        key: &str,
        (who, wait): (&str, Duration),
        change: impl FnOnce(&mut Acquire),
    ) {
        let keep = KeepTime::default();
        let lifetime = Lifetime::Execution { keep };
        let acquire = Acquire::new(Key::new(key).unwrap(), execution(who), lifetime);
        let mut acquire = acquire.request_id(RequestId::new(who).unwrap());
        change(&mut acquire);
        let wait = Wait {
            task_token: TaskToken::new(format!("{who}: {key}")).unwrap(),
            wait: WaitTime::new(wait).unwrap(),
            latest: false,
        };
        self.queue.acquire_queued(acquire, wait).await.unwrap();
    }

    /// The lease of who had the key at once.
    fn told(&self) -> Lease {
        let answer = self.calls.take_answers().pop().unwrap();
        serde_json::from_value(answer.output()["lease"].clone()).unwrap()
    }

    /// What ends a lease serves the queue itself.
    async fn by_call(
        &mut self,
        path: &'static str,
        permits: Option<u16>,
        end: impl AsyncFn(&Queue<DynamoDb>, Lease),
    ) {
        let mut took = Vec::new();
        for n in 0..TIMES {
            let name = format!("{path} {n}");
            let of = |asks: &mut Acquire| asks.permits = permits.map(|n| Permits::new(n).unwrap());
            let mut held = None;
            for holder in 0..permits.unwrap_or(1) {
                let mut asks = request(&name, &format!("h{holder}"), "1");
                of(&mut asks);
                let granted = self.queue.acquire(asks).await.unwrap();
                let lease = granted.granted().unwrap().lease;
                if permits.is_none() || lease.permit > 0 {
                    held = Some(lease);
                }
            }
            self.asks(&name, ("a", Duration::from_hours(1)), of).await;
            assert!(self.calls.take_answers().is_empty());
            let before = SystemClock.now();
            end(&self.queue, held.unwrap()).await;
            took.push(SystemClock.now().since(before));
            assert_eq!(self.calls.take_answers().len(), 1, "{name}");
        }
        self.measured.push((path, took));
    }

    /// One run of sweep, which stays for all of these.
    async fn by_sweep(&mut self, path: &'static str, due: BTreeMap<String, Timestamp>) {
        assert!(self.calls.take_answers().is_empty(), "{path}");
        let sweep = self
            .queue
            .for_call(SystemClock.now().plus(Duration::from_secs(20)));
        let mut took = Vec::new();
        let sweeps = sweep.sweep(SweepBounds::Schedule);
        tokio::pin!(sweeps);
        let swept = loop {
            let swept = tokio::select! {
                swept = &mut sweeps => Some(swept),
                () = self.queue.sleep(Duration::from_millis(2)) => None,
            };
            let now = SystemClock.now();
            for answer in self.calls.take_answers() {
                let due = due[answer.token.split_once(": ").unwrap().1];
                assert!(now >= due, "{path}: before it is due");
                took.push(now.since(due));
            }
            if let Some(swept) = swept {
                break swept;
            }
        };
        assert_eq!(took.len(), due.len(), "{path}: {swept:?}");
        swept.unwrap();
        self.measured.push((path, took));
    }

    fn table(&mut self) -> String {
        let mut text = "| from | half within | 99 of 100 within |\n|---|---|---|\n".to_owned();
        for (path, took) in &mut self.measured {
            took.sort_unstable();
            let at = |part: usize| took[(took.len() * part).div_ceil(100) - 1].as_millis();
            writeln!(text, "| {path} | {} ms | {} ms |", at(50), at(99)).unwrap();
        }
        text
    }
}

#[tokio::test]
async fn next_waits_for_no_other_sweep() {
    let mut case = Case::start().await;
    case.by_call("a release", None, async |queue, lease| {
        let _ = queue.release(&lease).await.unwrap();
    })
    .await;
    case.by_call(
        "a permit that is returned",
        Some(2),
        async |queue, lease| {
            let _ = queue.release(&lease).await.unwrap();
        },
    )
    .await;
    case.by_call("a forced release", None, async |queue, lease| {
        let which = ForceReleaseOptions::default();
        let forced = queue.force_release(&lease.key, which, &because()).await;
        drop(forced.unwrap());
    })
    .await;
    case.by_call(
        "a release by who may not tell, then a sweep of the key",
        None,
        async |queue, lease| {
            let leases = Leases::from(queue.clone());
            let _ = leases.release(&lease).await.unwrap();
            let swept = queue.sweep(SweepBounds::Key(lease.key.clone())).await;
            assert_eq!(swept.unwrap().granted, 1);
        },
    )
    .await;
    stopped_keys(&mut case).await;
    ended_callers(&mut case).await;
    due_later(&mut case).await;
    let table = case.table();
    println!("{table}");
    drop(case.table);
}

/// What operators open, and the end of an execution that reap hears of.
async fn stopped_keys(case: &mut Case) {
    let paths = [
        "unfreeze",
        "a limit that is raised",
        "an execution's end, by its event",
    ];
    for (kind, path) in paths.into_iter().enumerate() {
        let mut took = Vec::new();
        for n in 0..TIMES {
            let name = format!("{path} {n}");
            let key = Key::new(&name).unwrap();
            let hour = Duration::from_hours(1);
            let holder = format!("h{kind}{n}");
            case.asks(&name, (&holder, hour), |_| {}).await;
            let lease = case.told();
            case.asks(&name, ("a", hour), |_| {}).await;
            let leases = Leases::from(case.queue.clone());
            match kind {
                0 => _ = leases.freeze(&key, &because()).await.unwrap(),
                1 => {
                    let none = Some(LimitedTo::new(0).unwrap());
                    _ = leases.limit_to(&key, none, &because()).await.unwrap();
                }
                _ => {}
            }
            if kind < 2 {
                let _ = leases.release(&lease).await.unwrap();
            }
            let over = Execution::Ended {
                stopped_at: SystemClock.now(),
                redrivable: false,
                all_answered: true,
            };
            case.calls.set_execution(execution(&holder).as_str(), over);
            let before = SystemClock.now();
            match kind {
                0 => _ = case.queue.unfreeze(&key, &because()).await.unwrap(),
                1 => _ = case.queue.limit_to(&key, None, &because()).await.unwrap(),
                _ => drop(case.queue.reap(&execution(&holder)).await.unwrap()),
            }
            took.push(SystemClock.now().since(before));
            assert_eq!(case.calls.take_answers().len(), 1, "{name}");
        }
        case.measured.push((path, took));
    }
}

/// What they started and wait for is stopped.
async fn ended_callers(case: &mut Case) {
    let queue = case.queue.clone();
    let queue = queue.with_starts(StartRules::of("arn:aws:states:*").unwrap());
    let mut took = Vec::new();
    for n in 0..TIMES {
        let name = format!("caller{n}");
        let caller = execution(&name);
        let machine = "arn:aws:states:us-east-1:123456789012:stateMachine:leasehold_started_orders";
        let mut start = Start::new(
            Key::new(&name).unwrap(),
            StateMachineArn::new(machine).unwrap(),
            ExecutionName::new(&name).unwrap(),
        );
        start.result_to = Some(ResultTo {
            task_token: TaskToken::new(&name).unwrap(),
            caller: caller.clone(),
            stop_with_caller: true,
        });
        drop(queue.start(start).await.unwrap());
        let over = Execution::Ended {
            stopped_at: SystemClock.now(),
            redrivable: true,
            all_answered: true,
        };
        case.calls.set_execution(caller.as_str(), over);
        let before = SystemClock.now();
        let _ = queue.reap(&caller).await.unwrap();
        took.push(SystemClock.now().since(before));
        assert_eq!(case.calls.take_stopped().len(), 1, "{name}");
    }
    let path = "a caller's end, by its event, until what it waits for is stopped";
    case.measured.push((path, took));
}

/// What sweep stays for.
async fn due_later(case: &mut Case) {
    let hour = Duration::from_hours(1);
    let mut due = BTreeMap::new();
    for n in 0..TIMES {
        let name = format!("expires {n}");
        let ttl = leasehold::Ttl::new(SOON).unwrap();
        let asks = Acquire::new(Key::new(&name).unwrap(), execution("h"), ttl);
        let lease = case
            .queue
            .acquire(asks)
            .await
            .unwrap()
            .granted()
            .unwrap()
            .lease;
        case.asks(&name, ("a", hour), |_| {}).await;
        due.insert(name, lease.expires_at().plus(MARGIN));
    }
    case.by_sweep("a lease that expires", due).await;
    let mut due = BTreeMap::new();
    for n in 0..TIMES {
        let name = format!("opens {n}");
        let paced = |asks: &mut Acquire| asks.at_least = AtLeast::new(SOON).unwrap();
        case.asks(&name, ("h", hour), paced).await;
        let lease = case.told();
        let leases = Leases::from(case.queue.clone());
        let _ = leases.release(&lease).await.unwrap();
        case.asks(&name, ("a", hour), |_| {}).await;
        due.insert(name, lease.acquired_at.plus(SOON).plus(MARGIN));
    }
    case.by_sweep("a key that opens", due).await;
    let mut due = BTreeMap::new();
    for n in 0..TIMES {
        let name = format!("wait {n}");
        let asks = request(&name, "h", "1");
        drop(case.queue.acquire(asks).await.unwrap());
        let before = SystemClock.now();
        case.asks(&name, ("a", SOON), |_| {}).await;
        due.insert(name, before.plus(SOON));
    }
    case.by_sweep("a wait that ends", due).await;
    let mut names = Vec::new();
    for n in 0..TIMES {
        let (name, holder) = (format!("grace {n}"), format!("grace{n}"));
        case.asks(&name, (&holder, hour), |_| {}).await;
        drop(case.told());
        case.asks(&name, ("a", hour), |_| {}).await;
        let over = Execution::Ended {
            stopped_at: SystemClock.now(),
            redrivable: false,
            all_answered: false,
        };
        case.calls.set_execution(execution(&holder).as_str(), over);
        names.push(name);
    }
    // The sweep that comes first finds that they are over.
    let ends = SystemClock.now().plus(SOON);
    let due = names.into_iter().map(|name| (name, ends)).collect();
    case.by_sweep("the end of a grace", due).await;
}
