//! What a lease costs a workflow, on a small scale: the counts are exact, so they are the same in every run.

use std::collections::BTreeMap;

use leasehold_bench::workflows::{glance, glance_at_line, scenes::Scene};

#[allow(clippy::unwrap_used, reason = "a test's own function")]
fn named<'a>(scenes: &'a [Scene], name: &str) -> &'a Scene {
    scenes.iter().find(|scene| scene.name == name).unwrap()
}

fn counts(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let counts = counts.iter();
    counts
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_takes_what_its_states_send_and_what_tidies_up_is_apart() {
    let names = ["critical-section", "queued-section", "aws-semaphore"];
    let scenes = glance(&names).await.unwrap();
    assert_eq!(scenes.len(), 3);

    let section = named(&scenes, "critical-section");
    let by = &section.purposes;
    let transitions = [by.lease, by.extend, by.waiting, by.work].map(|of| of.transitions);
    assert_eq!(transitions, [2, 1, 0, 2]);
    assert_eq!(section.spent.history.events, 27);
    let asked = &section.spent.sections_asked;
    assert_eq!(asked.requests, counts(&[("UpdateItem", 3)]));
    // Two with the index entry, and an extend, which has none.
    assert!((asked.write_units - 5.0).abs() < 1e-9, "{asked:?}");
    let tidying = &section.spent.tidying_asked;
    assert_eq!(tidying.requests, counts(&[("Query", 2)]));
    let invocations = [
        ("AcquireFunction", 1),
        ("ExtendFunction", 1),
        ("ReapFunction", 2),
        ("ReleaseFunction", 1),
    ];
    assert_eq!(section.spent.invocations, counts(&invocations));

    let queued = named(&scenes, "queued-section");
    assert_eq!(queued.purposes.lease.transitions, 2);
    assert_eq!(queued.purposes.waiting.transitions, 1);

    let sample = named(&scenes, "aws-semaphore");
    assert_eq!(sample.purposes.lease.transitions, 5);
    let asked = &sample.spent.sections_asked;
    assert_eq!(asked.requests, counts(&[("UpdateItem", 2)]));
    assert!(sample.spent.invocations.is_empty(), "{sample:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_line_a_section_takes_the_same_however_many_want_it() {
    let crowd = glance_at_line(3).await.unwrap();
    assert_eq!(crowd.scene.executions, 3);
    let by = &crowd.scene.purposes;
    let transitions = [by.lease, by.extend, by.waiting].map(|of| of.transitions);
    assert_eq!(transitions, [6, 3, 3]);
    // To join, to confirm, to release; and to read a waiter's token, or to take the key that is free after all. A join that
    // meets a release asks again, twice at the most as far as was ever seen: two requests each time.
    let asked = &crowd.scene.spent.sections_asked.requests;
    assert!((4.0..=8.0).contains(&crowd.requests()), "{asked:?}");
    let all = f64::from(u32::try_from(asked.values().sum::<u64>()).unwrap());
    assert!(
        (crowd.requests() * 3.0 + 3.0 - all).abs() < 1e-9,
        "less its extends: {asked:?}"
    );
    assert!(crowd.tidying() > 0.0, "{crowd:?}");
}
