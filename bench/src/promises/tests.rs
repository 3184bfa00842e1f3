use super::*;
use crate::contestants::Name;

type Change = fn(&mut Figures);

fn kept(runs: &[Figures]) -> Vec<bool> {
    let runs: Vec<&Figures> = runs.iter().collect();
    let verdicts = promises(&runs);
    verdicts.iter().map(|verdict| verdict.kept).collect()
}

fn good() -> Figures {
    let mut run = Figures::nothing(Name::Polling, JUDGED_WAITERS, JUDGED_HOLD_MS);
    run.cycles = 100;
    run.requests.per_cycle = 3.0;
    run.wait.longest_by_mean = 1.2;
    run.utilisation = 0.92;
    run
}

#[test]
fn each_promise_can_be_broken_by_itself() {
    assert_eq!(kept(&[good()]), [true; 5]);
    let breaks: [(usize, Change); 5] = [
        (0, |run| run.cycles = 0),
        (0, |run| run.requests.per_cycle = 3.1),
        (2, |run| {
            *run.errors.entry("no".to_owned()).or_default() += 1;
        }),
        (3, |run| run.wait.longest_by_mean = 1.3),
        (4, |run| run.utilisation = 0.89),
    ];
    for (broken, change) in breaks {
        let mut run = good();
        change(&mut run);
        let mut wanted = [true; 5];
        wanted[broken] = false;
        assert_eq!(kept(&[run]), wanted);
    }
}

#[test]
fn runs_that_differ_are_found_even_if_each_is_cheap() {
    let mut other = good();
    other.requests.per_cycle = 2.9;
    assert_eq!(kept(&[good(), other]), [true, false, true, true, true]);
}

#[test]
fn who_promises_nothing_is_asked_for_one_thing() {
    let mut run = good();
    run.requests.per_cycle = 40.0;
    assert_eq!(judge(&[run.clone()]).len(), 1);
    assert!(judge(&[run.clone()])[0].kept);
    run.overlaps = 1;
    assert!(!judge(&[good(), run])[0].kept);
}
