use super::*;

fn at(client: usize, at: u64, what: What) -> Event {
    Event { client, at, what }
}

/// A client that asks, enters and leaves.
fn turn(client: usize, asked: u64, from: u64, until: u64) -> [Event; 3] {
    [
        at(client, asked, What::Asked),
        at(client, from, What::Entered),
        at(client, until, What::Left),
    ]
}

const WINDOW: Window = Window {
    from: 100,
    until: 200,
};

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

#[test]
fn what_lies_in_the_window_is_measured_and_the_rest_is_not() {
    // One turn before the window, one that it cuts, two inside, one that it cuts at the end.
    let turns = [
        turn(0, 0, 10, 60),
        turn(1, 0, 70, 110),
        turn(0, 60, 120, 140),
        turn(0, 141, 145, 165),
        turn(1, 111, 190, 230),
    ];
    let measured = measure(&turns.concat(), WINDOW);
    assert_eq!(measured.cycles, 3);
    assert!((measured.utilisation - 0.6).abs() < 1e-9, "{measured:?}");
    assert_eq!((measured.handovers, measured.to_another), (3, 2));
    assert_eq!(measured.between, nanos((10 + 5 + 25) / 3));
    assert_eq!(measured.waits.mean, nanos((60 + 4 + 79) / 3));
    assert_eq!(measured.waits.longest, nanos(79));
    assert!(!measured.waits.goes_on);
    assert_eq!(measured.overlaps, 0);
}

#[test]
fn who_starves_is_not_forgotten() {
    let starving = [at(7, 20, What::Asked)];
    let turns = [turn(0, 100, 101, 120), turn(0, 121, 122, 140)];
    let events = [&turns.concat()[..], &starving].concat();
    let waits = measure(&events, WINDOW).waits;
    assert_eq!((waits.mean, waits.longest), (nanos(1), nanos(180)));
    assert!(waits.goes_on);
    assert!((waits.spread() - 180.0).abs() < 1e-9);
}

#[test]
fn who_enters_after_the_window_waited_in_it() {
    let turns = [turn(0, 100, 110, 120), turn(1, 100, 230, 240)];
    let waits = measure(&turns.concat(), WINDOW).waits;
    assert_eq!((waits.longest, waits.goes_on), (nanos(100), true));
}

#[test]
fn two_inside_are_seen_wherever_they_are() {
    let turns = [turn(0, 0, 10, 50), turn(1, 0, 49, 60), turn(2, 0, 60, 70)];
    assert_eq!(measure(&turns.concat(), WINDOW).overlaps, 1);
    // Also with one who stayed inside for ever, and with a short turn between.
    let forever = [at(3, 80, What::Entered)];
    let later = [turn(4, 81, 82, 83), turn(5, 81, 84, 85)];
    let events = [&forever[..], &later.concat()].concat();
    assert_eq!(measure(&events, WINDOW).overlaps, 2);
}

#[test]
fn errors_are_counted_by_what_they_say() {
    let failed = |error: &str| at(0, 1, What::Failed(error.to_owned()));
    let events = [failed("no"), failed("never"), failed("no")];
    let errors = measure(&events, WINDOW).errors;
    assert_eq!((errors["no"], errors["never"]), (2, 1));
}

#[test]
fn an_empty_window_has_no_figures() {
    assert_eq!(measure(&[], WINDOW), Measured::default());
}
