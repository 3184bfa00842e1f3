//! Items in the place of rows, and what is tried on them.
#![no_main]

use leasehold_hostile::corpus;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(fault) = corpus::row(bytes) {
        panic!("{fault}");
    }
});
