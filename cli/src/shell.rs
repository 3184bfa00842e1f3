//! Words of a command that a person copies into a shell.

/// A word, in single quotes unless all its characters are safe.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, wanted) in [
            ("orders/42", "orders/42"),
            ("order 42", "'order 42'"),
            ("a'b", r"'a'\''b'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), wanted);
        }
    }
}
