//! The documents for users are short where they promise it, and plain to read.

use crate::{Files, Rule, SeededEdit};

pub const RULES: &[(&str, Rule, &[SeededEdit])] = &[
    (
        "a page of docs/ opens with who it is for, and ends with what to read next",
        framed,
        &[
            ("docs/get-started.md", "This page is", "It is"),
            ("docs/guides/with-lease.md", "\nRead next: ", "\nSee: "),
        ],
    ),
    (
        "README.md fits on 150 lines and 1,000 words",
        length,
        &[("README.md", "\n", "\n\n")],
    ),
    (
        "a page for users has sentences of under 22 words on average, and none of the words that we do not write",
        plain,
        &[
            ("docs/get-started.md", ". ", ", and it is "),
            (
                "README.md",
                "Acquire is idempotent",
                "In vain, acquire is idempotent",
            ),
        ],
    ),
];

const README_LINES: usize = 150;
const README_WORDS: usize = 1_000;
/// Words of a sentence, on the average of a page.
const WORDS: usize = 22;

/// What nobody says to a reader: `( phrase, what to write )`.
const UNWANTED: [(&str, &str); 7] = [
    ("is told", "receives, or: the answer says"),
    ("in vain", "without effect"),
    ("comes free", "becomes free, is released"),
    ("come free", "become free, are released"),
    ("stands in line", "waits in the queue"),
    ("in line", "in the queue"),
    ("who finds", "a caller that finds"),
];

fn length(files: &Files) -> Vec<String> {
    let readme = files.text("README.md");
    let is_word = |text: &&str| text.contains(char::is_alphanumeric);
    let lines = readme.lines().count();
    let words = readme.split_whitespace().filter(is_word).count();
    let long = lines > README_LINES || words > README_WORDS;
    long.then(|| format!("README.md has {lines} lines and {words} words; move the rest to docs/"))
        .into_iter()
        .collect()
}

fn framed(files: &Files) -> Vec<String> {
    // The index is what to read next.
    let pages = files.all("docs/", ".md");
    let pages = pages.filter(|(path, _)| *path != "docs/README.md");
    let wrong = pages.filter(|(_, text)| {
        let opens = text.lines().take(4).any(|line| line.contains("This page "));
        let last = text.trim_end().rsplit("\n\n").next();
        !opens || !last.is_some_and(|last| last.starts_with("Read next: "))
    });
    wrong.map(|(path, _)| path.to_owned()).collect()
}

fn plain(files: &Files) -> Vec<String> {
    let pages = files
        .all("", "README.md")
        .filter(|(path, _)| *path == "README.md")
        .chain(files.all("docs/", ".md"))
        // Every row is one promise in the protocol's words.
        .filter(|(path, _)| *path != "docs/PROOFS.md");
    let mut wrong = Vec::new();
    for (path, text) in pages {
        let sentences = sentences(text);
        let words: usize = sentences
            .iter()
            .map(|one| one.split_whitespace().count())
            .sum();
        if words > WORDS * sentences.len() {
            wrong.push(format!(
                "{path}: {words} words in {} sentences, more than {WORDS} each",
                sentences.len()
            ));
        }
        for sentence in &sentences {
            let lower = format!(" {}", sentence.to_lowercase());
            for (phrase, better) in UNWANTED {
                if lower.contains(&format!(" {phrase}")) {
                    wrong.push(format!(
                        "{path}: {phrase:?} (write: {better}) in: {sentence}"
                    ));
                }
            }
        }
    }
    wrong
}

/// The prose of a page: no code, tables, headings or comments; code within a sentence counts as one word.
fn sentences(text: &str) -> Vec<String> {
    let mut prose = String::new();
    let mut code = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") {
            code = !code;
        }
        let not_prose = line.starts_with(['#', '|'])
            || ["```", "<!--"].iter().any(|mark| line.starts_with(mark));
        if code || not_prose || line.is_empty() {
            // What is left open by a list or a block ends there.
            prose.push_str("\n\n");
            continue;
        }
        let starts_item = line.starts_with("* ") || line.starts_with("- ");
        prose.push_str(if starts_item { "\n\n" } else { " " });
        prose.push_str(line.trim_start_matches(['*', '-', '>', ' ']));
    }
    let plain: String = prose
        .split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 0 { part } else { "code" })
        .collect();
    let sentences = plain
        .split("\n\n")
        .flat_map(|paragraph| paragraph.split_inclusive(". "));
    sentences
        .map(|sentence| sentence.trim().to_owned())
        .filter(|sentence| !sentence.is_empty())
        .collect()
}
