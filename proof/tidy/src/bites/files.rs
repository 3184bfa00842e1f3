//! Faults in files as such, in documents and in locks, and a part of what the rule says that finds each.

use super::{
    Faults,
    Seed::{Change, Gain, Lose},
};

pub const FAULTS: &[(&str, Faults)] = &[
    (
        "every event parses and is used",
        &[
            (Change("events/sweep.json", "{", "["), "events/sweep.json"),
            (
                Gain("events/acquire-unheard-of.json", "{}"),
                "no test and no program names it",
            ),
            (Lose("events/"), "no event to look at"),
        ],
    ),
    (
        "make targets named in the documents exist",
        &[
            (Change("README.md", "make demo", "make dmeo"), "`make dmeo`"),
            (Change("Makefile", "\nbench:", "\nbenches:"), "`make bench`"),
            (Lose("Makefile"), "`make test`"),
        ],
    ),
    (
        "tests that documents name exist, where they are said to be",
        &[
            (
                Change(
                    "docs/SEMANTICS.md",
                    "[`a_spent_request_is_never_granted_again`]",
                    "[`a_spent_request_is_granted_again`]",
                ),
                "there is no test a_spent_request_is_granted_again",
            ),
            (
                Change(
                    "docs/SEMANTICS.md",
                    "never_granted_again`](../../lib/src/conformance/acquiring.rs)",
                    "never_granted_again`](../../lib/src/conformance/ending.rs)",
                ),
                "is not in lib/src/conformance/ending.rs",
            ),
            (Lose("proof/tests/faults/lost.rs"), "there is no test"),
        ],
    ),
    (
        "every promise and every fault has its tests, and every test of a fault its place",
        &[
            (
                Change("docs/SEMANTICS.md", "| S9 |", "| S99 |"),
                "nothing is said of S9",
            ),
            (
                Change("docs/SEMANTICS.md", "| hostile events |", "| events |"),
                "no row \"hostile events\"",
            ),
            (
                Gain(
                    "local/tests/faults/more.rs",
                    "#[test]\nfn nobody_tells_of_this() {}\n",
                ),
                "nothing is said of nobody_tells_of_this",
            ),
            (Lose("proof/tests/faults/"), "no test of a fault to look at"),
        ],
    ),
    (
        "file names tell what is inside",
        &[(Gain("lib/src/utils.rs", ""), "lib/src/utils.rs")],
    ),
    (
        "what is built is what is locked",
        &[
            (
                Change(
                    "Makefile",
                    "cargo test --workspace --locked",
                    "cargo test --workspace",
                ),
                "without --locked",
            ),
            (
                Change("tools/requirements.txt", "cfn-lint==", "cfn-lint>="),
                "not pinned with a hash: cfn-lint",
            ),
            (
                Change(
                    "tools/asl/package-lock.json",
                    "\"integrity\"",
                    "\"integrated\"",
                ),
                "not pinned with a hash: node_modules/",
            ),
            (
                Change("Makefile", "$(NPM) ci --ignore-scripts", "$(NPM) ci"),
                "may run anything",
            ),
            (Lose("tools/asl/"), "no package-lock.json to look at"),
        ],
    ),
];
