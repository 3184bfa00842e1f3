//! The findings of `check`, and the pictures of `draw`.

mod corpus;
mod damaged;
mod pictures;
mod property;
mod shapes;
mod shipped;
mod size;
mod templates;
