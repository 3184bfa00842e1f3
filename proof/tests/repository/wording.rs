//! The documents for users are short where they promise it, and plain to read.

use crate::{Files, Rule, SeededEdit};

pub const RULES: &[(&str, Rule, &[SeededEdit])] = &[
    (
        "a page of docs/ opens with who it is for, and ends with what to read next",
        framed,
        &[
            ("docs/get-started.md", "This page is", "It is"),
            ("docs/guides/cron.md", "\nRead next: ", "\nSee: "),
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
            ("docs/explain/how-it-works.md", ". ", ", and it is "),
            (
                "README.md",
                "Acquire is idempotent",
                "In vain, acquire is idempotent",
            ),
            (
                "docs/operate/stuck-key.md",
                "that nobody releases",
                "that nobody gives back",
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

/// What the pages for users do not say any more: one term for one thing, and the terms of the field.
const OURS: [(&str, &str); 35] = [
    ("told", "notified, or: the response says"),
    ("tells", "notifies, or: says"),
    ("hand over", "grant to the next waiter"),
    ("hands over", "grants to the next waiter"),
    ("hand-over", "a grant to the next waiter"),
    ("handed over", "granted to the next waiter"),
    ("its turn", "is granted the key"),
    ("sent away", "superseded"),
    ("send away", "supersede"),
    ("sends away", "supersedes"),
    ("give back", "release"),
    ("gives back", "releases"),
    ("given back", "released"),
    ("through a key", "under a lease"),
    ("through the key", "under the key"),
    ("through keys", "under leases"),
    (
        "whoever",
        "the caller, the waiter, the holder, everybody who",
    ),
    ("time-out", "timeout"),
    ("time limit", "timeout"),
    ("grace time", "grace period"),
    ("reap's grace", "the grace period"),
    ("pace", "cooldown"),
    ("not twice", "a cooldown"),
    ("stays closed", "is in a cooldown"),
    ("guarded write", "fenced write"),
    ("guarded", "fenced, or: has a redrive check"),
    ("guards", "fences"),
    ("guard the", "fence the"),
    ("prove", "verify"),
    ("proves", "verifies"),
    ("proven", "verified"),
    ("look up", "check the status"),
    ("is over", "has ended"),
    ("the answer", "the response"),
    ("lost answer", "lost response"),
];

/// Pages for people who change the code speak in its own words, and what programs print stays as it is printed.
fn is_for_users(path: &str) -> bool {
    let places = ["guides", "operate", "reference", "explain"];
    let is_page = places
        .iter()
        .any(|place| path.starts_with(&format!("docs/{place}/")));
    let is_first = ["README.md", "docs/get-started.md", "docs/choose.md"].contains(&path);
    let generated = [
        "docs/operate/command-line.md",
        "docs/reference/check-rules.md",
    ];
    (is_page || is_first) && !generated.contains(&path)
}

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
        .filter(|(path, _)| *path != "docs/contributing/proofs.md");
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
            let ours = OURS.iter().filter(|_| is_for_users(path));
            for (phrase, better) in UNWANTED.iter().chain(ours) {
                if has_words(&lower, phrase) {
                    wrong.push(format!(
                        "{path}: {phrase:?} (write: {better}) in: {sentence}"
                    ));
                }
            }
        }
    }
    wrong
}

/// The words stand there as whole words.
fn has_words(text: &str, words: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    text.match_indices(words).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + words.len()..].chars().next();
        !before.is_some_and(is_letter) && !after.is_some_and(is_letter)
    })
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
