//! Processes race for one key, and for the permits of a semaphore, and some are killed in the middle. What the racers were
//! answered and what the protected resource accepted is one history, which one judge looks at.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{Clock as _, Inspected, Key, SystemClock, Timestamp};
use leasehold_local::history::{Grant, History, What, judge};
use leasehold_proof::fixture::{TIMEOUT, Table, n, s};
use tempfile::TempDir;

use crate::programs::{Program, RESOURCE, accepted, create_resource, racer};

/// The permits of the semaphore, and what their number is lowered to in the middle of the race.
const PERMITS: u16 = 5;
const LOWERED: u16 = 2;
/// That of the racers' leases.
const TTL: Duration = Duration::from_secs(1);

struct Race {
    table: Table,
    directory: TempDir,
    racers: Vec<Program>,
    /// None if one key is raced for.
    permits: Option<u16>,
    kills: usize,
}

impl Race {
    async fn start(racers: usize, permits: Option<u16>) -> Self {
        let table = Table::start().await;
        create_resource(&table).await;
        if let Some(permits) = permits {
            open_room(&table, permits).await;
        }
        let mut race = Self {
            table,
            directory: tempfile::tempdir().unwrap(),
            racers: Vec::new(),
            permits,
            kills: 0,
        };
        race.racers = (0..racers).map(|n| race.racer(n)).collect();
        race
    }

    fn racer(&self, n: usize) -> Program {
        let mut arguments = vec![format!("racer {n}")];
        arguments.extend(self.permits.map(|permits| permits.to_string()));
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        racer(&self.table, &self.directory.path().join("log"), &arguments)
    }

    /// Lets them race for so long, on a slow machine until there were as many sections, and kills one after the other
    /// where it is; another takes its place. Every so many kills it is one that holds a lease, so that others may
    /// overstay; else anybody.
    async fn go_on(&mut self, length: Duration, sections: usize, holder_every: usize) {
        let (start, before) = (Instant::now(), self.count("done"));
        while start.elapsed() < length
            || (self.count("done") < before + sections && start.elapsed() < TIMEOUT)
        {
            tokio::time::sleep(Duration::from_millis(90)).await;
            // Where all take long to begin, killing goes slower, too.
            if start.elapsed() > length {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let holder = match self.kills % holder_every {
                0 => self.holder().await,
                _ => None,
            };
            self.replace(holder.unwrap_or(self.kills * 7 % self.racers.len()));
        }
    }

    fn replace(&mut self, victim: usize) {
        let ended = self.racers[victim].0.try_wait().unwrap();
        assert!(ended.is_none(), "it went on until killed");
        // The old one first, so that two never have one name.
        drop(self.racers.remove(victim));
        let racer = self.racer(victim);
        self.racers.insert(victim, racer);
        self.kills += 1;
    }

    async fn holder(&self) -> Option<usize> {
        let leases = self.table.leases();
        let inspected = leases.inspect(&Key::new("prize").unwrap()).await;
        let Inspected::Found { first, .. } = inspected.ok()? else {
            return None;
        };
        let holder = first.lease.held?.holder;
        holder.as_str().strip_prefix("racer ")?.parse().ok()
    }

    /// How often a round of a racer ended so.
    fn count(&self, outcome: &str) -> usize {
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap();
        log.lines().filter(|line| *line == outcome).count()
    }

    /// What the racers wrote down, and what the resource accepted, in its own order.
    async fn history(&self) -> History {
        let file = self.directory.path().join("log.history");
        let mut history = History::read(&file).unwrap();
        // Of each token the grant, and until when its holder was safe, as it learned it.
        let mut known = BTreeMap::<_, Vec<(u64, u64, Grant)>>::new();
        for event in &history.events {
            let (What::Granted {
                grant, safe_until, ..
            }
            | What::Extended { grant, safe_until }) = event.what
            else {
                continue;
            };
            let token = (grant.permit, grant.fencing_token);
            known
                .entry(token)
                .or_default()
                .push((event.at, safe_until, grant));
        }
        for entry in accepted(&self.table).await {
            let permit = entry.get("permit").map_or(0, number);
            let token = (u16::try_from(permit).unwrap(), number(&entry["token"]));
            let at = number(&entry["at"]);
            let known = known[&token]
                .iter()
                .filter(|(heard_at, ..)| *heard_at <= at);
            let &(_, until, grant) = known.max_by_key(|(_, until, _)| *until).unwrap();
            let what = match entry["op"].as_s().unwrap().as_str() {
                "enter" => What::Entered { grant, until },
                _ => What::Left { grant },
            };
            history.record(at, "prize", entry["holder"].as_s().unwrap(), what);
        }
        history
    }

    /// The row by which the resource itself counts who is inside.
    async fn resource(&self) -> HashMap<String, AttributeValue> {
        let get = self.table.client.get_item().table_name(RESOURCE);
        let sort_key = if self.permits.is_some() {
            "ROOM"
        } else {
            "RESOURCE"
        };
        let get = get
            .key("pk", s("prize"))
            .key("sk", s(sort_key))
            .consistent_read(true);
        get.send().await.unwrap().item.unwrap()
    }

    /// Ends the race: every promise held, and it was a race.
    async fn end(&mut self) -> History {
        self.racers.clear();
        let history = self.history().await;
        let verdict = judge(&history);
        let [done, held] = ["done", "held"].map(|outcome| self.count(outcome));
        println!(
            "race: {} killed, {done} sections, {held} refusals; {verdict}",
            self.kills
        );
        assert!(verdict.is_kept(), "{verdict}");
        let row = self.resource().await;
        assert!(
            !row.contains_key("overlaps"),
            "the resource saw too many inside: {row:?}"
        );
        assert_eq!((self.count("overlap"), self.count("overtaken")), (0, 0));
        // Far below what any machine manages: only to see that there was a race at all.
        assert!(
            done >= 20 && held >= 20 && verdict.abandoned >= 2,
            "the race was a race"
        );
        history
    }
}

fn number(value: &AttributeValue) -> u64 {
    value.as_n().unwrap().parse().unwrap()
}

async fn open_room(table: &Table, places: u16) {
    let nobody = || AttributeValue::M(HashMap::new());
    let put = table.client.put_item().table_name(RESOURCE);
    let put = put.item("pk", s("prize")).item("sk", s("ROOM"));
    let put = put.item("places", n(places)).item("entries", n(0));
    let put = put.item("inside", nobody()).item("fences", nobody());
    put.send().await.unwrap();
}

/// What was so from an instant on, or before it.
fn part(history: &History, from: Timestamp, later: bool) -> History {
    let events = history.events.iter();
    let events = events.filter(|event| (event.at >= from.as_millis()) == later);
    History {
        events: events.cloned().collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_race_of_processes_never_has_two_winners() {
    let mut race = Race::start(64, None).await;
    race.go_on(Duration::from_secs(8), 25, 30).await;
    race.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_race_for_five_permits_never_has_six_inside() {
    let mut race = Race::start(40, Some(PERMITS)).await;
    race.go_on(Duration::from_secs(5), 25, 6).await;
    // The number is lowered while all of it is in use, by one process after the other.
    race.permits = Some(LOWERED);
    for n in 0..race.racers.len() {
        race.replace(n);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // By now nobody asks for one of five, and what was granted of them runs out.
    let converged = SystemClock.now().plus(TTL);
    race.go_on(Duration::from_secs(4), 10, 6).await;
    let history = race.end().await;
    // All permits were in use, and no more of them.
    let [before, after] = [false, true].map(|later| judge(&part(&history, converged, later)));
    assert!(
        before.most_inside > usize::from(LOWERED),
        "{}",
        before.most_inside
    );
    assert_eq!(after.most_inside, usize::from(LOWERED));
    let later = part(&history, converged, true);
    let mut permits = later.events.iter().filter_map(|event| event.what.grant());
    assert!(permits.all(|grant| grant.permit < LOWERED), "{later:?}");
}
