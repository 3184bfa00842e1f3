//! An event for a function, whose name is its first line.
#![no_main]

use leasehold_hostile::corpus;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(fault) = corpus::event(bytes) {
        panic!("{fault}");
    }
});
