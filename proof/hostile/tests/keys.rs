//! A slice of the hostile names; `make hostile` runs a million of them.

use leasehold_hostile::{census, keys};

#[test]
fn names_that_differ_in_any_byte_are_never_taken_for_each_other() {
    let census = census::take(0..20_000, |number| keys::judge(&keys::case(1, number)));
    assert_eq!(census.faults, [], "make hostile shows more");
    for end in ["granted", "held", "refused", "replayed"] {
        assert!(census.ends[end] > 500, "{census:#?}");
    }
}
