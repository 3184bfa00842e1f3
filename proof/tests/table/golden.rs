//! Rows, waiters and handles as each version wrote them, in `proof/golden/VERSION/rows.json`: this version does with them
//! what that version did. `make -C proof golden` writes the file of this version.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_types::base64;
use leasehold::{
    Acquire, AcquireAll, AuditReason, Counter, DynamoDb, Error, Execution, ExtendOptions,
    ForceReleaseOptions, Holder, KeepTime, Key, Keys, Lease, Leases, Lifetime, ManualClock,
    Metadata, Operator, Permits, Queue, Reason, RequestId, Settings, SweepBounds, TaskToken,
    Timestamp, Ttl, Wait, WaitTime, row::Item, test_support::FakeStepFunctions,
};
use leasehold_proof::{
    fixture::{TABLE, Table, s},
    root,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::mutations::attributes;

const TTL: Duration = Duration::from_mins(5);

/// What the names of executions begin with.
const EXECUTION: &str = "arn:aws:states:eu-west-1:123456789012:execution:orders:";
/// Executions that run.
const RUNNING: [&str; 5] = ["b", "c", "told", "handed-over", "in-line"];

/// What a version wrote, and what it did next.
#[derive(Serialize, Deserialize)]
struct Golden {
    /// When it was recorded, in milliseconds since the epoch.
    at: u64,
    /// Every item, in DynamoDB's JSON.
    items: Vec<Value>,
    /// The leases that are held.
    handles: Vec<Lease>,
    /// What was asked last for each key.
    requests: Vec<Asked>,
    /// What comes of each of [`WHAT_NEXT`], by its name and the key or handle.
    outcomes: BTreeMap<String, String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Asked {
    keys: Vec<Key>,
    holder: Holder,
    request_id: RequestId,
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<u16>,
    /// Whether it waits in the queue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    waits: bool,
}

impl Asked {
    fn new<const N: usize>(keys: [&str; N], holder: &str) -> Self {
        Self {
            keys: keys.map(|key| Key::new(key).unwrap()).into(),
            holder: Holder::new(holder).unwrap(),
            request_id: RequestId::new("the first").unwrap(),
            permits: None,
            waits: false,
        }
    }

    fn name(&self) -> String {
        let keys: Vec<_> = self.keys.iter().map(Key::as_str).collect();
        format!("{} by {}", keys.join(" and "), self.holder.as_str())
    }

    /// One that waits in the queue, for as long as an execution of this name runs.
    fn waiting(key: &str, name: &str) -> Self {
        Self {
            waits: true,
            ..Self::new([key], &format!("{EXECUTION}{name}"))
        }
    }

    /// The same of somebody else.
    fn of_another(&self) -> Self {
        Self {
            holder: Holder::new(format!("{}-another", self.holder.as_str())).unwrap(),
            ..self.clone()
        }
    }

    /// The leases that are granted, and the outcome in a word.
    async fn ask(&self, leases: &Queue<DynamoDb>) -> (Vec<Lease>, String) {
        let holder = self.holder.clone();
        let ttl = Ttl::new(TTL).unwrap();
        let lifetime = if self.waits {
            let keep = KeepTime::new(TTL).unwrap();
            Lifetime::Execution { keep }
        } else {
            ttl.into()
        };
        let metadata = Metadata::new([("order".to_owned(), "42".to_owned())].into()).unwrap();
        let (key, id) = (self.keys[0].clone(), self.request_id.clone());
        let mut one = Acquire::new(key, holder.clone(), lifetime)
            .request_id(id.clone())
            .metadata(metadata.clone());
        one.permits = self.permits.map(|n| Permits::new(n).unwrap());
        let answer = if self.waits {
            let queue = Wait {
                task_token: TaskToken::new(format!("the token of {}", holder.as_str())).unwrap(),
                wait: WaitTime::new(Duration::from_hours(1)).unwrap(),
                latest: false,
            };
            as_json(leases.acquire_queued(one, queue).await)
        } else if self.keys.len() > 1 {
            let all = AcquireAll::new(Keys::new(self.keys.clone()).unwrap(), holder, ttl);
            let all = all.request_id(id).metadata(metadata);
            as_json(leases.acquire_all(all).await)
        } else {
            as_json(leases.acquire(one).await)
        };
        let one = answer.get("lease").into_iter();
        let several = answer["leases"].as_array().into_iter().flatten();
        let granted = one.chain(several).cloned().map(serde_json::from_value);
        (granted.map(Result::unwrap).collect(), word(&answer))
    }
}

fn as_json<T: Serialize>(answer: Result<T, Error>) -> Value {
    match answer {
        Ok(answer) => json!(answer),
        Err(error) => json!({"outcome": error.name()}),
    }
}

fn word(answer: &Value) -> String {
    let words = ["outcome", "grant", "state"].map(|name| answer[name].as_str());
    let words: Vec<_> = words.into_iter().flatten().collect();
    let previous = answer["previous"]["holder"].as_str();
    let after = previous.map_or(String::new(), |holder| format!(" after {holder}"));
    words.join(", ") + &after
}

/// What can be done to what was recorded, and how long after its deadlines, or at once.
const WHAT_NEXT: [(&str, bool); 8] = [
    ("inspect", false),
    ("ask again", false),
    ("another asks", false),
    ("extend", false),
    ("release", false),
    ("another asks later", true),
    ("extend later", true),
    ("sweep", true),
];

impl Golden {
    /// Does everything that can be done next, each on a table with the items and the clock of the recording. Each item
    /// may have one attribute more.
    async fn outcomes(&self, more: Option<&str>) -> BTreeMap<String, String> {
        let mut outcomes = BTreeMap::new();
        for (what, later) in WHAT_NEXT {
            let table = Table::patient().await;
            for item in &self.items {
                let mut item = attributes(item);
                if let Some(more) = more {
                    item.insert(more.to_owned(), s("x"));
                }
                let put = table.client.put_item().table_name(TABLE);
                put.set_item(Some(item)).send().await.unwrap();
            }
            let wait = if later { TTL * 2 } else { Duration::ZERO };
            let (leases, ..) = leases(&table, Timestamp::from_millis(self.at).plus(wait));
            match what {
                "ask again" => {
                    for request in &self.requests {
                        let (again, outcome) = request.ask(&leases).await;
                        for lease in again {
                            let same = |known: &Lease| {
                                known.key == lease.key && known.lease_id == lease.lease_id
                            };
                            assert!(self.handles.iter().any(same), "{lease:?} is another lease");
                        }
                        outcomes.insert(format!("{what}: {}", request.name()), outcome);
                    }
                }
                "another asks" | "another asks later" => {
                    for request in &self.requests {
                        let (granted, outcome) = request.of_another().ask(&leases).await;
                        for lease in granted {
                            assert!(lease.fencing_token.get() > self.largest_token(&lease));
                        }
                        outcomes.insert(format!("{what}: {}", request.name()), outcome);
                    }
                }
                "inspect" | "sweep" => {
                    if later {
                        let (limit, cursor) = (1000, None);
                        let bounds = SweepBounds::Call { limit, cursor };
                        let _ = leases.sweep(bounds).await.unwrap();
                    }
                    for key in self.requests.iter().flat_map(|request| &request.keys) {
                        let seen = as_json(leases.inspect(key).await);
                        let first = word(&seen);
                        let permits = seen["permits"].as_array().into_iter().flatten().map(word);
                        let all: Vec<_> = [first].into_iter().chain(permits).collect();
                        let waiting = &seen["waiting"];
                        let outcome = format!("{}; {waiting} waiting", all.join("; "));
                        outcomes.insert(format!("{what}: {}", key.as_str()), outcome);
                    }
                }
                _ => {
                    for lease in &self.handles {
                        let outcome = word(&if what == "release" {
                            as_json(leases.release(lease).await)
                        } else {
                            as_json(leases.extend(lease, ExtendOptions::default()).await)
                        });
                        let name = format!("{what}: {} {}", lease.key.as_str(), lease.permit);
                        outcomes.insert(name, outcome);
                    }
                }
            }
        }
        outcomes
    }

    /// The token in the row of a lease.
    fn largest_token(&self, lease: &Lease) -> u64 {
        let sk = format!("LEASE#{:04}", lease.permit);
        let mut rows = self.items.iter();
        let row = rows.find(|item| item["pk"]["S"] == lease.key.as_str() && item["sk"]["S"] == sk);
        let token = row.map(|row| row["fencing_token"]["N"].as_str().unwrap());
        token.map_or(0, |token| token.parse().unwrap())
    }
}

fn leases(
    table: &Table,
    at: Timestamp,
) -> (Queue<DynamoDb>, Arc<ManualClock>, Arc<FakeStepFunctions>) {
    let clock = Arc::new(ManualClock::at(at));
    let leases = table.leases().with_clock(clock.clone());
    let calls = FakeStepFunctions::default();
    for name in RUNNING {
        calls.set_execution(&format!("{EXECUTION}{name}"), Execution::Running);
    }
    let calls = Arc::new(calls);
    (leases.with_engine(calls.clone()), clock, calls)
}

/// Executions that have not shown that they know of their grant: it was granted the key at once, or when it was first in
/// the queue. The last is not granted the key yet.
async fn untold(queue: &Queue<DynamoDb>) -> Vec<Asked> {
    let at_once = Asked::waiting("told", "told");
    at_once.ask(queue).await;
    let mut requests = vec![at_once];
    for (key, name) in [("handed over", "handed-over"), ("in line", "in-line")] {
        let before = Asked::new([key], "a").ask(queue).await.0.remove(0);
        let waiter = Asked::waiting(key, name);
        waiter.ask(queue).await;
        let released = if name == "in-line" {
            Leases::release(queue, &before).await
        } else {
            queue.release(&before).await
        };
        let _ = released.unwrap();
        requests.push(waiter);
    }
    requests
}

/// Rows of every kind, of which this version's library writes each.
async fn record() -> Golden {
    let table = Table::patient().await;
    let (leases, clock, calls) = leases(&table, Timestamp::from_millis(1_800_000_000_000));
    let why = AuditReason {
        who: Operator::new("night shift").unwrap(),
        why: Reason::new("the partner is down").unwrap(),
    };
    let mut requests = Vec::new();
    let mut handles = Vec::new();
    let ask = async |request: &Asked| request.ask(&leases).await.0;
    let free = async |request: &Asked| {
        for lease in ask(request).await {
            let _ = leases.release(&lease).await.unwrap();
        }
    };

    // Of these two the first expires, and is then swept or taken over.
    let expired = Asked::new(["expired"], "a");
    let taken_over = Asked::new(["taken over"], "b");
    ask(&expired).await;
    ask(&Asked::new(["taken over"], "a")).await;
    clock.advance(TTL + Settings::default().clock_margin);
    handles.extend(ask(&taken_over).await);
    let _ = leases.sweep(SweepBounds::Schedule).await.unwrap();
    requests.extend([expired, taken_over]);

    let held = Asked::new(["held"], "a");
    handles.extend(ask(&held).await);
    let several = Asked::new(["one of two", "two of two"], "a");
    handles.extend(ask(&several).await);
    let used_often = Asked::new(["used often"], "f");
    for holder in ["a", "b", "c", "d", "e"] {
        free(&Asked::new(["used often"], holder)).await;
    }
    handles.extend(ask(&used_often).await);
    for holder in ["a", "b"] {
        let mut permit = Asked::new(["permits"], holder);
        permit.permits = Some(3);
        handles.extend(ask(&permit).await);
        requests.push(permit);
    }
    let queue = Asked::new(["queue"], "a");
    handles.extend(ask(&queue).await);
    for holder in ["b", "c"] {
        let waiter = Asked::waiting("queue", holder);
        clock.advance(Duration::from_millis(1));
        ask(&waiter).await;
        requests.push(waiter);
    }
    requests.extend([held, several, used_often, queue]);

    requests.extend(untold(&leases).await);
    let told = calls.take_answers();
    let told = told.iter().map(|answer| answer.output()["lease"].take());
    handles.extend(told.map(|lease| serde_json::from_value::<Lease>(lease).unwrap()));

    let released = Asked::new(["released"], "a");
    free(&released).await;
    let forced = Asked::new(["forced"], "a");
    ask(&forced).await;
    let options = ForceReleaseOptions::default();
    let _ = leases
        .force_release(&forced.keys[0], options, &why)
        .await
        .unwrap();
    let raised = Asked::new(["raised"], "a");
    free(&raised).await;
    let _ = leases
        .raise_floor(&raised.keys[0], Counter::new(4_000_000_000_000), &why)
        .await
        .unwrap();
    let frozen_free = Asked::new(["frozen and free"], "a");
    free(&frozen_free).await;
    let _ = leases.freeze(&frozen_free.keys[0], &why).await.unwrap();
    let frozen = Asked::new(["frozen and held"], "a");
    handles.extend(ask(&frozen).await);
    let _ = leases.freeze(&frozen.keys[0], &why).await.unwrap();
    requests.extend([released, forced, raised, frozen_free, frozen]);

    clock.advance(Duration::from_secs(5));
    let extended = Asked::new(["extended"], "a");
    let lease = ask(&extended).await.remove(0);
    clock.advance(Duration::from_secs(5));
    let extended_lease = leases
        .extend(&lease, ExtendOptions::default())
        .await
        .unwrap();
    handles.push(extended_lease.into_lease());
    requests.push(extended);

    let scan = table.client.scan().table_name(TABLE).send().await.unwrap();
    let mut items: Vec<Value> = scan.items().iter().map(item_to_json).collect();
    items.sort_by_key(|item| (item["pk"].to_string(), item["sk"].to_string()));
    let mut golden = Golden {
        at: leases.now().as_millis(),
        items,
        handles,
        requests,
        outcomes: BTreeMap::new(),
    };
    golden.outcomes = golden.outcomes(None).await;
    golden
}

fn item_to_json(item: &Item) -> Value {
    let fields = item.iter();
    // In order, whatever the map's.
    let fields: BTreeMap<_, _> = fields
        .map(|(name, value)| (name, value_to_json(value)))
        .collect();
    json!(fields)
}

fn value_to_json(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!({"S": text}),
        AttributeValue::N(number) => json!({"N": number}),
        AttributeValue::B(bytes) => json!({"B": base64::encode(bytes)}),
        AttributeValue::Bool(is) => json!({"BOOL": is}),
        AttributeValue::Null(_) => json!({"NULL": true}),
        AttributeValue::L(all) => json!({"L": all.iter().map(value_to_json).collect::<Vec<_>>()}),
        AttributeValue::M(fields) => json!({"M": item_to_json(fields)}),
        other => panic!("{other:?} is not known here"),
    }
}

/// What each version recorded.
fn recorded() -> Vec<(PathBuf, Golden)> {
    let versions = fs::read_dir(root().join("proof/golden")).unwrap();
    let files = versions.map(|version| version.unwrap().path().join("rows.json"));
    let read = |file: PathBuf| {
        let golden = serde_json::from_str(&fs::read_to_string(&file).unwrap());
        (file, golden.unwrap())
    };
    files.map(read).collect()
}

#[tokio::test]
async fn old_rows_and_handles_still_work() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let directory = root().join("proof/golden").join(env!("CARGO_PKG_VERSION"));
        fs::create_dir_all(&directory).unwrap();
        let text = format!("{:#}\n", json!(Box::pin(record()).await));
        fs::write(directory.join("rows.json"), text).unwrap();
    }
    let recorded = recorded();
    assert!(!recorded.is_empty());
    for (file, golden) in recorded {
        // As it is, and as after a roll-back from a later version.
        for more in [None, Some("of_a_later_version")] {
            let today = golden.outcomes(more).await;
            for (what, outcome) in &golden.outcomes {
                assert_eq!(today.get(what), Some(outcome), "{}: {what}", file.display());
            }
        }
    }
}
