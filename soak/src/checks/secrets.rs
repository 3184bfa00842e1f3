//! S11: no lease id and no task token in what anybody reads.

use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;

use crate::violation::Violation;

/// S11: whether any secret is in one of these texts, as it is, in hex, or in base64 wherever it begins there.
///
/// # Errors
/// What the search itself says, for more secrets than it can look for.
pub fn secrets<'a>(
    secrets: &BTreeSet<String>,
    texts: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Result<Vec<Violation>, aho_corasick::BuildError> {
    let mut wanted: Vec<String> = Vec::new();
    for secret in secrets {
        wanted.push(secret.clone());
        wanted.push(hex(secret));
        wanted.extend((0..3).map(|shift| base64(secret.as_bytes(), shift)));
        // A lease id is itself hex: its bytes in base64.
        if let Some(bytes) = bytes(secret) {
            wanted.extend((0..3).map(|shift| base64(&bytes, shift)));
        }
    }
    let search = AhoCorasick::builder()
        .ascii_case_insensitive(false)
        .build(&wanted)?;
    let mut violations = Vec::new();
    for (about, text) in texts {
        if let Some(found) = search.find(text) {
            let from = found.start().saturating_sub(120);
            let context = String::from_utf8_lossy(&text[from..found.start()]).into_owned();
            let what = format!("a secret was written after {context:?}");
            violations.push(Violation::new("S11", about, what));
        }
    }
    Ok(violations)
}

fn hex(text: &str) -> String {
    let digit = |n| char::from_digit(n, 16).unwrap_or_default();
    let digits = |byte: u8| [digit(u32::from(byte) / 16), digit(u32::from(byte) % 16)];
    text.bytes().flat_map(digits).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

/// The digits in the middle of what these bytes are in base64 if so many others come before: those at both ends
/// depend on the neighbours.
fn base64(bytes: &[u8], shift: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // The first whole group begins where three bytes are at hand.
    let whole = &bytes[(3 - shift) % 3..];
    let groups = whole.chunks_exact(3);
    groups
        .flat_map(|group| {
            let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
            [18, 12, 6, 0].map(|by| char::from(DIGITS[(bits >> by & 63) as usize]))
        })
        .collect()
}
