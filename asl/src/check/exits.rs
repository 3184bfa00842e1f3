//! How a scope can end.

use crate::check::lease::{Env, Key, key};
use crate::check::outcomes::Error;
use std::collections::HashMap;

/// A way out of a scope.
#[derive(Clone)]
pub(crate) struct Exit {
    pub env: Env,
    pub link: usize,
    /// `None`: it succeeded.
    pub error: Option<Error>,
}

/// The ways out of a scope, each found by its error and by what is known of the leases.
#[derive(Default)]
pub(crate) struct Exits {
    pub all: Vec<Exit>,
    places: HashMap<(Option<Error>, Key), usize>,
}

impl Exits {
    pub(crate) fn add(&mut self, exit: Exit) {
        let key = (exit.error.clone(), key(&exit.env));
        if let Some(&nth) = self.places.get(&key) {
            for (old, new) in self.all[nth].env.iter_mut().zip(&exit.env) {
                old.join(new);
            }
        } else {
            self.places.insert(key, self.all.len());
            self.all.push(exit);
        }
    }
}
