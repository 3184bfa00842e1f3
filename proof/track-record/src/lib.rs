//! The track record: known bugs of other ways to lock with DynamoDB, each shown to happen there and not here.
//!
//! The tests run both sides under the same fault in the same world and write down what they counted; the program
//! prints it as a table. `README.md` tells each entry in a few words, and is held to this list.

mod entries;
mod findings;

pub use entries::{ENTRIES, Entry, Link, Peer};
pub use findings::Finding;
