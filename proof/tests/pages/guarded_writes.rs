//! The program of docs/guides/fenced-writes.md, as the page says to run it.

use leasehold_proof::root;

use crate::{Shell, Stack, blocks, clone, page};

/// Without it the late write is made.
const GUARD: &str = ", ConditionExpression=parts.condition";

#[test]
fn late_write_is_refused_or_lost() {
    let page = page("docs/guides/fenced-writes.md");
    let blocks = blocks(&page);
    let programs = blocks.iter().filter(|block| block.language == "python");
    let mut programs = programs.map(|block| block.text);
    let program = programs.find(|text| text.contains("# late")).unwrap();
    assert!(program.contains(GUARD));

    let directory = clone();
    let _stack = Stack::start(directory.path());
    let mut shell = Shell::start(directory.path());
    shell.run(". target/local/env.sh");
    for (program, last) in [
        (program.to_owned(), "early was refused"),
        (program.replace(GUARD, ""), "early wrote"),
    ] {
        std::fs::write(directory.path().join("late.py"), program).unwrap();
        let client = root().join("clients/python");
        let run = format!("PYTHONPATH={} python3 late.py", client.display());
        let (printed, status) = shell.run(&run);
        let expected = format!("early wrote\nlater wrote\n{last}\n\n");
        assert_eq!((printed, status), (expected, 0));
    }
}
