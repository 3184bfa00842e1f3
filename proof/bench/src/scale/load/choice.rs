//! Which key is next: by chance, and the same every time.

use crate::ratio;

/// Chooses among keys, the first ones more often.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Up to each key, the part of all choices.
    up_to: Vec<f64>,
    state: u64,
}

impl Choice {
    /// Chooses among so many keys. The `n`th is chosen in proportion to `1 / n^exponent` (Zipf's law); with 0 all are
    /// alike.
    #[must_use]
    pub fn among(keys: u32, exponent: f64, seed: u64) -> Self {
        let weights = (1..=keys).map(|n| f64::from(n).powf(-exponent));
        let up_to: Vec<f64> = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let all = up_to.last().copied().unwrap_or(1.0);
        Self {
            up_to: up_to.into_iter().map(|sum| sum / all).collect(),
            state: seed,
        }
    }

    /// The next one, counted from 0.
    pub fn one(&mut self) -> u32 {
        let part = ratio(self.random() >> 32, 1 << 32);
        let index = self.up_to.partition_point(|up_to| *up_to <= part);
        u32::try_from(index.min(self.up_to.len().saturating_sub(1))).unwrap_or(u32::MAX)
    }

    /// The generator `SplitMix64`: good enough to choose by, and it takes any seed.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(exponent: f64) -> Vec<u32> {
        let mut choice = Choice::among(10, exponent, 7);
        let mut times = vec![0; 10];
        for _ in 0..10_000 {
            times[usize::try_from(choice.one()).unwrap()] += 1;
        }
        times
    }

    #[test]
    fn without_an_exponent_all_are_alike_and_with_one_the_first_is_chosen_most() {
        let alike = chosen(0.0);
        assert!(
            alike.iter().all(|times| (900..1100).contains(times)),
            "{alike:?}"
        );
        // 1 + 1/2 + … + 1/10 is 2.93.
        let first = chosen(1.0);
        assert!((3200..3600).contains(&first[0]), "{first:?}");
        assert!((300..390).contains(&first[9]), "{first:?}");
    }
}
