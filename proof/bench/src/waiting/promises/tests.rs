use super::*;

type Change = fn(&mut Figures);

/// What is held to a target and misses it.
fn missed(runs: &[Figures]) -> Vec<String> {
    let measures = measures(runs, &[]);
    let missed = measures.into_iter().filter(Measure::missed);
    missed.map(|measure| measure.name).collect()
}

fn good() -> Figures {
    let mut run = Figures::nothing(Name::Queue, JUDGED_WAITERS, JUDGED_HOLD_MS);
    run.cycles = 100;
    run.requests.per_cycle = 3.0;
    run.wait.longest_by_mean = 1.2;
    run.utilisation = 0.92;
    run
}

#[test]
fn each_promise_can_be_broken_by_itself() {
    assert_eq!(missed(&[good()]), Vec::<String>::new());
    let breaks: [(&str, Change); 6] = [
        ("requests per contended cycle, 32", |run| run.cycles = 0),
        ("requests per contended cycle, 32", |run| {
            run.requests.per_cycle = 3.1;
        }),
        ("longest wait", |run| run.wait.longest_by_mean = 1.3),
        ("part of the time", |run| run.utilisation = 0.89),
        ("entries", |run| run.overlaps = 1),
        ("calls", |run| {
            *run.errors.entry("no".to_owned()).or_default() += 1;
        }),
    ];
    for (broken, change) in breaks {
        let mut run = good();
        change(&mut run);
        let missed = missed(&[run]);
        assert_eq!(missed.len(), 1, "{missed:?}");
        assert!(missed[0].starts_with(broken), "{missed:?}");
    }
}

#[test]
fn runs_that_differ_are_found_even_if_each_is_cheap() {
    let mut other = good();
    other.waiters = 8;
    other.requests.per_cycle = 2.9;
    let missed = missed(&[good(), other]);
    assert_eq!(missed.len(), 1, "{missed:?}");
    assert!(missed[0].contains("most of all runs"), "{missed:?}");
}

#[test]
fn the_others_stand_beside_under_the_same_circumstances_and_are_held_to_nothing() {
    let mut other = good();
    other.contestant = Name::DynamodbLease;
    other.requests.per_cycle = 40.0;
    other.overlaps = 2;
    let mut elsewhere = other.clone();
    elsewhere.waiters = 8;
    let measures = measures(&[good(), other, elsewhere], &[]);
    assert!(!measures.iter().any(Measure::missed), "{measures:?}");
    let of = |name: &str| {
        let found = measures
            .iter()
            .find(|measure| measure.name.starts_with(name));
        found.unwrap().peers["dynamodb-lease"]
    };
    assert!((of("requests per contended cycle, 32") - 40.0).abs() < 1e-9);
    assert!((of("entries") - 4.0).abs() < 1e-9);
}
