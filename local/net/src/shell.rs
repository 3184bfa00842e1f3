//! Words of a shell.

/// A word that a shell reads as this text: in single quotes unless all its characters are safe.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, wanted) in [
            ("orders/42", "orders/42"),
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("", "''"),
            ("order 42", "'order 42'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
        ] {
            assert_eq!(quoted(word), wanted);
        }
    }
}
