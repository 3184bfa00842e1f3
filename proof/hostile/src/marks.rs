//! Secrets that can be recognised: all of them contain one mark, so that one search finds any of them.

/// What every secret contains. Its letters stand in no word of ours.
pub const MARK: &str = "zQ7xKv9wJ3hunter2";

/// What stands for any value that somebody gave: no secret, and yet a refusal does not repeat it.
pub const GIVEN: &str = "gIvEn4vAlUe";

/// A secret made of what a sample says in its place, for a row and for an event alike.
#[must_use]
pub fn secret(sample: &str) -> String {
    // Neither the first nor the last: a secret that is cut is told as well.
    let (before, after) = sample.split_at(sample.len().min(4));
    format!("{before}{MARK}{after}")
}

/// The names of what must never be shown.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    ["lease_id", "claim_id", "task_token"].contains(&name)
}

/// In which form the mark shows in `text`, if it does.
#[must_use]
pub fn found_in(text: &str) -> Option<&'static str> {
    FORMS
        .iter()
        .find(|(_, form)| text.contains(form))
        .map(|(name, _)| *name)
}

/// The mark as it is, in hex, and in base64, which looks otherwise at each of three offsets. What the neighbouring bytes
/// decide is left off at both ends.
const FORMS: [(&str, &str); 6] = [
    ("as it is", MARK),
    ("in hex", "7a5137784b7639774a3368756e74657232"),
    ("in hex", "7A5137784B7639774A3368756E74657232"),
    ("in base64", "elE3eEt2OXdKM2h1bnRlcj"),
    ("in base64", "pRN3hLdjl3SjNodW50ZXIy"),
    ("in base64", "6UTd4S3Y5d0ozaHVudGVyM"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let mut three = [0; 3];
            three[..chunk.len()].copy_from_slice(chunk);
            let [a, b, c] = three.map(u32::from);
            let bits = a << 16 | b << 8 | c;
            for at in 0..=chunk.len() {
                let six = (bits >> (18 - 6 * at)) & 63;
                text.push(char::from(LETTERS[six as usize]));
            }
        }
        text
    }

    #[test]
    fn a_secret_is_found_whatever_it_was_written_as() {
        for before in ["", "a", "ab", "abc"] {
            for after in ["", "y", "yz"] {
                let told = format!("{before}{MARK}{after}");
                assert_eq!(found_in(&told), Some("as it is"));
                let hex: Vec<_> = told.bytes().map(|b| format!("{b:02x}")).collect();
                let hex = hex.concat();
                assert_eq!(found_in(&hex), Some("in hex"), "{told}");
                assert_eq!(found_in(&hex.to_uppercase()), Some("in hex"), "{told}");
                let base64 = base64(told.as_bytes());
                assert_eq!(found_in(&base64), Some("in base64"), "{told}: {base64}");
            }
        }
        assert_eq!(found_in("zQ7xKv9wJ3hunter"), None);
    }

    #[test]
    fn a_secret_of_any_length_has_the_mark() {
        for sample in ["", "abc", "5d0c2a9be1f34768a2b7c45d9e8f1032"] {
            assert!(secret(sample).contains(MARK));
        }
    }
}
