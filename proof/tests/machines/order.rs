//! Many starts for few keys, from queues with an order and without: none is lost, none begins twice, no two of one key run
//! at once, and each key keeps the order in which its starts were accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold::test_support::{FakeStepFunctions, StartFate};
use leasehold::{
    Error, Execution, ExecutionName, Holder, Key, KeyDetails, Leases, ManualClock, Memory, Permits,
    Pool, Queue, Settings, Start, StartRules, StateMachineArn, SweepBounds, Timestamp,
};
use leasehold_local::Fault;
use leasehold_proof::execution::Execution as Run;
use leasehold_proof::fixture::eventually;
use leasehold_proof::machines::Machines;
use serde_json::{Value, json};

/// As many messages as SQS delivers at once.
const BATCH: usize = 10;
const MACHINE: &str = "arn:aws:states:us-east-1:123456789012:stateMachine:work";

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn in_a_hundred(&mut self, times: usize) -> bool {
        self.below(100) < times
    }
}

/// A start: the key and the place in the order of its sender.
type Sent = (usize, usize);

/// Keys with an even number have a queue with an order.
const fn is_ordered((key, _): Sent) -> bool {
    key.is_multiple_of(2)
}

fn name((key, place): Sent) -> String {
    format!("of-{key}-{place:03}")
}

/// What was accepted, has begun and has ended, on the library with Step Functions in memory.
struct World {
    leases: Queue<Memory>,
    calls: Arc<FakeStepFunctions>,
    clock: Arc<ManualClock>,
    random: Random,
    pool: Option<Pool>,
    accepted: BTreeMap<usize, Vec<Sent>>,
    known: BTreeSet<Sent>,
    begun: BTreeMap<usize, Vec<Sent>>,
    running: BTreeSet<Sent>,
}

impl World {
    fn new(seed: u64, pool: Option<Pool>) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_795_000_000_000)));
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(calls.clone())
            .with_starts(StartRules::of(MACHINE).unwrap());
        Self {
            leases,
            calls,
            clock,
            random: Random(seed),
            pool,
            accepted: BTreeMap::new(),
            known: BTreeSet::new(),
            begun: BTreeMap::new(),
            running: BTreeSet::new(),
        }
    }

    async fn start(&mut self, sent: Sent) -> Result<(), Error> {
        let key = Key::new(format!("key {}", sent.0)).unwrap();
        let machine = StateMachineArn::new(MACHINE).unwrap();
        let name = ExecutionName::new(name(sent)).unwrap();
        let mut start = Start::new(key, machine, name);
        start.pool = self.pool.clone();
        let started = self.leases.start(start).await;
        if self.known.insert(sent) {
            self.accepted.entry(sent.0).or_default().push(sent);
        }
        self.look();
        started.map(drop)
    }

    /// Delivers a batch, and returns what has to be delivered again. Some functions die in the middle, so that all of it comes
    /// again; some messages come twice although they were handled.
    async fn deliver(&mut self, batch: Vec<Sent>) -> Vec<Sent> {
        let dies_before = self.random.in_a_hundred(15);
        let dies_before = dies_before.then(|| self.random.below(batch.len()));
        let mut again = Vec::new();
        for (at, &sent) in batch.iter().enumerate() {
            if Some(at) == dies_before {
                return batch;
            }
            if self.random.in_a_hundred(20) {
                let fates = [StartFate::Lost, StartFate::AnswerLost, StartFate::Throttled];
                let fate = fates[self.random.below(3)].clone();
                self.calls.script_starts(&name(sent), &[fate]);
            }
            self.start(sent).await.unwrap();
            if self.random.in_a_hundred(10) {
                again.push(sent);
            }
        }
        again
    }

    /// Looks at what has begun since: one of each key, and only if nothing else of it runs.
    fn look(&mut self) {
        let started = self.calls.started();
        for (key, begun) in &mut self.begun {
            let all = started.range(execution((*key, 0))..execution((*key, 999)));
            let new = all.map(|(arn, _)| place_of(arn));
            let new: Vec<_> = new.filter(|sent| !begun.contains(sent)).collect();
            for sent in new {
                let others = self.running.iter().filter(|other| other.0 == *key);
                assert_eq!(others.count(), 0, "{sent:?} begins while another one runs");
                begun.push(sent);
                self.running.insert(sent);
            }
        }
        if let Some(pool) = &self.pool {
            let running = self.running.len();
            assert!(
                running <= pool.permits.get().into(),
                "{running} run at once"
            );
        }
    }

    /// One execution ends, and reap hears of it, or not.
    async fn end_one(&mut self) {
        let at = self.random.below(self.running.len());
        let sent = *self.running.iter().nth(at).unwrap();
        self.running.remove(&sent);
        self.clock.advance(Duration::from_millis(1));
        let over = Execution::Ended {
            stopped_at: leasehold::Clock::now(&*self.clock),
            redrivable: false,
            all_answered: true,
        };
        self.calls.set_execution(&execution(sent), over);
        if self.random.in_a_hundred(85) {
            let ended = Holder::new(execution(sent)).unwrap();
            self.leases.reap(&ended).await.unwrap();
        }
        self.look();
    }

    async fn sweep(&mut self) {
        self.clock.advance(Duration::from_mins(1));
        self.leases.sweep(SweepBounds::Schedule).await.unwrap();
        self.look();
    }
}

fn execution(sent: Sent) -> String {
    format!(
        "{}:{}",
        MACHINE.replace(":stateMachine:", ":execution:"),
        name(sent)
    )
}

fn place_of(execution: &str) -> Sent {
    let mut parts = execution.rsplit('-');
    let place = parts.next().unwrap().parse().unwrap();
    (parts.next().unwrap().parse().unwrap(), place)
}

/// 1,000 starts for ten keys.
pub async fn of_a_thousand_starts(seed: u64) {
    const KEYS: usize = 10;
    const EACH: usize = 100;
    let mut world = World::new(seed, None);
    world.begun = (0..KEYS).map(|key| (key, Vec::new())).collect();
    let in_order = (0..EACH).flat_map(|place| (0..KEYS).map(move |key| (key, place)));
    let (mut ordered, mut loose): (Vec<Sent>, Vec<Sent>) = in_order.partition(|s| is_ordered(*s));
    let mut turns = 0;
    while world.known.len() < KEYS * EACH || !ordered.is_empty() || !loose.is_empty() {
        if !ordered.is_empty() && world.random.in_a_hundred(50) {
            // What failed comes again before what follows it.
            let batch: Vec<_> = ordered.drain(..BATCH.min(ordered.len())).collect();
            let again = world.deliver(batch).await;
            ordered.splice(0..0, again);
        } else if !loose.is_empty() {
            let batch: Vec<_> = (0..BATCH.min(loose.len()))
                .map(|_| loose.swap_remove(world.random.below(loose.len())))
                .collect();
            loose.extend(world.deliver(batch).await);
        }
        for _ in 0..world.random.below(20) {
            if !world.running.is_empty() {
                world.end_one().await;
            }
        }
        if world.random.in_a_hundred(20) {
            world.sweep().await;
        }
    }
    // From here on the keys empty by themselves.
    while !world.is_done(KEYS * EACH) {
        turns += 1;
        assert!(
            turns < 10 * KEYS * EACH,
            "{:?} never begin",
            world.waiting()
        );
        world.go_on().await;
    }
    for (key, begun) in &world.begun {
        assert_eq!(begun, &world.accepted[key], "the order of key {key}");
        if is_ordered((*key, 0)) {
            let sent: Vec<_> = (0..EACH).map(|place| (*key, place)).collect();
            assert_eq!(begun, &sent, "the order of the sender of key {key}");
        }
    }
}

/// 1,000 starts of forty tenants that share a pool of ten: never more than ten run, and tenants have their turns.
pub async fn of_forty_tenants(seed: u64) {
    const KEYS: usize = 40;
    const EACH: usize = 25;
    let pool = Pool::new(&Key::new("imports").unwrap(), Permits::new(10).unwrap());
    let mut world = World::new(seed, Some(pool));
    world.begun = (0..KEYS).map(|key| (key, Vec::new())).collect();
    let in_order = (0..EACH).flat_map(|place| (0..KEYS).map(move |key| (key, place)));
    let mut sent: Vec<Sent> = in_order.collect();
    while !sent.is_empty() {
        let batch: Vec<_> = sent.drain(..BATCH.min(sent.len())).collect();
        let again = world.deliver(batch).await;
        sent.splice(0..0, again);
    }
    let (mut turn, mut waits_since, mut begun_at) = (0, BTreeMap::new(), BTreeMap::new());
    while !world.is_done(KEYS * EACH) {
        turn += 1;
        assert!(turn < 10 * KEYS * EACH, "{:?} wait", world.waiting());
        let before: Vec<_> = world.begun.values().map(Vec::len).collect();
        world.go_on().await;
        let waits = world.tenants_in_pool().await;
        waits_since.retain(|tenant, _| waits.contains(tenant));
        for (tenant, begun) in &world.begun {
            if begun.len() == before[*tenant] {
                continue;
            }
            // Whoever waited in the pool before it began the last time came before it.
            if let Some(earlier) = begun_at.insert(*tenant, turn) {
                let passed = waits_since.iter().filter(|(_, since)| **since < earlier);
                let passed: Vec<_> = passed.collect();
                assert!(passed.is_empty(), "{tenant} begins before {passed:?}");
            }
        }
        for tenant in waits {
            waits_since.entry(tenant).or_insert(turn);
        }
    }
    for (key, begun) in &world.begun {
        assert_eq!(begun, &world.accepted[key], "the order of key {key}");
    }
}

impl World {
    fn is_done(&self, all: usize) -> bool {
        self.begun.values().map(Vec::len).sum::<usize>() == all && self.running.is_empty()
    }

    /// The tenants that have their key, and wait for a permit.
    async fn tenants_in_pool(&self) -> BTreeSet<usize> {
        let pool = &self.pool.as_ref().unwrap().key;
        let details = KeyDetails {
            waiters: 1000,
            ..KeyDetails::default()
        };
        let view = self.leases.key_view(pool, details).await.unwrap();
        let waiters = view.waiters.unwrap();
        let holders = waiters.iter().map(|waiter| &waiter.holder);
        holders.map(|holder| place_of(holder.as_str()).0).collect()
    }

    /// One execution ends, or sweep runs.
    async fn go_on(&mut self) {
        if self.running.is_empty() || self.random.in_a_hundred(10) {
            self.sweep().await;
        } else {
            self.end_one().await;
        }
    }

    fn waiting(&self) -> Vec<Sent> {
        let begun: BTreeSet<_> = self.begun.values().flatten().copied().collect();
        self.known.difference(&begun).copied().collect()
    }
}

/// A hundred starts for five keys, on the real functions and with executions that really run.
pub async fn on_the_engine(on: &'static Machines) {
    const KEYS: usize = 5;
    const EACH: usize = 20;
    let definition = r#"{"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}"#;
    let machine = on.create_started("order", definition).await;
    let executions = machine.replace(":stateMachine:", ":execution:");
    let message = |sent: Sent| {
        let (key, name) = (format!("order/{}", sent.0), name(sent));
        let body =
            json!({"key": key, "state_machine_arn": machine, "name": name, "input": {"key": key}});
        let mut message = json!({"messageId": name, "body": body.to_string()});
        if is_ordered(sent) {
            message["attributes"] = json!({"MessageGroupId": key});
        }
        message
    };
    let mut random = Random(7);
    for (at, first) in (0..EACH).step_by(2).enumerate() {
        let of_keys = |place| (0..KEYS).map(move |key| (key, place));
        let mut batch: Vec<_> = of_keys(first).chain(of_keys(first + 1)).collect();
        let key = format!("order/{}", random.below(KEYS));
        match at % 5 {
            0 => on
                .stack()
                .functions()
                .kill_before_answer("StartFunction", 1)
                .unwrap(),
            // More often than a request is tried again.
            1 => on
                .stack()
                .proxy()
                .inject_matching(Fault::LoseAnswer, "UpdateItem", &key, 3),
            2 => on
                .stack()
                .proxy()
                .inject_matching(Fault::ServerError, "UpdateItem", &key, 3),
            3 => {
                let fault = [Fault::LoseRequest, Fault::LoseAnswer, Fault::Throttle];
                let calls = on.stack().sfn_proxy().unwrap();
                calls.inject_matching(fault[random.below(3)], "StartExecution", &key, 2);
            }
            _ => batch.extend(batch.clone()),
        }
        // Until everything is accepted, before anything else is sent.
        while !batch.is_empty() {
            let records: Vec<_> = batch.iter().copied().map(message).collect();
            let answer = on.call("StartFunction", &json!({"Records": records})).await;
            let Some(failed) = answer["batchItemFailures"].as_array() else {
                // It was killed.
                continue;
            };
            let failed: Vec<_> = failed.iter().map(|one| &one["itemIdentifier"]).collect();
            batch.retain(|sent| failed.contains(&&Value::from(name(*sent))));
        }
    }
    let all = (0..KEYS).flat_map(|key| (0..EACH).map(move |place| (key, place)));
    let mut times: BTreeMap<usize, Vec<([Timestamp; 2], usize)>> = BTreeMap::new();
    for sent in all {
        let run = Run::of(&on.stack().sfn(), &format!("{executions}:{}", name(sent)));
        eventually(&format!("the begin of {sent:?}"), async || {
            run.is_known().await.then_some(())
        })
        .await;
        assert_eq!(run.ended().await.status, "SUCCEEDED");
        times
            .entry(sent.0)
            .or_default()
            .push((run.times().await, sent.1));
    }
    for (key, mut runs) in times {
        runs.sort_unstable();
        let one_by_one = runs.windows(2).all(|pair| pair[0].0[1] <= pair[1].0[0]);
        assert!(one_by_one, "two of key {key} ran at once: {runs:?}");
        if is_ordered((key, 0)) {
            let order: Vec<_> = runs.iter().map(|run| run.1).collect();
            assert_eq!(
                order,
                (0..EACH).collect::<Vec<_>>(),
                "the order of key {key}"
            );
        }
        let key = format!("order/{key}");
        eventually("a free key", async || {
            on.holder(&key).await.is_none().then_some(())
        })
        .await;
    }
}

/// 1,000 starts of forty tenants from SQS, ten executions in total, with deaths and lost answers, on the real functions. Prints what it
/// took.
pub async fn of_forty_tenants_on_the_engine(on: &'static Machines) {
    const KEYS: usize = 40;
    const EACH: usize = 25;
    let definition =
        r#"{"StartAt": "Work", "States": {"Work": {"Type": "Wait", "Seconds": 1, "End": true}}}"#;
    let machine = on.create_started("tenants", definition).await;
    let executions = machine.replace(":stateMachine:", ":execution:");
    let proxy = on.stack().proxy();
    proxy.count_units();
    let before = proxy.counts();
    let key_of = |tenant: usize| format!("tenants/{tenant}");
    let mut random = Random(7);
    let mut left: Vec<Sent> = (0..EACH)
        .flat_map(|place| (0..KEYS).map(move |key| (key, place)))
        .collect();
    let mut batches = 0;
    while !left.is_empty() {
        let batch: Vec<_> = left.drain(..BATCH.min(left.len())).collect();
        let key = key_of(batch[random.below(batch.len())].0);
        match batches % 10 {
            0 => {
                let host = on.stack().functions();
                host.kill_before_answer("StartFunction", 1).unwrap();
            }
            3 => proxy.inject_matching(Fault::LoseAnswer, "UpdateItem", &key, 3),
            6 => {
                let calls = on.stack().sfn_proxy().unwrap();
                calls.inject_matching(Fault::LoseAnswer, "StartExecution", &key, 2);
            }
            _ => {}
        }
        batches += 1;
        let records = batch.iter().map(|&sent| {
            let pool = json!({"name": "total", "permits": 10});
            let body = json!({"key": key_of(sent.0), "state_machine_arn": machine, "name": name(sent), "input": {"key": key_of(sent.0)}, "pool": pool});
            json!({"messageId": name(sent), "body": body.to_string()})
        });
        let records: Vec<_> = records.collect();
        let answer = on.call("StartFunction", &json!({"Records": records})).await;
        let failed = answer["batchItemFailures"].as_array();
        // It was killed, or some failed: SQS delivers them again.
        let again = batch.into_iter().filter(|sent| {
            let is_it = |one: &Value| one["itemIdentifier"] == name(*sent);
            failed.is_none_or(|failed| failed.iter().any(is_it))
        });
        let again: Vec<_> = again.collect();
        left.splice(0..0, again);
    }
    let (mut times, mut of_tenants) = (Vec::new(), BTreeMap::<usize, Vec<_>>::new());
    for sent in (0..KEYS).flat_map(|key| (0..EACH).map(move |place| (key, place))) {
        let run = Run::of(&on.stack().sfn(), &format!("{executions}:{}", name(sent)));
        eventually(&format!("the begin of {sent:?}"), async || {
            run.is_known().await.then_some(())
        })
        .await;
        assert_eq!(run.ended().await.status, "SUCCEEDED");
        let [begin, end] = run.times().await;
        times.extend([(begin, 1_i32), (end, -1)]);
        of_tenants.entry(sent.0).or_default().push([begin, end]);
    }
    for (tenant, runs) in &mut of_tenants {
        runs.sort_unstable();
        let one_by_one = runs.windows(2).all(|pair| pair[0][1] <= pair[1][0]);
        assert!(one_by_one, "two of tenant {tenant} ran at once");
    }
    times.sort_unstable();
    let at_once = times.iter().scan(0, |running, (_, change)| {
        *running += change;
        Some(*running)
    });
    let most = at_once.max().unwrap();
    assert_eq!(most, 10, "ran at once");
    let spent = proxy.counts().since(&before);
    let took = times.last().unwrap().0.since(times[0].0);
    println!(
        "{} starts: {} requests, {:.0} write units, at most {most} executions at once, {} s in all",
        KEYS * EACH,
        spent.total(),
        spent.units().writing(),
        took.as_secs(),
    );
    for (operation, tally) in spent.iter() {
        println!("  {operation}: {tally:?}");
    }
}
