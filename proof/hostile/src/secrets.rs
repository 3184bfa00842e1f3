//! Secrets that can be recognised: all of them contain one mark, so that one search finds any of them.

/// What every secret contains. Its letters stand in no word of ours.
pub const MARK: &str = "zQ7xKv9wJ3hunter2";

/// A mark for any value that somebody gave: no secret, and yet a refusal does not repeat it.
pub const GIVEN: &str = "gIvEn4vAlUe";

/// A secret made of what a sample says in its place, for a row and for an event alike.
#[must_use]
pub fn secret(sample: &str) -> String {
    // Neither the first nor the last: a secret that is cut is found as well.
    let (before, after) = sample.split_at(sample.len().min(4));
    format!("{before}{MARK}{after}")
}

const SECRETS: [&str; 2] = ["lease_id", "task_token"];

/// Whether the value of this field must never be shown.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    SECRETS.contains(&name)
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

/// Whether the mark is in this JSON where everybody may see it: anywhere but as the value of a secret's field. A case
/// writes down whatever we look for, and a broken text may make a secret's value another field's.
#[must_use]
pub fn is_published(json: &str) -> bool {
    let mut rest = json.to_owned();
    for name in SECRETS {
        for field in [format!("\"{name}\":\""), format!("\"{name}\":{{\"S\":\"")] {
            let parts: Vec<&str> = rest.split(&field).collect();
            let (first, values) = parts.split_first().expect("one part at least");
            let after = |value: &&str| {
                value
                    .split_once('"')
                    .map_or("", |(_, after)| after)
                    .to_owned()
            };
            rest = values.iter().fold((*first).to_owned(), |all, value| {
                all + "\"\"" + &after(value)
            });
        }
    }
    found_in(&rest).is_some()
}

/// Whether a field of this JSON is called by a value, as after damage it may be.
#[must_use]
pub fn is_a_name(json: &[u8], value: &str) -> bool {
    let json = String::from_utf8_lossy(json);
    let mut after = json.split(value).skip(1);
    after.any(|after| {
        after
            .split_once('"')
            .is_some_and(|(_, after)| after.trim_start().starts_with(':'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_found_in_any_form() {
        let hex: Vec<_> = MARK.bytes().map(|byte| format!("{byte:02x}")).collect();
        let hex = hex.concat();
        for text in [
            format!("ab{MARK}cd"),
            format!("6162{hex}63"),
            hex.to_uppercase(),
            // In base64, alone, after one letter and after two.
            "elE3eEt2OXdKM2h1bnRlcjI=".to_owned(),
            "YXpRN3hLdjl3SjNodW50ZXIy".to_owned(),
            "YWJ6UTd4S3Y5d0ozaHVudGVyMg==".to_owned(),
        ] {
            assert!(found_in(&text).is_some(), "{text}");
        }
        assert_eq!(found_in("zQ7xKv9wJ3hunter"), None);
    }

    #[test]
    fn secret_outside_its_field_is_found() {
        let own = format!(r#"{{"lease_id":"a{MARK}b","x":{{"task_token":"{MARK}"}}}}"#);
        assert!(!is_published(&own));
        let item = format!(r#"{{"lease_id":{{"S":"{MARK}"}}}}"#);
        assert!(!is_published(&item));
        assert!(is_published(&own.replace("lease_id", "holder")));
        assert!(is_a_name(br#"{"gIvEn": 1}"#, "gIvEn") && !is_a_name(br#"{"a":"gIvEn"}"#, "gIvEn"));
    }
}
