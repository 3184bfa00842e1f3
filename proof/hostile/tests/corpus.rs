//! What fuzzers started from and what they left behind, judged once more.

use std::{fs, path::Path};

use leasehold_hostile::corpus::TARGETS;

#[test]
fn every_case_of_the_corpus_is_judged_as_the_fuzzers_judge_it() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (target, judge) in TARGETS {
        let files = fs::read_dir(corpus.join(target)).unwrap();
        let mut ends = Vec::new();
        for file in files.map(|file| file.unwrap().path()) {
            let case = fs::read(&file).unwrap();
            let end = judge(&case).unwrap_or_else(|fault| panic!("{}: {fault}", file.display()));
            ends.push(end);
        }
        // They are cases, and not what a target passes over.
        let passed = ["nobody's", "no JSON", "no case", "no text", "nothing there"];
        let cases = ends.iter().filter(|end| !passed.contains(&end.as_str()));
        assert!(cases.count() > 9, "{target}: {ends:?}");
    }
}
