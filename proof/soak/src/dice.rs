//! Chance that can be had again: the same seed, the same throws.

/// A generator for one purpose, `SplitMix64`.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The dice for a purpose, which is a path of numbers such as round, client, section.
    #[must_use]
    pub fn new(seed: u64, purpose: &[u64]) -> Self {
        let mut dice = Self(seed);
        for part in purpose {
            dice.0 = dice.throw() ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        dice
    }

    /// Any number.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.throw() % end.max(1)
    }

    /// A number from `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// Whether it happens that happens `percent` times out of a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let count = u64::try_from(of.len()).unwrap_or(1);
        &of[usize::try_from(self.below(count)).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn a_purpose_has_its_own_throws_and_the_same_ones_every_time() {
        let throws = |seed, purpose: &[u64]| {
            let mut dice = Dice::new(seed, purpose);
            [dice.throw(), dice.throw(), dice.throw()]
        };
        assert_eq!(throws(7, &[1, 2]), throws(7, &[1, 2]));
        assert_ne!(throws(7, &[1, 2]), throws(7, &[2, 1]));
        assert_ne!(throws(7, &[1, 2]), throws(8, &[1, 2]));
    }

    #[test]
    fn a_number_lies_within_its_bounds_and_reaches_both() {
        let mut dice = Dice::new(1, &[]);
        let thrown: Vec<_> = (0..200).map(|_| dice.between(3, 5)).collect();
        assert!(thrown.iter().all(|n| (3..=5).contains(n)));
        assert!(thrown.contains(&3) && thrown.contains(&5));
    }
}
