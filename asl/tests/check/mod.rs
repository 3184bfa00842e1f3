//! The findings of `check`, and the pictures of `draw`.

mod corpus;
mod damaged;
mod pictures;
mod property;
mod shipped;
mod size;
mod templates;
