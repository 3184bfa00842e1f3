//! What nobody should send, and somebody will: hostile events for every function, hostile items where rows and
//! waiters should stand, hostile keys. They are made by chance from valid ones, since what is random altogether
//! never gets past the first check.
//!
//! Every case follows from a seed and its number alone. The fuzz targets in `proof/fuzz/` call the same judges:
//! [`events::judge`], [`rows::judge`] and [`keys::judge`].

mod acts;
pub mod census;
pub mod corpus;
pub mod desk;
pub mod dice;
pub mod events;
mod functions;
mod items;
mod journal;
pub mod keys;
pub mod marks;
pub mod rows;
mod samples;
mod tree;
mod twist;
pub mod wire;
mod witness;
mod world;

pub use functions::Function;
