//! The suite every store has to pass.
