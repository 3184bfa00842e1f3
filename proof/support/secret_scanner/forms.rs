//! The forms in which a secret may appear in a log.

/// The fewest bytes of a secret, and of the prefix that a form is recognised by.
pub(super) const SHORTEST: usize = 16;

/// The secret as it is, in hex, and in base64, which differs at each of three offsets. If the secret is hex, also
/// the base64 of its bytes.
pub(super) fn of(secret: &str) -> Vec<(&'static str, Vec<u8>)> {
    let bytes = secret.as_bytes();
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = digits.concat();
    let mut forms = vec![
        ("as it is", bytes.to_vec()),
        ("in hex", hex.to_uppercase().into_bytes()),
        ("in hex", hex.into_bytes()),
    ];
    let meant = from_hex(secret);
    for letters in [STANDARD, FOR_URLS] {
        forms.extend((0..3).map(|offset| ("in base64", base64(bytes, offset, letters))));
        if let Some(meant) = &meant {
            let of = |offset| ("its bytes in base64", base64(meant, offset, letters));
            forms.extend((0..3).map(of));
        }
    }
    forms.sort();
    forms.dedup();
    forms
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_URLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The base64 letters that depend only on these bytes, if `offset` other bytes precede them.
fn base64(bytes: &[u8], offset: usize, letters: &[u8; 64]) -> Vec<u8> {
    let bits = 8 * offset..8 * (offset + bytes.len());
    let bit = |at: usize| bytes[at / 8 - offset] >> (7 - at % 8) & 1;
    let whole = bits.start.div_ceil(6)..bits.end / 6;
    let letter = |nth: usize| {
        let six = (6 * nth..6 * nth + 6).fold(0, |sum, at| sum << 1 | bit(at));
        letters[usize::from(six)]
    };
    whole.map(letter).collect()
}

/// The prefix of a form.
pub(super) fn window_of(form: &[u8]) -> Option<u128> {
    windows(form).next().map(|(_, window)| window)
}

/// Every sequence of this many bytes of a text, and its position.
pub(super) fn windows(text: &[u8]) -> impl Iterator<Item = (usize, u128)> {
    let mut window = 0_u128;
    text.iter().enumerate().filter_map(move |(at, byte)| {
        window = window << 8 | u128::from(*byte);
        (at + 1).checked_sub(SHORTEST).map(|from| (from, window))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_other_encoders() {
        let text = |offset| String::from_utf8(base64(b"Many hands", offset, STANDARD)).unwrap();
        // TWFueSBoYW5kcw==, then with one byte before it, then with two.
        assert_eq!(text(0), "TWFueSBoYW5kc");
        assert_eq!(text(1), "1hbnkgaGFuZH");
        assert_eq!(text(2), "NYW55IGhhbmRz");
    }

    #[test]
    fn hex_secret_has_base64_of_bytes() {
        let has = |secret, form: &str| of(secret).iter().any(|(_, of)| of == form.as_bytes());
        // wP/uAMD/7hHA/+4iwP/uMw==
        let secret = "c0ffee00c0ffee11c0ffee22c0ffee33";
        assert!(has(secret, "wP/uAMD/7hHA/+4iwP/uM"));
        assert!(has(secret, "wP_uAMD_7hHA_-4iwP_uM"));
        assert!(
            of("no hex, but as long as")
                .iter()
                .all(|(name, _)| *name != "its bytes in base64")
        );
    }

    #[test]
    fn window_has_only_its_bytes() {
        let text = b"0123456789abcdefgh";
        let found: Vec<_> = windows(text).collect();
        assert_eq!(found.len(), 3);
        for (at, window) in found {
            assert_eq!(window.to_be_bytes(), text[at..at + 16]);
        }
        assert_eq!(window_of(b"short"), None);
    }
}
