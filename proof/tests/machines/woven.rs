//! The machines of `asl/corpus/weave`, plain and woven: they end alike, alone and when somebody else has the key, and
//! leave no lease behind, unless it lasts until the execution has ended.

use leasehold_proof::cases::{corpus, with};
use leasehold_proof::execution::{Execution, History};
use leasehold_proof::fixture::{eventually, unique};
use leasehold_proof::machines::{Machines, definition};
use serde_json::{Value, json};

use crate::no_own;

/// A machine of the corpus, without and with its leases.
struct Pair {
    about: Value,
    plain: String,
    woven: String,
}

async fn pairs(on: &Machines) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for about in corpus() {
        let file = about["file"].as_str().unwrap();
        let create = async |file: &str| {
            let definition = definition(&format!("asl/corpus/weave/{file}")).to_string();
            on.create("corpus", &definition, no_own()).await
        };
        let plain = create(file).await;
        let woven = create(&file.replacen(".asl.", ".woven.asl.", 1)).await;
        pairs.push(Pair {
            about,
            plain,
            woven,
        });
    }
    pairs
}

/// The two executions, with one input.
struct Runs {
    file: String,
    input: Value,
    keys: Vec<String>,
    /// The lease may last until the execution has ended.
    lasts: bool,
    plain: Execution,
    woven: Execution,
}

impl Pair {
    /// The inputs and the keys, each input with keys of its own.
    fn inputs(&self) -> Vec<(Value, Vec<String>)> {
        let all = self.about["inputs"].as_array().unwrap().iter();
        let own = all.map(|input| {
            let id = unique("id");
            let keys = with("id", &id, &self.about["keys"]);
            (
                with("id", &id, input),
                serde_json::from_value(keys).unwrap(),
            )
        });
        own.collect()
    }

    async fn start(&self, on: &Machines, input: Value, keys: Vec<String>) -> Runs {
        Runs {
            plain: on.start(&self.plain, &input).await,
            woven: on.start(&self.woven, &input).await,
            file: self.about["file"].to_string(),
            lasts: self.about["lasts"] == true,
            input,
            keys,
        }
    }
}

impl Runs {
    /// Checks that both ended alike; whether they succeeded.
    async fn end_alike(&self) -> bool {
        let (plain, woven) = (self.plain.ended().await, self.woven.ended().await);
        assert_eq!(plain, woven, "{}: {}", self.file, self.input);
        plain.status == "SUCCEEDED"
    }
}

pub async fn alone(on: &'static Machines) {
    let mut all = Vec::new();
    for pair in pairs(on).await {
        for (input, keys) in pair.inputs() {
            all.push(pair.start(on, input, keys).await);
        }
    }
    let mut succeeded = 0;
    for runs in all {
        succeeded += usize::from(runs.end_alike().await);
        let about = format!("{}: {}", runs.file, runs.input);
        // By itself, and not by reap a little later.
        let history = runs.woven.history().await;
        let acquired = history.calls("AcquireFunction");
        if !runs.lasts {
            assert_eq!(acquired, history.calls("ReleaseFunction"), "{about}");
        }
        // One of the inputs leads past the section.
        assert!(acquired > 0 || runs.input["call"] == false, "{about}");
        for key in runs.keys.iter().filter(|_| !runs.lasts) {
            assert_eq!(on.held(key).await, 0, "{key} is held still: {about}");
        }
    }
    // What is compared is something.
    assert!(succeeded >= corpus().len(), "{succeeded}");
}

pub async fn contended(on: &'static Machines) {
    let mut all = Vec::new();
    let waits = |pair: &Pair| pair.about["is_not_waited_for"] != true;
    for pair in pairs(on).await.into_iter().filter(waits) {
        let (input, keys) = pair.inputs().swap_remove(0);
        let mut others = Vec::new();
        for (nth, key) in keys.iter().enumerate() {
            let mut event = json!({"key": key, "holder": format!("another {nth}")});
            // Of a semaphore all permits.
            if pair.about["permits"].is_number() {
                event["permits"] = pair.about["permits"].clone();
            }
            others.push(on.occupy(event).await);
        }
        let runs = pair.start(on, input, keys).await;
        if pair.about["waits_in"].is_string() {
            // Its history may show what a branch beside it does.
            eventually("it waits in the queue", async || {
                let mut waiting = 0;
                for key in &runs.keys {
                    waiting += on.waiting(key).await;
                }
                (waiting > 0).then_some(())
            })
            .await;
        } else {
            let held = |history: &History| history.failures().contains(&"Lease.Held".to_owned());
            runs.woven.shows("a refusal", held).await;
        }
        let begun = runs.woven.history().await.calls("StepFunction");
        let free = pair.about["steps_without_a_lease"].as_u64().unwrap_or(0);
        assert!(
            begun as u64 <= free,
            "{}: {begun} steps without a lease",
            runs.file
        );
        for other in &others {
            on.release(other).await;
        }
        all.push(runs);
    }
    for runs in all {
        runs.end_alike().await;
    }
}
