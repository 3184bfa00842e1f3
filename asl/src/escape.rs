//! Makes text of others safe to print on a terminal or in a log.
//!
//! A name in a definition, a file's name or a key in a table may contain commands for the terminal, or characters that reverse or
//! hide the text next to them. It may also end the line and begin another one, which a build service may read as a command.
//! Everything that is printed goes through here.

use std::fmt::Write as _;

/// A text on one line. Characters are escaped by their numbers, as in JSON, if they are invisible, if they move, hide or reverse the
/// text next to them, or if they begin a command of a build service. A line of JSON means the same afterwards.
///
/// ```
/// use leasehold_asl::plain;
///
/// assert_eq!(plain("worker 7, Größe ✓"), "worker 7, Größe ✓");
/// assert_eq!(plain("a\u{1b}[2J\r\nb\u{202e}"), "a\\u001b[2J\\u000d\\u000ab\\u202e");
/// assert_eq!(plain(" ::error::x ##[group]"), " \\u003a:error::x \\u0023#[group]");
/// ```
#[must_use]
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let begin = text.len() - text.trim_start().len();
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        let is_command = (at == begin && rest.starts_with("::")) || is_marker(rest);
        if is_command || is_unseen(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The same for a text of several lines, with tabs, such as a part of a file. A value inserted into a line must be [`plain`]
/// already, so that it cannot end that line.
#[must_use]
pub fn plain_lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let end = ["\r\n", "\n"].iter().find(|end| line.ends_with(**end));
        let end = end.copied().unwrap_or_default();
        let parts = line[..line.len() - end.len()].split('\t').map(plain);
        shown.extend([&parts.collect::<Vec<_>>().join("\t"), end]);
    }
    shown
}

/// `##[error]` and `##vso[…]` count anywhere in a line, `::error::` only at its beginning.
fn is_marker(rest: &str) -> bool {
    let word = rest.strip_prefix("##");
    word.is_some_and(|word| {
        let letters = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        letters.starts_with('[')
    })
}

/// Control characters (C0, DEL, C1), and Unicode's line ends, direction marks, and characters without width or glyph.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_become_numbers() {
        let all = (0..=0x1f)
            .chain(0x7f..=0x9f)
            .chain([0xad, 0x61c, 0x180e])
            .chain(0x200b..=0x200f)
            .chain(0x2028..=0x202e)
            .chain(0x2060..=0x206f)
            .chain([0xfeff, 0xfff9])
            .chain([0xe0001, 0xe0041, 0xe0100]);
        for c in all.map(|number| char::from_u32(number).unwrap()) {
            let shown = plain(&format!("a{c}b"));
            assert!(shown.is_ascii() && shown.starts_with("a\\u"), "{shown}");
            // A reader of the JSON gets the original character, however it was escaped.
            let read: String = serde_json::from_str(&format!("\"{shown}\"")).unwrap();
            assert_eq!(read, format!("a{c}b"));
            assert_eq!(plain(&shown), shown);
        }
        let seen = "Größe ✓ العربية עברית 日本語 é 🙂 a:: # ## [x] \\u001b";
        assert_eq!(plain(seen), seen);
    }

    #[test]
    fn build_service_commands_are_escaped() {
        assert_eq!(plain("::error::x"), "\\u003a:error::x");
        assert_eq!(plain("\u{a0} ::x"), "\u{a0} \\u003a:x");
        assert_eq!(plain("arn:aws:states:::lambda"), "arn:aws:states:::lambda");
        assert_eq!(plain("a ##vso[x]"), "a \\u0023#vso[x]");
        assert_eq!(plain("###[x]"), "#\\u0023#[x]");
        assert_eq!(plain(&plain("::a ##[b]")), plain("::a ##[b]"));
    }

    #[test]
    fn lines_stay_lines() {
        let text = "a\tb\r\n\t::c\n\rd\u{9b}\n";
        assert_eq!(plain_lines(text), "a\tb\r\n\t\\u003a:c\n\\u000dd\\u009b\n");
        assert_eq!(plain_lines("a\r"), "a\\u000d");
    }
}
