//! What `check` finds and leaves alone, and what `draw` shows.

mod corpus;
mod damaged;
mod pictures;
mod property;
mod retries;
mod shipped;
mod size;
mod templates;
