//! Masks ids and times in a text, so that two responses can be compared byte by byte.

/// Replaces every id, instant and clock number by a placeholder, also in a text
/// within the text. Values that also occur in `known`, such as the event, stay.
#[must_use]
pub fn masked(text: &str, known: &str) -> String {
    let bytes = text.as_bytes();
    let (mut masked, mut copied, mut at) = (String::with_capacity(text.len()), 0, 0);
    while at < bytes.len() {
        let Some((length, placeholder)) = changing(bytes, at) else {
            at += 1;
            continue;
        };
        // All replaced parts are ASCII, so these are character boundaries.
        if !known.contains(&text[at..at + length]) {
            masked.push_str(&text[copied..at]);
            masked.push_str(placeholder);
            copied = at + length;
        }
        at += length;
    }
    masked.push_str(&text[copied..]);
    masked
}

/// The varying part that begins here: its length and its placeholder.
fn changing(bytes: &[u8], at: usize) -> Option<(usize, &'static str)> {
    if at > 0 && bytes[at - 1].is_ascii_alphanumeric() {
        return None;
    }
    let rest = &bytes[at..];
    if let Some(length) = instant(rest) {
        return Some((length, "<time>"));
    }
    let run = |of: fn(&u8) -> bool| rest.iter().take_while(|byte| of(byte)).count();
    let (hex, digits) = (run(u8::is_ascii_hexdigit), run(u8::is_ascii_digit));
    if hex == 32 && !rest.get(hex).is_some_and(u8::is_ascii_alphanumeric) {
        return Some((hex, "<id>"));
    }
    // Longer than a digest.
    if hex > 64 {
        return Some((hex, "<cursor>"));
    }
    let lapsed = ["lapsed_ms\":", "lapsed_ms\\\":"];
    let lapsed = lapsed
        .iter()
        .any(|name| bytes[..at].ends_with(name.as_bytes()));
    // The clock has thirteen digits until the year 2286.
    (digits == 13 || (lapsed && digits > 0)).then_some((digits, "<number>"))
}

/// The length of the instant that begins here, in the functions' format. None if there is no instant.
pub(super) fn instant(bytes: &[u8]) -> Option<usize> {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000Z";
    let fits = |(form, byte): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    };
    (bytes.len() >= FORM.len() && FORM.iter().zip(bytes).all(fits)).then_some(FORM.len())
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn what_changes_from_run_to_run_is_masked_and_nothing_else() {
        let answer = r#"{"id":"5d0c2a9be1f34768a2b7c45d9e8f1032","at":"2026-11-21T03:00:00.123Z","n":1795230000125,"ttl":300}"#;
        let expected = r#"{"id":"<id>","at":"<time>","n":<number>,"ttl":300}"#;
        assert_eq!(masked(answer, ""), expected);
        // Once more as a text within a text.
        let quoted = serde_json::Value::from(answer).to_string();
        assert_eq!(
            masked(&quoted, ""),
            serde_json::Value::from(expected).to_string()
        );
        assert_eq!(
            masked(
                r#""lapsed_ms":7,"wait_seconds":301,"é":"x1795230000125""#,
                ""
            ),
            r#""lapsed_ms":<number>,"wait_seconds":301,"é":"x1795230000125""#
        );
    }

    #[test]
    fn what_is_in_the_event_is_left_alone() {
        let answer = r#"{"n":1795230000125,"m":1795230000126}"#;
        assert_eq!(
            masked(answer, r#"{"n":1795230000125}"#),
            r#"{"n":1795230000125,"m":<number>}"#
        );
    }
}
