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
            (
                "docs/reference/check-rules.md",
                "has a timeout",
                "has a time limit",
            ),
        ],
    ),
    (
        "help, messages, docs of the code, comments and descriptions have none of the words that pages for users do not write",
        one_language,
        &[
            // Help, which the docs of the arguments are; a message; docs that run over the end of a line; a schema's description.
            (
                "cli/src/arguments.rs",
                "/// End a lease",
                "/// Give back a lease",
            ),
            (
                "lib/src/queue/serve.rs",
                "\"a waiter could not be notified",
                "\"a waiter could not be told",
            ),
            (
                "lib/src/queue/wait.rs",
                "nobody was notified.\n",
                "nobody\n    /// stands in\n    /// line.\n",
            ),
            (
                "functions/acquire/src/main.rs",
                "/// Cooldown:",
                "/// Whoever:",
            ),
            (
                "asl/src/check/rules.md",
                "has a timeout",
                "has a time limit",
            ),
            (
                PYTHON,
                "\"\"\"The parts of a fenced write",
                "\"\"\"The parts of a guarded write",
            ),
            (PYTHON, "# everybody who may answer", "# whoever may answer"),
            (
                "clients/typescript/leasehold.ts",
                "* The parts of a fenced write",
                "* The parts of a guarded write",
            ),
            (
                "clients/typescript/leasehold.ts",
                "// everybody who may answer",
                "// whoever may answer",
            ),
            (
                "template.yaml",
                "when its wait has ended",
                "when its wait is over",
            ),
            (
                "local/template.json",
                "\"Description\": \"Leasehold:",
                "\"Description\": \"Whoever:",
            ),
            (
                "examples/terraform/leasehold/variables.tf",
                "description = \"",
                "description = \"Whoever: ",
            ),
            (
                "examples/one-state/order.asl.json",
                "extending verifies",
                "extending proves",
            ),
            (
                "asl/corpus/weave/01-two-steps.woven.asl.json",
                "reached its timeout",
                "reached its time limit",
            ),
        ],
    ),
];

const PYTHON: &str = "clients/python/leasehold/__init__.py";

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

/// Pages for people who change the code speak in its own words.
fn is_for_users(path: &str) -> bool {
    let places = ["guides", "operate", "reference", "explain"];
    let is_page = places
        .iter()
        .any(|place| path.starts_with(&format!("docs/{place}/")));
    let is_first = ["README.md", "docs/get-started.md", "docs/choose.md"].contains(&path);
    is_page || is_first
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
            wrong.extend(unwanted(path, sentence, is_for_users(path)));
        }
    }
    wrong
}

fn one_language(files: &Files) -> Vec<String> {
    let texts = texts(files);
    let wrong = texts.iter().flat_map(|(path, text)| {
        let prose: Vec<&str> = text.split('`').step_by(2).collect();
        let prose = prose.join(" code ");
        // A word with a variable is an expression, and `Prove` is what many machines call a state.
        let words = prose.split_whitespace().filter(|word| {
            !word.contains(['$', '{']) && word.trim_end_matches(['.', ',', ':']) != "Prove"
        });
        let words: Vec<&str> = words.collect();
        unwanted(path, &words.join(" "), true)
    });
    wrong.collect()
}

/// The phrases in a text that nobody writes there: to users those of [`OURS`] besides.
fn unwanted(path: &str, text: &str, is_for_users: bool) -> Vec<String> {
    let lower = text.to_lowercase();
    let ours = OURS.iter().filter(|_| is_for_users);
    let found = UNWANTED
        .iter()
        .chain(ours)
        .filter(|(phrase, _)| has_words(&lower, phrase));
    found
        .map(|(phrase, better)| format!("{path}: {phrase:?} (write: {better}) in: {text}"))
        .collect()
}

/// What users read beside the pages, without the tests, and where it stands.
fn texts(files: &Files) -> Vec<(&str, String)> {
    let read = files.all("", "").flat_map(|(path, text)| {
        let is_in = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
        let found = match path.rsplit('.').next() {
            Some("rs") if is_in(&CODE) && !path.contains("/test") => rust(text),
            Some("py") if is_in(&["clients/"]) => python(text),
            Some("ts") if is_in(&["clients/", "examples/"]) => blocks(text, &["//", "/**", "*"]),
            Some("json" | "yaml" | "tf") if is_in(&TEMPLATES) => blocks(text, &DESCRIBING),
            _ if path == "asl/src/check/rules.md" => sentences(text),
            _ => Vec::new(),
        };
        found.into_iter().map(move |text| (path, text))
    });
    read.collect()
}

const CODE: [&str; 7] = [
    "lib/src/",
    "lib/lambda/src/",
    "functions/",
    "cli/src/",
    "asl/src/",
    "local/program/src/",
    "proof/model/src/main.rs",
];

/// Those in local/ are the translated ones, which have each description on one line.
const TEMPLATES: [&str; 8] = [
    "template.yaml",
    "templates/",
    "local/template.json",
    "local/minimal.json",
    "local/monitoring.json",
    "local/samples.json",
    "examples/",
    "asl/corpus/",
];

/// How a line of a template or a state machine begins that says something to people.
const DESCRIBING: [&str; 9] = [
    "#",
    "\"Comment\":",
    "\"Cause\":",
    "\"Description\":",
    "\"AlarmDescription\":",
    "Comment:",
    "Cause:",
    "Description:",
    "description ",
];

/// Docs of the code, and its string literals that are more than a word.
fn rust(text: &str) -> Vec<String> {
    let tests = "\n#[cfg(test)]\nmod tests {";
    let code = text.split(tests).next().unwrap_or_default();
    // No comments, and no quote that ends no literal: an escaped one, and those of a pattern.
    let is_code = |line: &&str| !line.trim_start().starts_with("//") && !line.contains("r##");
    let lines: Vec<&str> = code.lines().filter(is_code).collect();
    let plain = ["\\\\", "\\\"", "'\"'", "\\n", "\\"]
        .iter()
        .fold(lines.join("\n"), |code, escaped| code.replace(escaped, " "));
    let literals = plain.split('"').skip(1).step_by(2).map(str::trim);
    let sentences = literals.filter(|literal| literal.contains(' '));
    let docs = blocks(code, &["///", "//!"]).into_iter();
    docs.chain(sentences.map(str::to_owned)).collect()
}

/// Comments and docstrings.
fn python(text: &str) -> Vec<String> {
    let docstrings = text.split("\"\"\"").skip(1).step_by(2);
    let comments = blocks(text, &["#"]).into_iter();
    comments.chain(docstrings.map(str::to_owned)).collect()
}

/// What follows one of these marks at the beginning of a line, joined with the next line's: a sentence may run over several.
fn blocks(text: &str, marks: &[&str]) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines().map(str::trim) {
        match marks.iter().find_map(|mark| line.strip_prefix(mark)) {
            Some(said) => blocks.last_mut().unwrap().extend([" ", said]),
            None => blocks.push(String::new()),
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
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
