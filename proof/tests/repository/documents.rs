//! What documents say of the files beside them.

use crate::{Files, Rule, SeededEdit};
use serde_json::Value;
use similar::TextDiff;
use std::collections::{BTreeMap, BTreeSet};

pub const RULES: &[(&str, Rule, &[SeededEdit])] = &[
    (
        "every promise and every fault has one row, and the row's tests exist",
        promises,
        &[
            // A row less; the last ones are known by what else names them.
            (PROOFS, "\n| S14 |", "\n| |"),
            (PROOFS, "\n| L6 |", "\n| |"),
            (PROOFS, "\n| F40 |", "\n| |"),
            (PROOFS, "\n| F47 |", "\n| |"),
            (PROOFS, "\n| X32 |", "\n| |"),
            (PROOFS, "\n| K10 |", "\n| |"),
            (PROOFS, "\n| M10 |", "\n| |"),
            (PROOFS, "\n| P22 |", "\n| |"),
            (PROOFS, "\n| G21 |", "\n| |"),
            (PROOFS, "\n| F17b |", "\n| |"),
            // Two rows of one name.
            (PROOFS, "\n| F46 |", "\n| F37 |"),
            (PROOFS, "\n| F38 |", "\n| F37a |"),
            ("proof/model/src/invariants.rs", "S14", "S16"),
            (
                PROOFS,
                "`wrong_stores_are_refused`",
                "`a_wrong_store_is_refused`",
            ),
            (
                "proof/tests/demo.rs",
                "#[test]\nfn demo_writes",
                "#[test]\n#[ignore = \"slow\"]\nfn demo_writes",
            ),
        ],
    ),
    (
        "what PROOFS says of when its targets are run is so",
        shown,
        &[
            ("Makefile", "asl types leases", "asl leases"),
            (
                ".ci/run",
                "step make -C proof instructions INSTRUCTIONS=--quick\n",
                "",
            ),
            (".ci/run", "step make package\n", ""),
            (
                ".ci/run",
                "MODEL=--quick\n[",
                "MODEL=--quick\nstep make package\n[",
            ),
            (PROOFS, "`mutants`, which", "`model`, which"),
            (PROOFS, "below `proof/comparison`", "below `proof/compare`"),
            (RELEASE, "- run: make dist-test\n", ""),
        ],
    ),
    (
        "every link in a document leads to a file",
        links,
        &[("README.md", "](docs/", "](doc/")],
    ),
    (
        "every page that code, a message or a template names exists",
        named_pages,
        &[
            (
                "cli/src/exit.rs",
                "docs/reference/permissions.md",
                "docs/permissions.md",
            ),
            (
                "template.yaml",
                "docs/operate/alarms.md",
                "docs/how-to/runbook.md",
            ),
        ],
    ),
    (
        "what README and the choice of a way cost is what the page of costs says",
        dollars,
        &[
            ("docs/reference/cost.md", "**$8.98**", "**$8.99**"),
            ("README.md", "$8.21 a month", "$8.22 a month"),
        ],
    ),
    (
        "every link to a part of a document leads to a heading",
        anchors,
        &[
            (
                "docs/contributing/design.md",
                "\n## Invariants",
                "\n## What holds",
            ),
            ("README.md", "#a-lock-for-a-program", "#bugs-of-others"),
        ],
    ),
    (
        "every page below docs/ is in the contents, docs/README.md",
        contents,
        &[(
            "docs/README.md",
            "](contributing/choices.md)",
            "](contributing/design.md)",
        )],
    ),
    (
        "every row of a table has as many cells as its head",
        cells,
        &[(
            "docs/reference/configuration.md",
            "| `LEASE_QUEUE_CAP` |",
            "|",
        )],
    ),
    (
        "every picture below docs/ is shown by a page",
        pictures,
        &[("README.md", "](docs/pictures/timeline.svg)", "")],
    ),
    (
        "every test that a document names in brackets exists, in the file that it links to",
        bracketed,
        &[
            (
                "docs/contributing/design.md",
                "`spent_request_is_never_granted`",
                "`a_spent_request_is_ever_granted_again`",
            ),
            (
                "docs/explain/guarantees.md",
                "[`table_does_as_pure_function_says`]",
                "[`the_table_does_it`]",
            ),
        ],
    ),
    (
        "every error of AWS that is known by name was recorded or is a question of an hour on AWS",
        names_of_aws,
        &[
            (HOUR, "`Lambda.Unknown`", "`Lambda.Unknowable`"),
            (RECORDED, "`Sandbox.Timedout`", "`Sandbox.TimedOut`"),
            (
                "templates/statemachines/observe.asl.json",
                "\"Lambda.Unknown\"",
                "\"Lambda.Unheard\"",
            ),
        ],
    ),
    (
        "a Region is set for every tool that reads one",
        regions,
        &[(
            "docs/guides/deploy-and-alarms.md",
            " AWS_DEFAULT_REGION=us-east-1",
            "",
        )],
    ),
    (
        "every make target that a document names exists",
        make_targets,
        &[
            ("proof/Makefile", "\nreal:", "\nreals:"),
            ("tools/check.mk", "\ncdk:", "\ncdks:"),
        ],
    ),
    (
        "environment variables are the same in library, template and documents",
        environment,
        &[("lib/src/settings.rs", "\"LEASE_TABLE\"", "\"LEASE_TABLES\"")],
    ),
    (
        "a difference that an example shows is the one between its files",
        differences,
        &[(
            "examples/adopting/README.md",
            "+          \"wait_seconds\": 600,\n",
            "",
        )],
    ),
    (
        "the requests of pools and of a task that waits are those of their files",
        requests,
        &[
            (POOLS, "\"permits\": 10}", "\"permits\": 9}"),
            (WAITING, "\"wait_seconds\": 3600", "\"wait_seconds\": 60"),
        ],
    ),
    (
        "advisories that nobody could check fail the daily run on GitHub and are named elsewhere, and every lock is offered updates",
        advisories,
        &[
            (".ci/run", "NOT CHECKED", "CHECKED"),
            (UPDATES, "/proof/comparison", "/proof/comparisom"),
        ],
    ),
    (
        "what is fetched and built is what is locked",
        locked,
        &[
            ("Makefile", "--require-hashes ", ""),
            ("tools/tools.mk", "--require-hashes ", ""),
            ("Cargo.toml", "version = \"=", "version = \""),
            ("tools/asl/package-lock.json", "sha512-", "sha1-"),
        ],
    ),
];

const PROOFS: &str = "docs/contributing/proofs.md";
const POOLS: &str = "docs/guides/pools.md";
const WAITING: &str = "docs/guides/wait-for-the-result.md";
const RELEASE: &str = ".github/workflows/release.yml";
const UPDATES: &str = ".github/dependabot.yml";

/// A row of proofs.md: its number, and its tests as path and name.
type Row<'a> = (&'a str, Vec<(&'a str, &'a str)>);

/// The rows of proofs.md, and what is wrong with others.
fn rows(files: &Files) -> (Vec<Row<'_>>, Vec<String>) {
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    let lines = files.text(PROOFS).lines();
    for line in lines.filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let &[id, _, held] = &cells[..] else {
            wrong.push(format!("{PROOFS}: not three cells: {line}"));
            continue;
        };
        if id.is_empty() {
            continue;
        }
        let named: Vec<&str> = held.split('`').skip(1).step_by(2).collect();
        if named.is_empty() || !named.len().is_multiple_of(2) {
            wrong.push(format!("{PROOFS}: {id}: names no test"));
        }
        let pairs = named.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        rows.push((id, pairs.collect()));
    }
    (rows, wrong)
}

/// The number of a promise: `F17` of `F17b`, which is one of two promises of a feature.
fn number(id: &str) -> Option<(char, usize)> {
    let mut letters = id.chars();
    let kind = letters.next().filter(|kind| "SLFXKMPG".contains(*kind))?;
    let digits = letters.as_str();
    let digits = digits.trim_end_matches(|c: char| c.is_ascii_lowercase());
    Some((kind, digits.parse().ok()?))
}

/// Each promise has one row. Which there are say semantics.md, the other pages and the model, each of which names some; and no
/// number is left out.
fn promises(files: &Files) -> Vec<String> {
    let (rows, mut wrong) = rows(files);
    let mut parts = BTreeMap::<(char, usize), Vec<&str>>::new();
    for (id, pairs) in rows {
        match number(id) {
            Some(promise) => parts.entry(promise).or_default().push(id),
            None => wrong.push(format!("{PROOFS}: {id} is no number of a promise")),
        }
        for (path, name) in pairs {
            if !names(files, path, name) {
                wrong.push(format!("{PROOFS}: {id}: no {name} in {path}"));
            }
        }
    }
    let sources = files.all("proof/model/src/", ".rs").chain(documents(files));
    let words = sources.flat_map(|(_, text)| text.split(|c: char| !c.is_ascii_alphanumeric()));
    let mut last = BTreeMap::<char, usize>::new();
    for (kind, nth) in words.filter_map(number).chain(parts.keys().copied()) {
        let last = last.entry(kind).or_default();
        *last = nth.max(*last);
    }
    for promise in last
        .into_iter()
        .flat_map(|(kind, last)| (1..=last).map(move |nth| (kind, nth)))
    {
        let (kind, nth) = promise;
        let mut ids = parts.remove(&promise).unwrap_or_default();
        ids.sort_unstable();
        let lettered = (b'a'..).map(|part| format!("{kind}{nth}{}", char::from(part)));
        let is_one = ids == [format!("{kind}{nth}")];
        if !is_one && (ids.len() < 2 || !lettered.zip(&ids).all(|(due, id)| due == *id)) {
            wrong.push(format!("{PROOFS}: the rows of {kind}{nth} are {ids:?}"));
        }
    }
    wrong
}

/// proofs.md says when each target is run that proves a promise, and which tests `make test` does not run.
fn shown(files: &Files) -> Vec<String> {
    let (rows, _) = rows(files);
    let said = |start: &str| -> BTreeSet<&str> {
        let (_, rest) = files.text(PROOFS).split_once(start).unwrap_or_default();
        let point = rest.split("\n* ").next().unwrap_or_default();
        let point = point.split("\n\n").next().unwrap_or_default();
        point.split('`').skip(1).step_by(2).collect()
    };
    let by_night = said("\n* **Every night");
    let by_hand = said("\n* **By hand**");
    let (push, night) = files
        .text(".ci/run")
        .split_once("[ \"${1:-}\" = all ] || exit 0\n")
        .unwrap_or_default();
    let runs = |script: &str, make: &str| {
        script.lines().any(|line| {
            line.split_once(make).is_some_and(|(before, after)| {
                ["step ", "- run: "].contains(&before.trim_start())
                    && (after.is_empty() || after.starts_with(' '))
            })
        })
    };
    let makefile = files.text("Makefile").lines();
    let check = makefile.filter_map(|line| line.strip_prefix("check: "));
    let checked: BTreeSet<&str> = check.flat_map(|parts| parts.split(' ')).collect();
    let tests: BTreeSet<_> = rows.into_iter().flat_map(|(_, tests)| tests).collect();
    let mut wrong = Vec::new();
    for (path, target) in tests {
        let make = match path {
            "Makefile" => format!("make {target}"),
            "proof/Makefile" => format!("make -C proof {target}"),
            _ => {
                // Beside these directories all is built and run by `make test`.
                let place = ["proof/comparison", "tools"]
                    .into_iter()
                    .find(|place| path.starts_with(place));
                let is_built = [".rs", ".yaml"].iter().any(|end| path.ends_with(end));
                if place.map_or(!is_built, |place| !by_night.contains(place)) {
                    wrong.push(format!("{PROOFS}: does not say what runs {path}"));
                }
                continue;
            }
        };
        let is_part = path == "Makefile" && checked.contains(target);
        let by_push = runs(push, &make) || is_part && runs(push, "make -j3 -O check");
        // Of the model each push shows a part.
        let is_nightly = runs(night, &make) && (!by_push || target == "model");
        let at_release = !target.starts_with("dist") || runs(files.text(RELEASE), &make);
        let is_by_hand = !by_push && !is_nightly;
        if by_night.contains(target) != is_nightly
            || by_hand.contains(target) != is_by_hand
            || !at_release
        {
            wrong.push(format!("{PROOFS}: is not so of when `{make}` is run"));
        }
    }
    wrong
}

/// Whether the function at this place has the attribute `ignore`.
fn is_ignored(text: &str, at: usize) -> bool {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let above = text[..line].lines().rev();
    let mut attributes = above.take_while(|line| line.trim_start().starts_with(['#', '/']));
    attributes.any(|line| line.trim_start().starts_with("#[ignore"))
}

/// Whether the file has a test, a target or a case of this name. A test that is ignored shows nothing.
fn names(files: &Files, path: &str, name: &str) -> bool {
    let text = files.text(path);
    if path.ends_with("Makefile") {
        return has_target(files, path, name);
    }
    let functions = ["(", "<"].map(|end| format!("fn {name}{end}"));
    let mut functions = functions.iter().filter_map(|function| text.find(function));
    functions.any(|at| !is_ignored(text, at))
        || text.contains(&format!("\"{name}\""))
        || text.contains(&format!("def {name}("))
        // In a file of cases, the name is a key.
        || text.contains(&format!("{name}:"))
}

fn requests(files: &Files) -> Vec<String> {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let first = |page| {
        let mut blocks = files.text(page).split("\n```");
        let block = blocks.find_map(|block| block.strip_prefix("json\n"));
        block.unwrap_or_default()
    };
    let event = read(files.text("events/start-pool.json"));
    let mut machine = read(files.text("asl/corpus/sound/32-start-and-wait.asl.json"));
    // The state of the page may stand in a machine of the other language.
    machine["States"]["Import"]["QueryLanguage"] = machine["QueryLanguage"].take();
    let state = format!("{{{}}}", first(WAITING));
    let pairs = [
        (POOLS, read(first(POOLS)), event),
        (WAITING, read(&state), machine["States"].take()),
    ];
    let differing = pairs.into_iter().filter(|(_, shown, file)| shown != file);
    let pages = differing.map(|(page, ..)| format!("{page}: its first block is not its file"));
    pages.collect()
}

fn advisories(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, says) in [
        ("tools/check.mk", "WORKSPACES := . proof/comparison\n"),
        ("Makefile", "check: NOT CHECKED: $$(cat $(UNCHECKED))"),
        (".ci/run", "== NOT CHECKED: $(cat target/unchecked)"),
    ] {
        if !files.text(path).contains(says) {
            wrong.push(format!("{path}: does not say {says:?}"));
        }
    }
    let kinds = [
        ("Cargo.lock", "cargo"),
        ("requirements.txt", "pip"),
        ("package-lock.json", "npm"),
    ];
    for (lock, kind) in kinds {
        for (path, _) in files.all("", lock) {
            let directory = path.trim_end_matches(lock).trim_end_matches('/');
            let mut of_kind = files.text(UPDATES).split("package-ecosystem: ");
            let offered = of_kind.any(|part| {
                let named = part.split([' ', ',', '[', ']', '\n']);
                part.starts_with(kind)
                    && named
                        .into_iter()
                        .any(|word| word == format!("/{directory}"))
            });
            if !offered {
                wrong.push(format!("{UPDATES}: offers no updates of {path}"));
            }
        }
    }
    wrong
}

/// The documents; below src/ stand the heads of pages that are written to docs/.
fn documents(files: &Files) -> impl Iterator<Item = (&str, &str)> {
    let documents = files.all("", ".md");
    documents.filter(|(path, _)| !path.contains("/src/"))
}

fn links(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (document, text) in documents(files) {
        for link in text.split("](").skip(1) {
            let link = link.split([')', ' ', '#']).next().unwrap_or_default();
            let path = joined(document, link);
            let below = format!("{path}/");
            let is_elsewhere = link.is_empty() || link.contains("://") || link.contains("mailto:");
            let exists = |known: &String| *known == path || known.starts_with(&below);
            if !is_elsewhere && !files.0.keys().any(exists) {
                wrong.push(format!("{document}: there is no {path}"));
            }
        }
    }
    wrong
}

/// Pages by their path from the root, in whatever is no page itself; a test may have pages of its own.
fn named_pages(files: &Files) -> Vec<String> {
    let is_page = |path: &str| path.rsplit('.').next() == Some("md");
    let sources = files.0.iter();
    let sources = sources.filter(|(path, _)| !is_page(path) && !path.contains("/tests/"));
    let mut wrong = Vec::new();
    for (path, text) in sources {
        for (at, _) in text.match_indices("docs/") {
            let is_path = |c: char| c.is_ascii_alphanumeric() || "-_/.".contains(c);
            let rest = &text[at..];
            let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
            let page = rest[..end].trim_end_matches('.');
            if is_page(page) && files.text(page).is_empty() {
                wrong.push(format!("{path}: there is no {page}"));
            }
        }
    }
    wrong
}

/// Amounts with cents.
fn dollars(files: &Files) -> Vec<String> {
    let figures = |path| -> BTreeSet<String> {
        let after = files.text(path).split('$').skip(1);
        let numbers = after.map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
            rest[..end.unwrap_or(rest.len())]
                .trim_end_matches('.')
                .to_owned()
        });
        numbers.filter(|number| number.contains('.')).collect()
    };
    let known = figures("docs/reference/cost.md");
    let pages = [
        "README.md",
        "docs/choose.md",
        "docs/guides/deploy-and-alarms.md",
    ];
    let shown = pages
        .into_iter()
        .flat_map(|page| figures(page).into_iter().map(move |figure| (page, figure)));
    let differing = shown.filter(|(_, figure)| !known.contains(figure));
    differing
        .map(|(page, figure)| format!("{page}: ${figure} is not in docs/reference/cost.md"))
        .collect()
}

/// Of links with a `#`; those without a path lead to a heading of the same document.
fn anchors(files: &Files) -> Vec<String> {
    let headings: BTreeMap<_, _> = documents(files)
        .map(|(document, text)| (document, headings(text)))
        .collect();
    let mut wrong = Vec::new();
    for (document, text) in documents(files) {
        for link in text.split("](").skip(1) {
            let link = link.split([')', ' ']).next().unwrap_or_default();
            let Some((path, anchor)) = link.split_once('#').filter(|_| !link.contains("://"))
            else {
                continue;
            };
            let path = match path {
                "" => document.to_owned(),
                path => joined(document, path),
            };
            let known = headings.get(path.as_str());
            if known.is_some_and(|known| !known.contains(anchor)) {
                wrong.push(format!("{document}: {path} has no heading #{anchor}"));
            }
        }
    }
    wrong
}

/// The names by which a code host links to the headings of a document.
fn headings(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut code = false;
    for line in text.lines() {
        code ^= line.trim_start().starts_with("```");
        if code || !line.starts_with('#') {
            continue;
        }
        // Of a link only its text is in the name.
        let mut title = String::new();
        for (at, part) in line.trim_start_matches('#').split("](").enumerate() {
            let part = if at == 0 {
                Some(part)
            } else {
                part.split_once(')').map(|(_, rest)| rest)
            };
            title.push_str(part.unwrap_or_default());
        }
        let title = title.trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|nth| format!("{name}-{nth}"));
        let name = std::iter::once(name.clone())
            .chain(again)
            .find(|name| !names.contains(name));
        names.extend(name);
    }
    names
}

fn cells(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (document, text) in documents(files) {
        let (mut code, mut head) = (false, None);
        for line in text.lines() {
            code ^= line.trim_start().starts_with("```");
            if code || !line.starts_with('|') {
                head = None;
                continue;
            }
            let cells = line.replace("\\|", "").trim_end().matches('|').count();
            if *head.get_or_insert(cells) != cells {
                wrong.push(format!(
                    "{document}: a row has other cells than its head: {line}"
                ));
            }
        }
    }
    wrong
}

fn contents(files: &Files) -> Vec<String> {
    const CONTENTS: &str = "docs/README.md";
    let links = files.text(CONTENTS).split("](").skip(1);
    let links = links.filter_map(|link| link.split([')', '#']).next());
    let listed: BTreeSet<String> = links.map(|link| joined(CONTENTS, link)).collect();
    let pages = files.all("docs/", ".md").map(|(path, _)| path);
    let missing = pages.filter(|path| *path != CONTENTS && !listed.contains(*path));
    missing
        .map(|path| format!("{CONTENTS}: does not list {path}"))
        .collect()
}

fn pictures(files: &Files) -> Vec<String> {
    let pages = documents(files).flat_map(|(page, text)| {
        let shown = text.split("![").skip(1);
        let shown = shown.filter_map(|rest| rest.split_once("](")?.1.split(')').next());
        shown.map(move |link| joined(page, link))
    });
    let shown: BTreeSet<String> = pages.collect();
    let pictures = files.all("docs/", ".svg").map(|(path, _)| path);
    let unseen = pictures.filter(|path| !shown.contains(*path));
    unseen
        .map(|path| format!("{path}: no page shows it"))
        .collect()
}

/// The tests in brackets, some of them without a link: whatever is code there, and a sentence.
fn bracketed(files: &Files) -> Vec<String> {
    let sources: Vec<_> = (files.all("", ".rs").chain(files.all("proof/", ".yaml"))).collect();
    let mut wrong = Vec::new();
    for (document, text) in documents(files) {
        for rest in text.split("[`").skip(1) {
            let (inside, after) = rest.split_once(']').unwrap_or_default();
            let link = after
                .strip_prefix('(')
                .and_then(|link| link.split(')').next());
            let path = link.map(|link| joined(document, link));
            let tests = inside.split(',').map(|name| name.trim().trim_matches('`'));
            for name in tests.filter(|name| name.matches('_').count() > 1) {
                let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                let exists = match &path {
                    Some(path) if path.contains('.') => names(files, path, name),
                    _ => sources
                        .iter()
                        .any(|(path, text)| text.contains(name) && names(files, path, name)),
                };
                if name.chars().all(is_word) && !exists {
                    wrong.push(format!("{document}: there is no test {name}"));
                }
            }
        }
    }
    wrong
}

/// Where a link in this document leads.
fn joined(document: &str, link: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether a Makefile has this target, by itself or by what it includes.
fn has_target(files: &Files, makefile: &str, target: &str) -> bool {
    let text = files.text(makefile);
    let included = text
        .lines()
        .filter_map(|line| line.strip_prefix("include "));
    let included = included.flat_map(|paths| paths.split(' '));
    let start = format!("\n{target}:");
    text.contains(&start)
        || included
            .into_iter()
            .any(|path| files.text(path).contains(&start))
}

fn make_targets(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in files.all("", ".md") {
        // Only what is set as code: `make test`, or a line of a block that begins with it.
        let lines = text.lines().map(str::trim_start);
        let spans = text.split('`').skip(1).step_by(2);
        for command in lines
            .chain(spans)
            .filter_map(|code| code.strip_prefix("make "))
        {
            let (makefile, command) = match command.strip_prefix("-C proof ") {
                Some(command) => ("proof/Makefile", command),
                None => ("Makefile", command),
            };
            let target = command
                .split(|c: char| !c.is_ascii_lowercase() && c != '-')
                .next();
            let target = target.unwrap_or_default();
            if !target.is_empty() && !has_target(files, makefile, target) {
                wrong.push(format!("{path}: `make {target}` is not in {makefile}"));
            }
        }
    }
    wrong
}

fn environment(files: &Files) -> Vec<String> {
    let variables = |text: &str, start: &str| -> BTreeSet<String> {
        let found = text.match_indices(start).map(|(at, _)| {
            let name = text[at..].trim_start_matches('"');
            let end = name
                .find(|c: char| !c.is_ascii_uppercase() && c != '_')
                .unwrap_or(name.len());
            name[..end].to_owned()
        });
        found.collect()
    };
    // As a string literal: a constant may have the same name.
    let read = files
        .all("lib/src/", ".rs")
        .chain(files.all("lib/lambda/src/", ".rs"))
        .flat_map(|(_, text)| variables(text, "\"LEASE_"));
    let read: BTreeSet<String> = read.collect();
    let documents: String = files
        .all("", "README.md")
        .chain(files.all("docs/", ".md"))
        .map(|(_, text)| text)
        .collect();
    [
        ("template.yaml", files.text("template.yaml")),
        ("the documents", &documents),
    ]
    .iter()
    .flat_map(|(whose, text)| {
        let known = variables(text, "LEASE_");
        let missing = read
            .difference(&known)
            .map(move |name| format!("{whose}: no {name}, which lib or lambda reads"));
        let idle = known
            .difference(&read)
            .map(move |name| format!("{whose}: {name}, which neither lib nor lambda reads"));
        missing.chain(idle).collect::<Vec<_>>()
    })
    .collect()
}

/// Each example with the directories before/ and after/ shows in its README how they differ, as `diff -U1` prints it.
fn differences(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, readme) in files.all("examples/", "/README.md") {
        let directory = path.trim_end_matches("README.md");
        for (before, old) in files.all(&format!("{directory}before/"), "") {
            let before = before.trim_start_matches(directory);
            let after = before.replacen("before/", "after/", 1);
            let new = files.text(&format!("{directory}{after}"));
            let diff = TextDiff::from_lines(old, new);
            let mut shown = diff.unified_diff();
            let shown = shown.context_radius(1).header(before, &after).to_string();
            if old != new && !readme.contains(&format!("\n```diff\n{shown}```\n")) {
                wrong.push(format!("{path}: does not show\n{shown}"));
            }
        }
    }
    wrong
}

/// Crates and packages whose insides something here rests on: pinned to the letter.
const PINNED: [(&str, &str); 6] = [
    ("Cargo.toml", "dynoxide-rs = { version = \"="),
    (
        "proof/comparison/Cargo.toml",
        "dynamodb-lease = { version = \"=",
    ),
    ("local/asl/requirements.txt", "moto=="),
    ("local/asl/requirements.txt", "jsonata-python=="),
    ("proof/second-engine/requirements.txt", "ministack=="),
    ("tools/requirements.txt", "aws-sam-cli=="),
];

fn locked(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    let scripts = [
        "Makefile",
        "tools/check.mk",
        "tools/tools.mk",
        "proof/Makefile",
        ".ci/run",
    ];
    for script in scripts {
        // A command may go on in the next line.
        let commands = files.text(script).replace("\\\n", " ");
        for line in commands
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
        {
            let builds = ["build", "clippy", "doc", "fetch", "install", "run", "test"]
                .iter()
                .any(|verb| line.contains(&format!("cargo {verb} ")))
                || line.contains("$(LAMBDA) build");
            // What writes a lock has none to go by, and is pinned itself.
            let by_pip = line.contains("pip install") && !line.contains("pip-tools==");
            let by_npm = line.contains("$(NPM) ");
            let is_loose = (builds && !line.contains("--locked"))
                || (by_pip && !line.contains("--require-hashes"))
                || (by_npm && !line.contains("--ignore-scripts"))
                || (by_npm && !line.contains(" ci ") && !line.contains("--package-lock-only"));
            if is_loose {
                wrong.push(format!("{script}: not by the lock: {}", line.trim()));
            }
        }
    }
    for (path, text) in files.all("", "package-lock.json") {
        let lock: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let packages = lock["packages"].as_object().into_iter().flatten();
        // What is bundled in another package is covered by the hash of that one.
        let fetched = packages.filter(|(name, of)| !name.is_empty() && of["inBundle"] != true);
        for (name, package) in fetched {
            let hash = package["integrity"].as_str().unwrap_or_default();
            if !hash.starts_with("sha512-") || !package["resolved"].is_null() {
                wrong.push(format!(
                    "{path}: not pinned with a hash, or from elsewhere: {name}"
                ));
            }
        }
    }
    for (path, start) in PINNED {
        if !files.text(path).lines().any(|line| line.starts_with(start)) {
            wrong.push(format!("{path}: nothing begins with {start}"));
        }
    }
    wrong
}

/// Version 1 of the AWS CLI and boto3 read `AWS_DEFAULT_REGION`; the other tools read `AWS_REGION` first.
fn regions(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in files.all("", ".md") {
        for line in text.lines().filter(|line| line.contains("AWS_REGION=")) {
            if !line.contains("AWS_DEFAULT_REGION=") {
                wrong.push(format!("{path}: version 1 of the AWS CLI ignores {line}"));
            }
        }
    }
    wrong
}

const HOUR: &str = "docs/contributing/an-hour-on-aws.md";
const RECORDED: &str = "docs/explain/aws.md";

/// A name of AWS's that a machine catches, or that the checker knows, has its line in one of the two, and no other has.
fn names_of_aws(files: &Files) -> Vec<String> {
    let machines = files.all("templates/statemachines/", ".asl.json");
    let checker = files.all("asl/src/read/error_names.rs", "");
    let known: BTreeSet<&str> = machines
        .chain(checker)
        .flat_map(|(_, text)| text.split('"'))
        .filter(|word| is_name_of_aws(word))
        .collect();
    let tables = [HOUR, RECORDED].map(|page| files.text(page).lines());
    let asked: BTreeSet<&str> = tables
        .into_iter()
        .flatten()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| line.split('`'))
        .filter(|word| is_name_of_aws(word))
        .collect();
    let differing = known.symmetric_difference(&asked);
    differing
        .map(|name| {
            format!("{name}: not both known by name and in the tables of {HOUR} and {RECORDED}")
        })
        .collect()
}

fn is_name_of_aws(word: &str) -> bool {
    let services = [
        "DynamoDb",
        "Lambda",
        "Runtime",
        "Sandbox",
        "Sfn",
        "States",
        "StepFunctions",
    ];
    word.split_once('.').is_some_and(|(service, name)| {
        services.contains(&service)
            && !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_alphanumeric())
    })
}
