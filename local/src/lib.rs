//! Local.
