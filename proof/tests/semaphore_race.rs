//! Forty processes contend for five permits, later for two, and some are killed in the middle.
//! What happened is told by a room with five places, which counts who is inside.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{
    Clock as _, GrantKind, Key, Lease, Permits, SystemClock, Timestamp, row::Stored,
    store::Store as _,
};

mod programs;

use leasehold_proof::fixture::{Table, request};
use programs::{Program, RESOURCE, accepted, create_resource, racer, s};

const RACERS: usize = 40;
const PLACES: u16 = 5;
const LOWERED: u16 = 2;
const RACE: Duration = Duration::from_secs(6);
const LOWERED_RACE: Duration = Duration::from_secs(4);
/// The racers'.
const TTL: Duration = Duration::from_secs(1);

type Item = HashMap<String, AttributeValue>;

struct Race {
    table: Table,
    racers: Vec<Program>,
    log: PathBuf,
    kills: usize,
}

impl Race {
    fn racer(&self, n: usize, permits: u16) -> Program {
        let arguments = [format!("racer {n}"), permits.to_string()];
        racer(&self.table, &self.log, &arguments.each_ref().map(|a| &**a))
    }

    /// Lets them race for so long, and kills one after the other where it stands; another takes
    /// its place. The most that were seen inside at a time, from `since` on.
    async fn go_on(&mut self, length: Duration, permits: u16, since: Timestamp) -> usize {
        let start = Instant::now();
        let mut most = 0;
        while start.elapsed() < length {
            tokio::time::sleep(Duration::from_millis(80)).await;
            let asked = SystemClock.now();
            let inside = self.inside().await;
            if asked >= since {
                most = most.max(inside.len());
            }
            // Every sixth time somebody who is inside, so that others may overstay; else anybody.
            let occupant = inside.first().filter(|_| self.kills.is_multiple_of(6));
            let victim = occupant.map_or(self.kills * 7 % RACERS, |holder| {
                holder.strip_prefix("racer ").unwrap().parse().unwrap()
            });
            self.replace(victim, permits);
        }
        most
    }

    fn replace(&mut self, victim: usize, permits: u16) {
        let ended = self.racers[victim].0.try_wait().unwrap();
        assert!(ended.is_none(), "it went on until killed");
        // The old one first, so that two never have one name.
        drop(self.racers.remove(victim));
        let racer = self.racer(victim, permits);
        self.racers.insert(victim, racer);
        self.kills += 1;
    }

    /// Who is inside and whose time is not over.
    async fn inside(&self) -> Vec<String> {
        let room = self.room().await;
        // Later than the reading: whose time is not over by now was inside then.
        let now = SystemClock.now().as_millis();
        let stays = room["inside"].as_m().unwrap().values();
        let stays = stays.map(|stay| stay.as_m().unwrap());
        stays
            .filter(|stay| number(stay, "until") > now)
            .map(|stay| stay["holder"].as_s().unwrap().clone())
            .collect()
    }

    async fn room(&self) -> Item {
        let get = self.table.client.get_item().table_name(RESOURCE);
        let get = get.key("pk", s("prize")).key("sk", s("ROOM"));
        let output = get.consistent_read(true).send().await.unwrap();
        output.item.unwrap()
    }
}

async fn open_room(table: &Table) {
    let nobody = || AttributeValue::M(HashMap::new());
    let n = |n: u16| AttributeValue::N(n.to_string());
    let put = table.client.put_item().table_name(RESOURCE);
    let put = put.item("pk", s("prize")).item("sk", s("ROOM"));
    let put = put.item("places", n(PLACES)).item("entries", n(0));
    let put = put.item("inside", nobody()).item("fences", nobody());
    put.send().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_race_for_five_permits_never_has_six_inside() {
    let table = Table::start().await;
    create_resource(&table).await;
    open_room(&table).await;
    let directory = tempfile::tempdir().unwrap();
    let mut race = Race {
        table,
        racers: Vec::new(),
        log: directory.path().join("racers.log"),
        kills: 0,
    };
    race.racers = (0..RACERS).map(|n| race.racer(n, PLACES)).collect();
    let seen = race.go_on(RACE, PLACES, SystemClock.now()).await;

    // The number is lowered while all of it is in use, by one process after the other.
    for n in 0..RACERS {
        race.replace(n, LOWERED);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // By now nobody asks for one of five, and what was granted of them runs out.
    let converged = SystemClock.now().plus(TTL);
    let seen_lowered = race.go_on(LOWERED_RACE, LOWERED, converged).await;
    race.racers.clear();

    let room = race.room().await;
    assert!(
        !room.contains_key("overlaps"),
        "more inside than there are places: {room:?}"
    );
    let entries: Vec<_> = accepted(&race.table).await.iter().map(Entry::of).collect();
    let tokens = check(&entries);
    let most = |entries: &mut dyn Iterator<Item = &Entry>| entries.map(|e| e.inside).max();
    let (before, after): (Vec<_>, Vec<_>) = entries.iter().partition(|e| e.at < converged);
    assert!(after.iter().all(|e| e.permit < LOWERED), "{after:?}");
    let told = std::fs::read_to_string(&race.log).unwrap();
    let count = |what: &str| told.lines().filter(|line| *line == what).count();
    let (done, held) = (count("done"), count("held"));
    let left = entries.iter().filter(|e| e.op == "leave");
    let left: BTreeSet<_> = left.map(|e| (e.permit, e.token)).collect();
    let abandoned = tokens - left.len();
    println!(
        "semaphore race: {RACERS} processes, {} killed, {tokens} grants, {} accepted writes, {done} sections, \
         {abandoned} abandoned, {held} refusals, at most {:?} inside of {PLACES} and {:?} of {LOWERED}, {} stale writes \
         refused, {} lost, {} unavailable",
        race.kills,
        entries.len(),
        most(&mut before.iter().copied()).unwrap_or(0),
        most(&mut after.iter().copied()).unwrap_or(0),
        count("stale"),
        count("lost"),
        count("unavailable"),
    );
    assert_eq!((count("overlap"), count("overtaken")), (0, 0));
    assert!(seen <= usize::from(PLACES) && seen_lowered <= usize::from(LOWERED));
    // All permits were in use, and no more of them.
    assert_eq!(most(&mut before.into_iter()), Some(u64::from(PLACES)));
    assert_eq!(most(&mut after.into_iter()), Some(u64::from(LOWERED)));
    // Far below what any machine manages: only to see that there was a race at all.
    let raced = done >= 20 && held >= 20 && abandoned >= 2;
    assert!(raced, "the race was a race");
}

#[derive(Debug)]
struct Entry {
    permit: u16,
    token: u64,
    holder: String,
    op: String,
    at: Timestamp,
    inside: u64,
}

impl Entry {
    fn of(item: &Item) -> Self {
        Self {
            permit: u16::try_from(number(item, "permit")).unwrap(),
            token: number(item, "token"),
            holder: item["holder"].as_s().unwrap().clone(),
            op: item["op"].as_s().unwrap().clone(),
            at: Timestamp::from_millis(number(item, "at")),
            inside: number(item, "inside"),
        }
    }
}

/// On each permit tokens only grew, and each was one holder's. How many there were.
fn check(entries: &[Entry]) -> usize {
    let (mut highest, mut holders) = (HashMap::new(), HashMap::new());
    for entry in entries {
        assert!(entry.permit < PLACES, "{entry:?}");
        let before = highest.insert(entry.permit, entry.token);
        assert!(
            before.is_none_or(|before| before <= entry.token),
            "{entry:?} after {before:?}"
        );
        let grant = (entry.permit, entry.token);
        let holder = holders.entry(grant).or_insert(&entry.holder);
        assert_eq!(*holder, &entry.holder, "one token, one holder");
    }
    holders.len()
}

fn number(item: &Item, name: &str) -> u64 {
    item[name].as_n().unwrap().parse().unwrap()
}

impl Table {
    async fn permit(&self, key: &str, holder: &str, id: &str) -> Option<(Lease, GrantKind)> {
        self.permit_of(PLACES, key, holder, id).await
    }

    async fn permit_of(
        &self,
        number: u16,
        key: &str,
        holder: &str,
        id: &str,
    ) -> Option<(Lease, GrantKind)> {
        let request = request(key, holder, id).permits(Permits::new(number).unwrap());
        let granted = self.leases().acquire(request).await.unwrap().granted();
        let granted = granted.ok()?;
        Some((granted.lease, granted.grant))
    }

    /// How many permits of the key are held.
    async fn permits_held(&self, key: &str) -> usize {
        let rows = self.store().read_key(&Key::new(key).unwrap(), TTL).await;
        let held = |stored: &Stored| matches!(stored, Stored::Row(row) if row.holding().is_some());
        rows.unwrap().iter().filter(|(_, row)| held(row)).count()
    }

    /// What so many copies of one request got, all sent at once.
    async fn copies(self: &Arc<Self>, key: &str, copies: usize) -> Vec<Lease> {
        let copies: Vec<_> = (0..copies)
            .map(|_| {
                let (table, key) = (self.clone(), key.to_owned());
                tokio::spawn(async move { table.permit(&key, "a", "copied").await })
            })
            .collect();
        let mut leases = Vec::new();
        for copy in copies {
            leases.push(copy.await.unwrap().unwrap().0);
        }
        leases
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_of_one_request_hold_one_permit() {
    let table = Arc::new(Table::start().await);
    for others in 0..usize::from(PLACES) {
        for round in 0..5 {
            let key = format!("{others} others {round}");
            for n in 0..others {
                table.permit(&key, "other", &n.to_string()).await.unwrap();
            }
            let leases = table.copies(&key, 16).await;
            assert!(leases.iter().all(|lease| *lease == leases[0]), "{leases:?}");
            assert_eq!(table.permits_held(&key).await, others + 1);
        }
    }
}

/// Copies that come one after the other find the same permit, whatever others do in between.
#[tokio::test]
async fn late_copies_find_their_permit_among_those_that_come_and_go() {
    let table = Table::start().await;
    let mut others = Vec::new();
    for n in 0..PLACES - 1 {
        let other = table.permit("k", "other", &n.to_string()).await;
        others.push(other.unwrap().0);
    }
    let (first, kind) = table.permit("k", "a", "copied").await.unwrap();
    assert_eq!(kind, GrantKind::New);
    for n in 0..16_usize {
        let (lease, kind) = table.permit("k", "a", "copied").await.unwrap();
        assert_eq!((&lease, kind), (&first, GrantKind::Replayed));
        assert_eq!(table.permits_held("k").await, usize::from(PLACES));
        assert_eq!(table.permit("k", "late", &n.to_string()).await, None);
        // Another permit goes from hand to hand, and is free while a copy asks.
        let released = others.remove(n % others.len());
        let _ = table.leases().release(&released).await.unwrap();
        let (lease, _) = table.permit("k", "a", "copied").await.unwrap();
        assert_eq!(lease, first);
        let next = table.permit("k", "next", &n.to_string()).await;
        others.push(next.unwrap().0);
    }
}

/// A lowered number counts every permit that is out, whichever it is.
#[tokio::test]
async fn a_lowered_number_takes_effect_as_permits_come_back() {
    let table = Table::start().await;
    let mut out = Vec::new();
    for n in 0..PLACES {
        let (lease, _) = table.permit("k", "a", &n.to_string()).await.unwrap();
        out.push(lease);
    }
    out.sort_by_key(|lease| lease.permit);
    // The lowest come back first, and are free for nobody as long as two others are out.
    for (n, lease) in out.iter().enumerate() {
        let id = format!("lowered {n}");
        let granted = table.permit_of(LOWERED, "k", "b", &id).await;
        assert_eq!(granted.is_some(), out.len() - n < usize::from(LOWERED));
        let _ = table.leases().release(lease).await.unwrap();
    }
    assert_eq!(table.permits_held("k").await, 1);
}
