//! Chance that repeats itself.

/// The same throws for the same seed, on every machine: xorshift64*.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        // Seeds that are close to each other are to have nothing in common; zero would stay zero.
        let mixed = (seed ^ 0x5851_F42D_4C95_7F2D).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self(mixed | 1)
    }

    fn throw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    /// A number from `least` to `most`, both included.
    pub(super) fn among(&mut self, least: u64, most: u64) -> u64 {
        least + self.throw() % (most - least + 1)
    }

    /// A place in a list that has `length` of them.
    pub(super) fn place(&mut self, length: usize) -> usize {
        let length = u64::try_from(length.max(1)).unwrap_or(1);
        usize::try_from(self.throw() % length).unwrap_or(0)
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.throw().is_multiple_of(n)
    }

    /// So often in a thousand times.
    pub(super) fn per_mille(&mut self, n: u64) -> bool {
        self.throw() % 1000 < n
    }
}
