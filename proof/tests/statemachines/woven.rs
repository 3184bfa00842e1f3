//! The machines of `asl/corpus/weave`, plain and woven: they end alike, alone and when somebody else has the key, and leave no lease behind.

use serde_json::{Value, json};

use crate::execution::{Ended, Execution};
use crate::world::{World, fresh_key, with_world};

/// A machine of the corpus.
struct Machine {
    file: &'static str,
    /// Something for each test of its own, as an input names it.
    keys: fn(&str) -> Vec<String>,
    /// The inputs to be run with, each for that name.
    inputs: fn(&str) -> Vec<Value>,
}

const MACHINES: [Machine; 12] = [
    Machine {
        file: "01-two-steps.asl.json",
        keys: |id| vec![format!("orders/{id}")],
        inputs: |id| {
            let order = |charge: Value, book: Value| json!({"order": id, "charge": charge, "book": book, "note": {"price": 12.5, "tags": []}});
            vec![
                order(json!({}), json!({"output_bytes": 3})),
                order(json!({"fail": "Card.Declined"}), json!({})),
                order(json!({}), json!({"panic": true})),
            ]
        },
    },
    Machine {
        file: "02-catches.asl.json",
        keys: |id| vec![format!("orders/{id}")],
        inputs: |id| {
            let order = |reserve: Value, charge: Value| json!({"order": id, "reserve": reserve, "charge": charge, "large": 12_345_678_901_234_567_890_u64});
            vec![
                order(json!({}), json!({})),
                order(json!({"fail": "Shelf.Empty"}), json!({})),
                order(json!({}), json!({"fail": "Card.Declined"})),
                order(json!({}), json!({"fail": "Card.Stolen"})),
            ]
        },
    },
    Machine {
        file: "03-in-yaml.asl.yaml",
        keys: |id| vec![id.to_owned()],
        inputs: |id| {
            let ledger = |close: Value| json!({"ledger": id, "close": close});
            vec![
                ledger(json!({})),
                ledger(json!({"fail": "Ledger.Closed"})),
                ledger(json!({"fail": "Ledger.Torn"})),
            ]
        },
    },
    Machine {
        file: "04-loop.asl.json",
        keys: |id| vec![format!("feeds/{id}")],
        inputs: |id| {
            let feed = |pages: u32, work: Value| json!({"feed": id, "page": 0, "pages": pages, "work": work});
            vec![feed(2, json!({})), feed(1, json!({"fail": "Page.Gone"}))]
        },
    },
    Machine {
        file: "05-parallel.asl.json",
        keys: |id| vec![format!("books/{id}")],
        inputs: |id| {
            let book =
                |sum: Value| json!({"book": id, "left": {}, "right": {"seconds": 0.2}, "sum": sum});
            vec![book(json!({})), book(json!({"fail": "Sum.Odd"}))]
        },
    },
    Machine {
        file: "06-in-a-branch.asl.json",
        keys: |id| vec![id.to_owned()],
        inputs: |id| {
            let page = |write: Value| json!({"page": id, "write": write});
            vec![
                page(json!({})),
                page(json!({"fail": "Page.Full"})),
                page(json!({"fail": "Pen.Dry"})),
            ]
        },
    },
    Machine {
        file: "07-queue.asl.json",
        keys: |id| vec![format!("environments/{id}")],
        inputs: |id| {
            let environment = |deploy: Value, verify: Value| json!({"environment": id, "deploy": deploy, "verify": verify});
            vec![
                environment(json!({}), json!({})),
                environment(json!({"fail": "Deploy.Broken"}), json!({})),
                environment(json!({}), json!({"fail": "Verify.Failed"})),
            ]
        },
    },
    Machine {
        file: "08-permits.asl.yaml",
        keys: |id| vec![id.to_owned(); 2],
        inputs: |id| {
            let call = |call: bool, work: Value| json!({"partner": id, "call": call, "work": work});
            vec![
                call(true, json!({})),
                call(true, json!({"fail": "Partner.Gone"})),
                call(false, json!({})),
            ]
        },
    },
    Machine {
        file: "09-two-sections.asl.yaml",
        keys: |id| vec![format!("accounts/{id}-from"), format!("accounts/{id}-to")],
        inputs: |id| {
            let transfer = |amount: u32, take: Value, give: Value| json!({"from": format!("{id}-from"), "to": format!("{id}-to"), "amount": amount, "take": take, "give": give});
            vec![
                transfer(10, json!({}), json!({})),
                transfer(1000, json!({}), json!({})),
                transfer(10, json!({"fail": "Account.Closed"}), json!({})),
                transfer(10, json!({}), json!({"fail": "Account.Closed"})),
            ]
        },
    },
    Machine {
        file: "10-bound-by-the-lease.asl.json",
        keys: |id| vec![format!("cloth/{id}")],
        inputs: |id| {
            let cloth =
                |measure: Value, cut: Value| json!({"bale": id, "measure": measure, "cut": cut});
            vec![
                cloth(json!({}), json!({})),
                cloth(json!({}), json!({"fail": "Cloth.Torn"})),
                cloth(json!({}), json!({"fail": "Scissors.Blunt"})),
                cloth(json!({"fail": "Rule.Short"}), json!({})),
            ]
        },
    },
    Machine {
        file: "11-items.asl.json",
        keys: |id| vec![format!("shelves/{id}")],
        inputs: |id| {
            let pick = |work: Value| json!({"shelf": id, "work": work});
            vec![
                json!({"items": [pick(json!({})), pick(json!({}))]}),
                json!({"items": [pick(json!({})), pick(json!({"fail": "Shelf.Empty"}))]}),
            ]
        },
    },
    Machine {
        file: "12-queue-in-jsonpath.asl.yaml",
        keys: |id| vec![id.to_owned()],
        inputs: |id| {
            let print = |work: Value| json!({"printer": id, "print": work});
            vec![print(json!({})), print(json!({"fail": "Paper.Out"}))]
        },
    },
];

/// A file of the corpus, as the service takes it.
pub fn definition(file: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../asl/corpus/weave/");
    let text = std::fs::read_to_string(format!("{root}{file}")).unwrap();
    // JSON is YAML.
    let definition: Value = yaml_serde::from_str(&text).unwrap();
    definition.to_string()
}

impl Machine {
    /// The definition, or what was woven of it.
    fn definition(&self, woven: bool) -> String {
        if woven {
            definition(&self.file.replacen(".asl.", ".woven.asl.", 1))
        } else {
            definition(self.file)
        }
    }

    async fn create(&self, world: &World, woven: bool, test: &str) -> String {
        let how = if woven { "woven" } else { "plain" };
        let name = format!("{test}-{how}-{}", &self.file[..2]);
        world.create(&name, &self.definition(woven)).await
    }
}

/// What a client sees of an end.
fn seen(ended: &Ended) -> (String, &str, &str, &Value) {
    let status = ended.status.as_str().to_owned();
    (status, &ended.error, &ended.cause, &ended.output)
}

async fn free(world: &World, keys: &[String]) {
    for key in keys {
        for permit in 0..2 {
            let row = world
                .item("LeaseTable", key, &format!("LEASE#{permit:04}"))
                .await;
            let holder = row.and_then(|row| row.get("holder").cloned());
            assert_eq!(holder, None, "{key} is held still");
        }
    }
}

#[test]
fn alone_a_woven_machine_ends_as_the_plain_one_and_leaves_no_lease() {
    with_world(async |world| {
        let mut runs = Vec::new();
        for machine in &MACHINES {
            let plain = machine.create(world, false, "alone").await;
            let woven = machine.create(world, true, "alone").await;
            for nth in 0..(machine.inputs)("").len() {
                let id = fresh_key();
                let input = (machine.inputs)(&id).swap_remove(nth);
                let without = world.start(&plain, input.clone()).await;
                let with = world.start(&woven, input.clone()).await;
                runs.push((machine, input, (machine.keys)(&id), without, with));
            }
        }
        let mut succeeded = 0;
        for (machine, input, keys, without, with) in runs {
            let (without, end) = (without.ended().await, with.ended().await);
            assert_eq!(seen(&without), seen(&end), "{}: {input}", machine.file);
            // By itself, and not by reap a little later.
            let acquired = calls(&with, "AcquireFunction").await;
            let released = calls(&with, "ReleaseFunction").await;
            assert_eq!(acquired, released, "{}: {input}", machine.file);
            // One of the inputs leads past the section.
            assert!(acquired > 0 || input["call"] == false, "{}", machine.file);
            succeeded += usize::from(without.status.as_str() == "SUCCEEDED");
            free(world, &keys).await;
        }
        // What is compared is something.
        assert!(succeeded >= MACHINES.len(), "{succeeded}");
    });
}

#[test]
fn a_woven_machine_waits_for_whoever_has_the_key_and_then_ends_as_the_plain_one() {
    with_world(async |world| {
        let mut runs: Vec<(&Machine, Value, Execution, Execution)> = Vec::new();
        for machine in &MACHINES {
            let plain = machine.create(world, false, "contended").await;
            let woven = machine.create(world, true, "contended").await;
            let id = fresh_key();
            let keys = (machine.keys)(&id);
            let mut others = Vec::new();
            for (nth, key) in keys.iter().enumerate() {
                // Of a semaphore all permits.
                let mut event =
                    json!({"key": key, "holder": format!("another {nth}"), "ttl_seconds": 3600});
                if machine.file.contains("permits") {
                    event["permits"] = 2.into();
                }
                let acquired = world.call("AcquireFunction", &event).await;
                assert_eq!(acquired["outcome"], "acquired", "{acquired}");
                others.push(acquired["lease"].clone());
            }
            let input = (machine.inputs)(&id).swap_remove(0);
            let without = world.start(&plain, input.clone()).await;
            let with = world.start(&woven, input.clone()).await;
            refused(machine, &with).await;
            // The branch beside the section looks on, and needs no lease for that.
            let beside = usize::from(machine.file.contains("branch"));
            let begun = calls(&with, "StepFunction").await;
            assert!(begun <= beside, "{}", machine.file);
            for other in &others {
                world.take_away(other, None).await;
            }
            runs.push((machine, input, without, with));
        }
        for (machine, input, without, with) in runs {
            let (without, with) = (without.ended().await, with.ended().await);
            assert_eq!(seen(&without), seen(&with), "{}: {input}", machine.file);
        }
    });
}

/// Waits until an acquire was told to wait.
async fn refused(machine: &Machine, run: &Execution) {
    match machine.file {
        "07-queue.asl.json" => run.waits_in("EnvironmentAcquire", 1).await,
        "12-queue-in-jsonpath.asl.yaml" => run.waits_in("PrinterAcquire", 1).await,
        _ => run.refused().await,
    }
}

/// How often a function was called.
async fn calls(run: &Execution, function: &str) -> usize {
    let events = run.history().await;
    let begun = events.iter().filter(|event| {
        let details = event.task_scheduled_event_details();
        details.is_some_and(|details| details.parameters().contains(function))
    });
    begun.count()
}
