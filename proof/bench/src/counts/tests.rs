use super::*;
use crate::measures::Measure;
use played::{Marks, Spent, Step};

fn setting(lease: Duration) -> Setting {
    Setting {
        // Without Python it is not looked at.
        root: "/nowhere".into(),
        lease,
        extends_every: None,
    }
}

fn minute() -> Setting {
    setting(Duration::from_mins(1))
}

const ONCE: Tries = Tries {
    most: 1,
    until: Duration::ZERO,
};

/// Requests, units that were written or refused, and units that were read.
fn cost(spent: &Spent) -> (u64, f64, f64) {
    (spent.requests, spent.writing(), spent.read_units)
}

fn costs(played: &Played) -> Vec<(&str, (u64, f64, f64))> {
    let steps = played.steps.iter();
    steps.map(|step| (step.name, cost(&step.spent))).collect()
}

#[tokio::test]
async fn an_act_of_ours_is_one_request_and_one_that_changes_the_index_costs_a_unit_more() {
    let played = sections::section::<Ours>(&minute(), 2).await.unwrap();
    let expected = [
        ("acquire", (1, 2.0, 0.0)),
        ("extend", (1, 1.0, 0.0)),
        ("extend", (1, 1.0, 0.0)),
        ("release", (1, 2.0, 0.0)),
    ];
    assert_eq!(costs(&played), expected);
    assert_eq!(cost(&played.all), (4, 6.0, 0.0));
}

#[tokio::test]
async fn an_act_of_others_is_one_request_and_one_unit() {
    let direct = sections::section::<Direct>(&minute(), 1).await.unwrap();
    let other = sections::section::<DynamodbLease>(&minute(), 1)
        .await
        .unwrap();
    for played in [direct, other] {
        let one = |act| (act, (1, 1.0, 0.0));
        assert_eq!(costs(&played), ["acquire", "extend", "release"].map(one));
        assert!(played.all.bytes_up > 300 && played.all.bytes_down > 0);
    }
}

#[tokio::test]
async fn after_a_lost_answer_ours_knows_where_it_stands_with_the_second_request() {
    for (act, knows) in Act::ALL
        .into_iter()
        .zip(["its own", "extended", "released"])
    {
        let settled = lost::settled::<Ours>(&minute(), act, Fault::LoseAnswer, ONCE).await;
        let settled = settled.unwrap();
        assert_eq!(
            (settled.all.requests, &settled.told[..]),
            (2, knows),
            "{act:?}"
        );
        assert!(settled.in_leases().unwrap() < 0.5, "{settled:?}");
    }
}

#[tokio::test]
async fn after_a_lost_answer_a_plain_lock_waits_for_its_own_lease_to_end() {
    let short = setting(Duration::from_millis(1500));
    let act = Act::Acquire;
    let settled = lost::settled::<Direct>(&short, act, Fault::LoseAnswer, ONCE)
        .await
        .unwrap();
    assert!(
        settled.all.requests > 2 && settled.all.refused_units > 0.0,
        "{settled:?}"
    );
    assert!(settled.in_leases().unwrap() >= 0.9, "{settled:?}");
    let settled = lost::settled::<Direct>(&short, Act::Release, Fault::LoseAnswer, ONCE).await;
    assert!(settled.unwrap().told.starts_with("refused"));
}

#[tokio::test]
async fn in_line_two_requests_get_in_and_who_is_reaped_is_waited_for_by_nobody() {
    let alone = line::alone(&minute()).await.unwrap();
    let expected = [
        // The transaction is refused, at two units an item; the lease is granted by a write of its own.
        ("join", (2, 6.0, 0.0)),
        ("confirm", (1, 1.0, 0.0)),
        ("release", (1, 2.0, 0.0)),
    ];
    assert_eq!(costs(&alone), expected);
    let cycle = line::behind_one(&minute()).await.unwrap();
    let expected = [
        ("join", (1, 5.0, 0.0)),
        ("hand over", (2, 2.0, 1.0)),
        ("confirm", (1, 2.0, 0.0)),
    ];
    assert_eq!(costs(&cycle[0]), expected);

    let reaped = line::reaped(&minute()).await.unwrap();
    assert_eq!(
        costs(&reaped),
        [("join", (1, 5.0, 0.0)), ("confirm", (1, 2.0, 0.0))]
    );
    assert!(reaped.in_leases().unwrap() < 0.5, "{reaped:?}");
    assert_eq!(reaped.aside.unwrap().requests, 4);
}

#[tokio::test]
async fn several_at_once_and_guarded_writes_cost_what_they_write() {
    let keys = several::keys(&minute(), 2).await.unwrap();
    let release = ("release", (2, 4.0, 0.0));
    assert_eq!(costs(&keys), [("acquire", (2, 6.0, 4.0)), release]);
    let directly = several::keys_directly(&minute(), 2).await.unwrap();
    assert_eq!(
        costs(&directly),
        [("acquire", (1, 4.0, 0.0)), ("release", (1, 4.0, 0.0))]
    );
    let permits = several::semaphore(&minute()).await.unwrap();
    // Each asks which are free, and takes one.
    assert_eq!(costs(&permits)[0], ("acquire", (10, 10.0, 5.0)));
    assert_eq!(permits.sections, 5);
    let one = several::one_of_many(&minute()).await.unwrap();
    let acquired = cost(&one.steps[0].spent);
    assert_eq!((acquired.0, acquired.1), (2, 2.0));
    assert!(acquired.2 > 5.0, "a hundred rows are read: {one:?}");
    let counter = several::counter(&minute()).await.unwrap();
    assert_eq!(cost(&counter.all), (10, 10.0, 0.0));

    let written = guarded::writes(&minute()).await.unwrap();
    let units: Vec<f64> = written.iter().map(|played| played.all.writing()).collect();
    assert_eq!(
        units,
        [1.0, 1.0, 4.0],
        "a transaction takes two for each of its items"
    );
}

#[tokio::test]
async fn from_afar_a_section_takes_a_round_trip_for_each_request() {
    let far = Duration::from_millis(30);
    let near = sections::far_away::<Ours>(&minute(), Duration::ZERO, 3)
        .await
        .unwrap();
    let took = sections::far_away::<Ours>(&minute(), far, 3).await.unwrap();
    assert!(
        took.delay_ms >= 30.0 && near.delay_ms < 30.0,
        "{took:?}, {near:?}"
    );
    assert!(took.section_ms >= 60.0, "{took:?}");
}

/// Everything as good as it has to be, and made up.
fn good() -> All {
    let step = |name, requests| Step {
        name,
        spent: Spent {
            requests,
            ..Spent::default()
        },
    };
    let played = |scene: String, client, steps: &[(&'static str, u64)], took| {
        let marks = Marks::begin(leasehold_local::Counts::default());
        let mut played = Played::once(scene, client, marks, Duration::from_millis(took));
        played.steps = steps
            .iter()
            .map(|(name, requests)| step(name, *requests))
            .collect();
        played.all.requests = steps.iter().map(|(_, requests)| requests).sum();
        played.under(Duration::from_millis(100))
    };
    let (ours, other) = (Who::Leasehold.told(), Who::DynamodbLease.told());
    let one = [("acquire", 1), ("extend", 1), ("release", 1)];
    let mut all = All::default();
    for client in [ours, other] {
        all.played.push(played(sections::name(0), client, &one, 3));
        all.played.push(played(sections::name(1), client, &one, 3));
    }
    for act in Act::ALL {
        let loss = lost::name(act, Fault::LoseAnswer);
        all.played
            .push(played(loss.clone(), ours, &[("acquire", 2)], 100));
        all.played
            .push(played(loss, other, &[("acquire", 9)], 60_000));
    }
    for (client, took) in [
        (crash::REAPED, 5),
        (crash::SWEPT, 130),
        (crash::POLLED, 140),
        (other, 190),
    ] {
        all.played.push(played(
            crash::NAME.to_owned(),
            client,
            &[("acquire", 2)],
            took,
        ));
    }
    all
}

fn missed(all: &All) -> Vec<String> {
    let measures = promises::measures(all).into_iter();
    let missed = measures.filter(Measure::missed);
    missed.map(|measure| measure.name).collect()
}

#[test]
fn each_promise_can_be_broken_by_itself() {
    assert_eq!(missed(&good()), Vec::<String>::new());
    for (act, at) in Act::ALL.into_iter().zip([0, 1, 2]) {
        let mut all = good();
        let scene = usize::from(act == Act::Extend);
        all.played[scene].steps[at].spent.requests = 2;
        let name = format!("requests per uncontended {}", act.told());
        assert_eq!(missed(&all), [name]);

        let loss = lost::name(act, Fault::LoseAnswer);
        let find = |all: &mut All| {
            let found = all.played.iter().position(|played| played.scene == loss);
            found.unwrap()
        };
        let mut all = good();
        let at = find(&mut all);
        all.played[at].all.requests = 3;
        let name = format!(
            "requests until an answer that was lost with its connection is settled, {}",
            act.told()
        );
        assert_eq!(missed(&all), [name]);
        let mut all = good();
        all.played[at].took_ms = 101.0;
        let name = format!(
            "time until an answer that was lost with its connection is settled, {}",
            act.told()
        );
        assert_eq!(missed(&all), [name]);
    }
}

#[test]
fn others_stand_beside_ours_and_a_crash_is_told_by_ways() {
    let measures = promises::measures(&good());
    let of = |name: &str| {
        measures
            .iter()
            .find(|measure| measure.name == name)
            .unwrap()
    };
    let lost = of("requests until an answer that was lost with its connection is settled, acquire");
    assert_eq!((lost.ours, lost.peers["dynamodb-lease"]), (2.0, 9.0));
    let crash = of("wait after a crash of the holder");
    assert!((crash.ours - 1.3).abs() < 1e-9);
    let ways = [
        "leasehold, in line, reaped",
        "leasehold, polling",
        "dynamodb-lease",
    ];
    let peers = ways.map(|way| crash.peers[way].to_string());
    assert_eq!(peers, ["0.05", "1.4", "1.9"]);
}

#[test]
fn everything_that_was_played_is_told_drawn_and_priced() {
    let mut all = good();
    let reaped = all
        .played
        .iter_mut()
        .find(|played| played.client == crash::REAPED);
    reaped.unwrap().aside = Some(Spent {
        requests: 4,
        ..Spent::default()
    });
    all.played[0].sections = 2;
    all.played[0].all.write_units = 5.0;
    let scenes = all.played.len();
    let found = all.found();
    assert_eq!(found.raw["scenes"].as_array().unwrap().len(), scenes);
    let units = &found.raw["units_per_section"]["section"]["leasehold"];
    assert_eq!(
        (&units["requests"], &units["write_units"]),
        (&json!(1.5), &json!(2.5))
    );
    for played in [
        "leasehold, in line, reaped",
        "lost answer: release",
        "60000 ms",
    ] {
        assert!(found.told.contains(played), "{played}: {}", found.told);
    }
    let svg = &found.pictures[0].svg;
    // Two bars in each panel of sections and losses, four in each of crashes.
    assert_eq!(svg.matches("<rect class=\"bar").count(), 4 * 2 + 2 * 4);
    assert!(svg.contains("class=\"bar polling\""));
    assert!(svg.contains(">2, and 4 of who cleans up<"));
}

#[test]
fn everybody_tells_what_was_set() {
    for who in Who::ALL {
        assert!(who.settings().len() > 20, "{}", who.told());
    }
}
