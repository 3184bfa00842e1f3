//! What woven machines do when a step fails, takes too long, or loses its lease: as our own machines do.

use leasehold::Timestamp;
use serde_json::{Value, json};

use crate::execution::Execution;
use crate::queued_turns::miss_a_turn;
use crate::world::{World, fresh_key, with_world};
use crate::woven::definition;

const TWO_STEPS: &str = include_str!("../../../asl/corpus/weave/01-two-steps.woven.asl.json");
const CATCHES: [&str; 2] = [
    include_str!("../../../asl/corpus/weave/02-catches.asl.json"),
    include_str!("../../../asl/corpus/weave/02-catches.woven.asl.json"),
];
const PARALLEL: [&str; 2] = [
    include_str!("../../../asl/corpus/weave/05-parallel.asl.json"),
    include_str!("../../../asl/corpus/weave/05-parallel.woven.asl.json"),
];
const BOUND: [&str; 2] = [
    include_str!("../../../asl/corpus/weave/10-bound-by-the-lease.asl.json"),
    include_str!("../../../asl/corpus/weave/10-bound-by-the-lease.woven.asl.json"),
];

/// Starts the plain machine and the woven one.
async fn both(world: &World, name: &str, texts: [String; 2], input: &Value) -> [Execution; 2] {
    let [plain, woven] = texts;
    let plain = world.create(&format!("{name}-plain"), &plain).await;
    let woven = world.create(&format!("{name}-woven"), &woven).await;
    [
        world.start(&plain, input.clone()).await,
        world.start(&woven, input.clone()).await,
    ]
}

/// When the first of a section's states was entered, and the last one left; in ms.
async fn inside(run: &Execution, first: &str, last: &str) -> (i64, i64) {
    let (mut from, mut to) = (0, 0);
    for event in run.history().await {
        let at = event.timestamp().to_millis().unwrap();
        if event
            .state_entered_event_details()
            .is_some_and(|state| state.name() == first)
        {
            from = at;
        }
        if event
            .state_exited_event_details()
            .is_some_and(|state| state.name() == last)
        {
            to = at;
        }
    }
    assert!(0 < from && from < to, "{from} {to}");
    (from, to)
}

#[test]
fn no_two_are_in_a_woven_section_at_once() {
    with_world(async |world| {
        let machine = world.create("woven-crowd", TWO_STEPS).await;
        let order = fresh_key();
        let input = json!({"order": order, "charge": {"seconds": 0.2}, "book": {}});
        let mut runs = Vec::new();
        for _ in 0..4 {
            runs.push(world.start(&machine, input.clone()).await);
        }
        let mut times = Vec::new();
        for run in &runs {
            run.ended().await.output();
            times.push(inside(run, "Charge", "Book").await);
        }
        times.sort_unstable();
        for pair in times.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{times:?}");
        }
    });
}

/// With a lease that is soon over.
fn short(text: &str, ttl: u32) -> String {
    let (before, after) = text.split_once("\"ttl_seconds\": ").unwrap_or((text, ""));
    match after.split_once('\n') {
        Some((_, rest)) => format!("{before}\"ttl_seconds\": {ttl}\n{rest}"),
        None => text.to_owned(),
    }
}

/// Checks that a state was entered only when the lease could not be trusted any more.
async fn ran_out_before(run: &Execution, state: &str) {
    let safe_until: Timestamp =
        serde_json::from_value(run.lease().await["safe_until"].clone()).unwrap();
    let mut entered = run.history().await.into_iter().filter_map(|event| {
        let details = event.state_entered_event_details()?;
        (details.name() == state).then(|| event.timestamp().to_millis().unwrap())
    });
    let entered = Timestamp::from_millis(entered.next().unwrap().try_into().unwrap());
    // The engine tells times a millisecond too early.
    let early = std::time::Duration::from_millis(5);
    assert!(
        entered.plus(early) >= safe_until,
        "{entered:?} {safe_until:?}"
    );
}

#[test]
fn a_caught_step_beyond_its_time_goes_where_it_went_once_its_lease_has_run_out() {
    with_world(async |world| {
        let order = fresh_key();
        let hasty = CATCHES.map(|text| {
            let (before, after) = text.split_once("\"Charge\": {").unwrap();
            let after = after.replacen("\"TimeoutSeconds\": 100", "\"TimeoutSeconds\": 1", 1);
            short(&format!("{before}\"Charge\": {{{after}"), 3)
        });
        let input = json!({"order": order, "reserve": {}, "charge": {"seconds": 4}});
        let [plain, woven] = both(world, "late-caught", hasty, &input).await;
        for run in [&plain, &woven] {
            let cause = run.ended().await.failed_with("Order.NotCharged");
            assert_eq!(cause, "The charge has failed.");
        }
        let path = woven.path().await;
        let end = [
            "Charge",
            "OrderLeaveThenTell",
            "Tell",
            "Count",
            "NotCharged",
        ];
        assert_eq!(path[path.len() - 5..], end);
        ran_out_before(&woven, "Tell").await;
    });
}

#[test]
fn a_step_beyond_its_time_that_nobody_catches_ends_as_in_our_own_machines() {
    with_world(async |world| {
        let order = fresh_key();
        let hasty = CATCHES
            .map(|text| text.replacen("\"TimeoutSeconds\": 100", "\"TimeoutSeconds\": 1", 1));
        let input = json!({"order": order, "reserve": {"seconds": 4}, "charge": {}});
        let [plain, woven] = both(world, "late", hasty, &input).await;
        plain.ended().await.failed_with("States.Timeout");
        woven.ended().await.failed_with("Lease.StepTimeout");
        let holder = world.holder(&format!("orders/{order}")).await;
        assert_eq!(holder, Some(woven.arn));
    });
}

#[test]
fn a_branch_that_fails_waits_for_the_lease_to_run_out_since_the_other_may_be_at_work() {
    with_world(async |world| {
        let book = fresh_key();
        let input = json!({"book": book, "left": {"fail": "Left.Broken"}, "right": {"seconds": 2}, "sum": {}});
        let texts = PARALLEL.map(|text| short(text, 3));
        let [plain, woven] = both(world, "one-side", texts, &input).await;
        let cause = plain.ended().await.failed_with("Left.Broken");
        assert_eq!(woven.ended().await.failed_with("Left.Broken"), cause);
        ran_out_before(&woven, "BooksStepMayRun").await;
    });
}

#[test]
fn a_lease_that_was_lost_ends_the_section_and_frees_nobody_elses() {
    with_world(async |world| {
        let machine = world.create("woven-lost", TWO_STEPS).await;
        let order = fresh_key();
        let input = json!({"order": order, "charge": {}, "book": {"seconds": 1}});
        let run = world.start(&machine, input).await;
        run.in_task("Book", 1).await;
        world.take_away(&run.lease().await, None).await;
        // One in between: of the holder before that one the row tells nothing any more.
        let other = world.occupy(&format!("orders/{order}"), "another").await;
        world.take_away(&other, Some("somebody else")).await;
        run.ended().await.failed_with("Lease.Lost");
        let path = run.path().await;
        assert_eq!(
            path[path.len() - 2..],
            ["OrderReleaseThenShip", "OrderLeaseLost"]
        );
        let holder = world.holder(&format!("orders/{order}")).await;
        assert_eq!(holder.as_deref(), Some("somebody else"));
    });
}

#[test]
fn a_redriven_step_that_is_bound_by_its_lease_proves_it_first() {
    with_world(async |world| {
        let bale = fresh_key();
        let input = json!({"bale": bale, "measure": {"seconds": 1}, "cut": {}});
        let [plain, woven] = both(world, "redriven", BOUND.map(str::to_owned), &input).await;
        woven.in_task("Measure", 1).await;
        woven.stop().await;
        woven.redrive().await;
        let output = plain.ended().await.output();
        assert_eq!(woven.ended().await.output(), output);
        let path = woven.since_redrive().await;
        assert_eq!(path[..3], ["Measure", "ClothExtendForMeasure", "Measure"]);
        assert_eq!(world.holder(&format!("cloth/{bale}")).await, None);
    });
}

#[test]
fn a_redriven_step_whose_lease_is_lost_does_not_begin() {
    with_world(async |world| {
        let bale = fresh_key();
        let input = json!({"bale": bale, "measure": {"seconds": 2}, "cut": {}});
        let machine = world.create("redriven-lost", BOUND[1]).await;
        let run = world.start(&machine, input).await;
        run.in_task("Measure", 1).await;
        run.stop().await;
        world
            .take_away(&run.lease().await, Some("somebody else"))
            .await;
        run.redrive().await;
        run.ended().await.failed_with("Lease.Lost");
        assert_eq!(run.steps_since_redrive().await, 0);
    });
}

#[test]
fn who_misses_a_turn_lines_up_again_and_after_three_gives_up() {
    with_world(async |world| {
        let queues = [
            ("07-queue.woven.asl.json", "environments/", "Environment"),
            ("12-queue-in-jsonpath.woven.asl.yaml", "", "Printer"),
        ];
        for (file, prefix, section) in queues {
            let function = format!("Tardy{section}Extend");
            let arn = world.own_function("ExtendFunction", &function, &[]);
            let text = definition(file).replace("${ExtendFunction}", &arn);
            let machine = world.create(&function, &text).await;
            let input = |id: &str| json!({"environment": id, "printer": id, "deploy": {}, "verify": {}, "print": {}});
            // One answered call first, so that there is a process to freeze.
            let first = world.start(&machine, input(&fresh_key())).await;
            first.ended().await.output();

            let id = fresh_key();
            let key = format!("{prefix}{id}");
            let mut lease = world.occupy(&key, "somebody else").await;
            let run = world.start(&machine, input(&id)).await;
            for nth in 1..=3 {
                world.is_waited_for_by(&key, 1).await;
                let confirm = format!("{section}Confirm");
                lease = miss_a_turn(world, &function, &lease, &run, (&confirm, nth)).await;
            }
            run.ended().await.failed_with("Lease.Lost");
            let round = ["Acquire", "Confirm", "TurnMissed"];
            let mut path: Vec<String> = round
                .iter()
                .cycle()
                .take(9)
                .map(|state| format!("{section}{state}"))
                .collect();
            path.insert(0, format!("{section}Begin"));
            path.push(format!("{section}LeaseLost"));
            assert_eq!(run.path().await, path);
        }
    });
}

#[test]
fn a_redriven_release_has_nothing_to_report() {
    with_world(async |world| {
        let machines = [
            ("01-two-steps.woven.asl.json", "OrderReleaseThenShip"),
            ("02-catches.woven.asl.json", "OrderRelease"),
        ];
        for (file, release) in machines {
            let function = format!("Frozen{release}");
            let arn = world.own_function("ReleaseFunction", &function, &[]);
            let text = definition(file).replace("${ReleaseFunction}", &arn);
            let machine = world.create(&function, &text).await;
            let input =
                |order: &str| json!({"order": order, "charge": {}, "book": {}, "reserve": {}});
            // One answered call first, so that there is a process to freeze.
            let first = world.start(&machine, input(&fresh_key())).await;
            let output = first.ended().await.output();

            let order = fresh_key();
            world.stack.functions().freeze(&function).unwrap();
            let run = world.start(&machine, input(&order)).await;
            run.in_task(release, 1).await;
            run.stop().await;
            // Taken away, and once more, so that the row cannot tell what became of it.
            world.take_away(&run.lease().await, None).await;
            let other = world.occupy(&format!("orders/{order}"), "another").await;
            world.take_away(&other, Some("somebody else")).await;
            world.stack.functions().thaw(&function).unwrap();
            run.redrive().await;
            let mut again = run.ended().await.output();
            again["order"] = output["order"].clone();
            assert_eq!(again, output, "{file}");
            let holder = world.holder(&format!("orders/{order}")).await;
            assert_eq!(holder.as_deref(), Some("somebody else"));
        }
    });
}
