//! The contract, to the letter: the exact JSON that leaves the real function binaries, for every
//! sample event and every error name.
#![allow(clippy::unwrap_used, missing_docs)]

mod acquiring;
mod counting;
mod desk;
mod failing;
mod functions;
mod holding;
mod malformed;
mod operating;
mod queueing;
mod scenes;
mod several;
mod triggered;

/// Every sample event is used by name in one of the files of this test, or of the one about what happens by itself.
#[test]
fn every_event_is_used() {
    let here = [
        include_str!("acquiring.rs"),
        include_str!("holding.rs"),
        include_str!("malformed.rs"),
        include_str!("operating.rs"),
        include_str!("queueing.rs"),
        include_str!("several.rs"),
        include_str!("triggered.rs"),
        include_str!("../wiring/bus.rs"),
        include_str!("../wiring/streams.rs"),
    ]
    .concat();
    for entry in std::fs::read_dir(functions::events()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(here.contains(&format!("\"{name}\"")), "{name}");
    }
}
