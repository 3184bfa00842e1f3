//! What happens in the demo, in the order in which it happens.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use leasehold_local::{Error, Options, Schedules, Stack};
use serde_json::json;

use super::record::{Record, Seen, now};
use super::setting::{GRACE_SECONDS, KEY, MARGIN_MS, PROCESS, STOPPED_WAITING, STOPPED_WORKING};

pub(super) const INTRODUCTION: &str = "
One key, orders/42, and nine who want it. A process holds it by a ttl, and hangs. Eight executions of a workflow with one
state more than before (examples/one-state/order.asl.json) wait for it in a queue. Of the second, the function process that asks
for the key is killed before its response. The third is stopped while it works, the fifth while it waits.
";

/// The workflow of the example. It is in the program, which a package has without the examples.
const WORKFLOW: &str = include_str!("../../../../examples/one-state/order.asl.json");

/// How long the step of each execution works, in seconds.
const WORK: [f64; 8] = [0.7, 0.5, 2.5, 0.6, 0.5, 0.8, 0.4, 0.6];
const KILLED_ASKING: usize = 2;

const TTL_SECONDS: f64 = 5.0;
const HANGS_SECONDS: f64 = 11.0;

/// A stack in which what takes minutes on AWS takes seconds.
pub(super) fn options(out: &Path) -> Options {
    let parameters = [
        ("ClockMarginMs", MARGIN_MS.to_string()),
        ("ReapGraceSeconds", GRACE_SECONDS.to_string()),
        ("LookSeconds", "1".to_owned()),
    ];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value));
    Options {
        parameters: BTreeMap::from(parameters),
        run_directory: Some(out.to_owned()),
        engine: true,
        schedules: Schedules::Every(Duration::from_secs(1)),
        ..Options::default()
    }
}

/// Plays the story to its end. Returns what was seen of it.
pub(super) async fn play(stack: &Stack) -> Result<Record<'_>, Error> {
    let functions = stack.functions();
    let workflow = workflow(stack).await?;
    let mut record = Record::begin(stack);

    // A process on some server takes the key, by a lease of five seconds.
    let request =
        json!({"key": KEY, "holder": PROCESS, "request_id": "1", "ttl_seconds": TTL_SECONDS});
    let mut lease = functions.call("acquire", &request).await?["lease"].clone();
    record.process_holds(&lease);

    // Eight executions want it too, and join the queue. None of them polls. Meanwhile the process extends its lease.
    for (number, seconds) in (1..).zip(WORK) {
        if number == KILLED_ASKING {
            // Its work is done, but nobody hears of it. Step Functions asks again, and the place in the queue is the same.
            functions.kill_before_answer("acquire", 1)?;
        }
        let input = json!({"order": "42", "work": {"seconds": seconds}});
        record.start(number, &workflow, &input).await?;
        record
            .until(number, "it waits", |one| one.queued.is_some())
            .await?;
        lease = functions.call("extend", &json!({"lease": lease})).await?["lease"].clone();
        record.process_extends(&lease);
    }

    // Now the process enters what the lease protects, and hangs there for longer than its lease lasts. When it goes on as if
    // nothing had happened, it writes with an old fencing token, and the resource refuses that.
    record.tell(PROCESS, now(), "is at work, and HANGS");
    let pass = ["key", "holder", "fencing_token", "safe_until"];
    let pass: BTreeMap<_, _> = pass.map(|field| (field, &lease[field])).into();
    let step = json!({"step": "write", "work": {"seconds": HANGS_SECONDS}, "lease": pass});
    let late_write = record.late_write();
    let hanging = async {
        let invoked = functions.invoke("step", &step.to_string()).await?;
        let refusal = invoked.outcome.json().err().unwrap_or_default();
        let error = refusal["errorType"].as_str().unwrap_or("nothing");
        let _ = late_write.set((now(), error.to_owned()));
        Ok::<_, Error>(())
    };

    let meanwhile = async {
        // Its lease expires, and sweep, which runs by a schedule, gives the key to the first in the queue.
        record
            .until(1, "it holds the key", |one| one.holds.is_some())
            .await?;

        // One that waits is stopped: the others pass over it.
        record.stop(STOPPED_WAITING).await?;

        // One that works is stopped. Nobody can stop what its function does, so the key stays held for a grace period.
        let works = |one: &Seen| one.works.is_some_and(|at| at + 1000 <= now());
        record.until(STOPPED_WORKING, "it works", works).await?;
        record.stop(STOPPED_WORKING).await?;

        // The others have the key one after the other, each as soon as nothing of the one before can be at work.
        for number in 1..=WORK.len() {
            record
                .until(number, "it has ended", |one| one.ended.is_some())
                .await?;
        }
        Ok(())
    };
    tokio::try_join!(hanging, meanwhile)?;
    record.finish().await?;
    Ok(record)
}

/// Creates the workflow of the example. Its name says that its executions may have leases.
async fn workflow(stack: &Stack) -> Result<String, Error> {
    let mut definition = WORKFLOW.replace("${Partition}", "aws");
    for function in ["acquire", "extend", "step"] {
        let function = stack.functions().function(function)?;
        let placeholder = format!("${{{}}}", function.logical_id);
        definition = definition.replace(&placeholder, &function.arn());
    }
    let name = "leasehold_leasing_orders";
    let created = stack
        .create_state_machine(name, &definition, "orders")
        .await;
    let created = created.map_err(|error| Error::call("CreateStateMachine", error))?;
    Ok(created)
}
