//! Compares a response with the list's expectation.

use serde_json::Value;

/// The first difference between a response and its expectation. None if it fits. In the expectation `"<id>"` matches any
/// 128 bits in hex, `"<time>"` any instant, `"<count>"` any number that was seeded by the clock, `"<number>"`
/// any whole number, `"<text>"` any text, `"> 7"` any larger number, and `"~ part"` any text with this part in it. Everything
/// else must be equal.
pub fn misfit(expected: &Value, got: &Value) -> Option<String> {
    let differs = || Some(format!(": expected {expected}, got {got}"));
    match (expected, got) {
        (Value::String(kind), _)
            if ["<", "> ", "~ "]
                .iter()
                .any(|start| kind.starts_with(start)) =>
        {
            if is_a(kind, got) {
                None
            } else {
                differs()
            }
        }
        (Value::Object(expected), Value::Object(got)) => {
            if let Some(name) = expected.keys().find(|name| !got.contains_key(*name)) {
                return Some(format!(".{name}: is missing"));
            }
            if let Some(name) = got.keys().find(|name| !expected.contains_key(*name)) {
                return Some(format!(".{name}: is not in the contract"));
            }
            expected.iter().find_map(|(name, expected)| {
                misfit(expected, &got[name]).map(|misfit| format!(".{name}{misfit}"))
            })
        }
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            let mut pairs = expected.iter().zip(got).enumerate();
            pairs.find_map(|(n, (expected, got))| {
                misfit(expected, got).map(|misfit| format!("[{n}]{misfit}"))
            })
        }
        _ if expected == got => None,
        _ => differs(),
    }
}

fn is_a(kind: &str, got: &Value) -> bool {
    let text = got.as_str().unwrap_or_default();
    match kind {
        "<id>" => text.len() == 32 && text.bytes().all(|c| c.is_ascii_hexdigit()),
        "<time>" => is_instant(text.as_bytes()),
        // At least milliseconds since 1970 in this century, and exact in every JSON reader.
        "<count>" => got
            .as_u64()
            .is_some_and(|n| (1_000_000_000_000..1 << 53).contains(&n)),
        "<number>" => got.is_u64(),
        "<text>" => !text.is_empty(),
        _ => match (kind.strip_prefix("> "), kind.strip_prefix("~ ")) {
            (Some(least), _) => got.as_u64() > least.parse().ok(),
            (_, Some(part)) => text.contains(part),
            _ => false,
        },
    }
}

/// Whether it is an instant in the functions' format.
fn is_instant(text: &[u8]) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000Z";
    let fits = |(form, byte): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    };
    text.len() == FORM.len() && FORM.iter().zip(text).all(fits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholder_fits_own_kind_only() {
        let kinds = ["<id>", "<time>", "<count>", "<number>"];
        let samples = [
            json!("5d0c2a9be1f34768a2b7c45d9e8f1032"),
            json!("2026-11-21T03:00:00.123Z"),
            json!(1_795_230_000_125_u64),
            json!(7),
        ];
        for (n, kind) in kinds.iter().enumerate() {
            for (m, sample) in samples.iter().enumerate() {
                let fits = misfit(&json!(kind), sample).is_none();
                // A count is a number too.
                assert_eq!(fits, n == m || (n, m) == (3, 2), "{kind} {sample}");
            }
        }
        for (kind, sample, fits) in [
            ("<text>", json!(""), false),
            ("> 7", json!(7), false),
            ("> 7", json!(8), true),
            ("> 7", json!("8"), false),
            ("~ b", json!("abc"), true),
            ("~ b", json!("ac"), false),
        ] {
            assert_eq!(
                misfit(&json!(kind), &sample).is_none(),
                fits,
                "{kind} {sample}"
            );
        }
        assert!(misfit(&json!("<else>"), &json!("<else>")).is_some());
    }

    #[test]
    fn it_says_where() {
        let expected = json!({"a": [{"b": 1}]});
        for (got, says) in [
            (json!({"a": [{"b": 2}]}), ".a[0].b: expected 1, got 2"),
            (json!({"a": [{}]}), ".a[0].b: is missing"),
            (
                json!({"a": [{"b": 1, "c": 1}]}),
                ".a[0].c: is not in the contract",
            ),
            (json!({"a": []}), r#".a: expected [{"b":1}], got []"#),
        ] {
            assert_eq!(misfit(&expected, &got).as_deref(), Some(says));
        }
        assert_eq!(misfit(&expected, &expected), None);
    }
}
