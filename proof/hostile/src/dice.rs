//! Chance that repeats itself.

/// The same throws for the same seed and case, on every machine: splitmix64.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The dice of one case of a run.
    #[must_use]
    pub fn of(seed: u64, case: u64) -> Self {
        let mut dice = Self(seed);
        let start = dice.throw() ^ case.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Self(start)
    }

    /// 64 random bits.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A place in a list that has `length` of them; 0 if it has none.
    pub fn place(&mut self, length: usize) -> usize {
        let length = u64::try_from(length.max(1)).unwrap_or(1);
        usize::try_from(self.throw() % length).unwrap_or(0)
    }

    /// One of them.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.place(list.len())]
    }

    /// One of these words.
    pub fn word(&mut self, list: &[&'static str]) -> &'static str {
        list[self.place(list.len())]
    }

    /// Once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.throw().is_multiple_of(n)
    }
}
