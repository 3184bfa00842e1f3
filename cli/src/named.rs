//! A key or a pool, as the commands take it.

use clap::Args;
use leasehold::{BadValue, Key};

/// What the command is about.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Named {
    /// The key
    #[arg(value_parser = |text: &str| Key::new(text))]
    key: Option<Key>,
    /// The pool of this name, instead of a key
    #[arg(long, value_name = "NAME", value_parser = pool)]
    pool: Option<Key>,
}

impl Named {
    /// The key, which may be a pool's.
    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_ref().or(self.pool.as_ref())
    }
}

/// The key of the pool of this name.
pub(crate) fn pool(name: &str) -> Result<Key, String> {
    let name = Key::new(name).map_err(|problem| problem.to_string())?;
    Ok(Key::of_pool(&name))
}

/// A key as its rows have it, which may be a pool's.
pub(crate) fn of_row(text: &str) -> Result<Key, BadValue> {
    Key::of_row(text).map_or_else(|| Key::new(text), Ok)
}
