//! Whether anybody was inside with another, and whether the tokens rose with the grants.

use std::collections::BTreeMap;

use super::worker::Section;
use crate::ratio;

/// What the sections of all processes come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Judged {
    /// Sections that began before another one of the same key had ended.
    pub overlaps: u64,
    /// Sections whose token was not above that of the one before on the same key.
    pub tokens_back: u64,
    /// Sections per second, from the first to begin to the last to end.
    pub per_second: f64,
}

/// Looks at each key by itself.
#[must_use]
pub fn judge(sections: &[Section]) -> Judged {
    let mut by_key: BTreeMap<u32, Vec<Section>> = BTreeMap::new();
    for section in sections {
        by_key.entry(section.key).or_default().push(*section);
    }
    let mut judged = Judged::default();
    for sections in by_key.values_mut() {
        sections.sort_by_key(|section| section.from);
        for pair in sections.windows(2) {
            let [before, after] = pair else { continue };
            judged.overlaps += u64::from(after.from < before.until);
            // Without tokens there are none that could go back.
            let back = before.token.zip(after.token);
            judged.tokens_back += u64::from(back.is_some_and(|(before, after)| after <= before));
        }
    }
    let from = sections.iter().map(|section| section.from).min();
    let until = sections.iter().map(|section| section.until).max();
    if let Some((from, until)) = from.zip(until) {
        let took = ratio(until.saturating_sub(from), 1_000_000_000);
        let count = u64::try_from(sections.len()).unwrap_or(u64::MAX);
        judged.per_second = if took > 0.0 {
            ratio(count, 1) / took
        } else {
            0.0
        };
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn section(key: u32, token: u64, from: u64, until: u64) -> Section {
        Section {
            key,
            token: Some(token),
            from: from * SECOND,
            until: until * SECOND,
        }
    }

    #[test]
    fn each_fault_is_seen_and_other_keys_are_not_looked_at() {
        let well = [
            section(1, 4, 10, 20),
            section(1, 2, 0, 10),
            section(2, 1, 5, 15),
        ];
        let judged = judge(&well);
        assert_eq!((judged.overlaps, judged.tokens_back), (0, 0));
        assert!((judged.per_second - 0.15).abs() < 1e-9, "{judged:?}");
        let both_inside = [section(1, 2, 0, 10), section(1, 4, 9, 20)];
        assert_eq!(judge(&both_inside).overlaps, 1);
        let same_token = [section(1, 2, 0, 10), section(1, 2, 10, 20)];
        assert_eq!(judge(&same_token).tokens_back, 1);
        assert_eq!(judge(&[]), Judged::default());
    }
}
