//! Starts under all faults at once, by an older and separate simulation with a judge of its own ([`starts`]): it plays, still,
//! what the walks through the worlds of the model do not.

mod shared;
mod starts;
mod step_functions;
mod store;

/// A number that somebody at a terminal gives.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
