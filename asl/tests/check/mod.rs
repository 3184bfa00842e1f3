//! The findings of `check`.

mod corpus;
mod damaged;
mod pictures;
mod property;
mod shapes;
mod shipped;
mod size;
mod templates;
