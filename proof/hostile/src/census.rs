//! Many cases at once: how they ended, and the first that ended as none may.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// How so many cases ended.
#[derive(Debug, Default)]
pub struct Census {
    /// How often each end was seen.
    pub ends: BTreeMap<String, u64>,
    /// What must not be: the number of the case, and what was wrong. At most so many are kept as are worth reading.
    pub faults: Vec<(u64, String)>,
}

/// Takes `judge` through the cases of these numbers, on every core, and counts a panic among the faults.
pub fn take(
    cases: std::ops::Range<u64>,
    judge: impl Fn(u64) -> Result<String, String> + Sync,
) -> Census {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (next, census) = (AtomicU64::new(cases.start), Mutex::new(Census::default()));
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut own = Census::default();
                loop {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    if case >= cases.end || own.faults.len() >= MOST {
                        break;
                    }
                    let judged = catch_unwind(AssertUnwindSafe(|| judge(case)));
                    match judged.unwrap_or_else(|_| Err("it panicked".to_owned())) {
                        Ok(end) => *own.ends.entry(end).or_default() += 1,
                        Err(fault) => own.faults.push((case, fault)),
                    }
                }
                census
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .add(own);
            });
        }
    });
    census.into_inner().unwrap_or_else(PoisonError::into_inner)
}

const MOST: usize = 20;

impl Census {
    fn add(&mut self, other: Self) {
        for (end, times) in other.ends {
            *self.ends.entry(end).or_default() += times;
        }
        self.faults.extend(other.faults);
        self.faults.sort();
        self.faults.truncate(MOST);
    }

    /// How many cases ended as they may.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.ends.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_counted_once_and_a_panic_is_a_fault() {
        let census = take(0..1000, |case| match case {
            7 => panic!("as somebody hostile wants"),
            11 => Err("wrong".to_owned()),
            even if even % 2 == 0 => Ok("even".to_owned()),
            _ => Ok("odd".to_owned()),
        });
        assert_eq!(census.judged(), 998);
        assert_eq!((census.ends["even"], census.ends["odd"]), (500, 498));
        let faults = [(7, "it panicked".to_owned()), (11, "wrong".to_owned())];
        assert_eq!(census.faults, faults);
    }
}
