//! Reproducible random numbers: the same seed and purpose give the same numbers.

use fastrand::Rng;

/// The generator for a purpose, which is a path of numbers such as round, client, section.
#[must_use]
pub fn seeded(seed: u64, purpose: &[u64]) -> Rng {
    let step = |mut rng: Rng, part: &u64| {
        Rng::with_seed(rng.u64(..) ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    };
    purpose.iter().fold(Rng::with_seed(seed), step)
}

/// One of these.
pub fn choose<'a, T>(rng: &mut Rng, of: &'a [T]) -> &'a T {
    &of[rng.usize(..of.len())]
}

#[cfg(test)]
mod tests {
    use super::seeded;

    #[test]
    fn each_purpose_has_own_repeatable_numbers() {
        let numbers = |seed, purpose: &[u64]| {
            let mut rng = seeded(seed, purpose);
            [rng.u64(..), rng.u64(..), rng.u64(..)]
        };
        assert_eq!(numbers(7, &[1, 2]), numbers(7, &[1, 2]));
        assert_ne!(numbers(7, &[1, 2]), numbers(7, &[2, 1]));
        assert_ne!(numbers(7, &[1, 2]), numbers(8, &[1, 2]));
    }
}
