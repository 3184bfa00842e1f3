//! Damaged definitions: the corpus with parts removed, swapped and cut off. Each is checked or refused.

use crate::root;
use leasehold_asl::{Options, Rule, Source, check, definitions};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::LazyLock;

static CORPUS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let directories = [
        "asl/corpus/faulty",
        "asl/corpus/sound",
        "templates/statemachines",
    ];
    let files = directories
        .iter()
        .flat_map(|directory| std::fs::read_dir(root().join(directory)).unwrap());
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.to_str().unwrap().ends_with(".asl.json"));
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
});

/// Every place in a value, as a pointer.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(list) => {
            for (nth, value) in list.iter().enumerate() {
                places(value, &format!("{at}/{nth}"), found);
            }
        }
        _ => {}
    }
}

fn damage(value: &mut Value, place: Index, other: Index, how: u8) {
    let mut all = Vec::new();
    places(value, "", &mut all);
    let place = place.get(&all).clone();
    let put = match how {
        0 => Value::Null,
        1 => json!({}),
        2 => json!([]),
        3 => json!(-1e300),
        4 => json!("Acquire"),
        5 => json!("{% $lease.safe_until $millis() ' %}"),
        _ => value.pointer(other.get(&all).as_str()).unwrap().clone(),
    };
    *value.pointer_mut(&place).unwrap() = put;
}

fn how() -> impl Strategy<Value = Vec<(Index, Index, u8)>> {
    prop::collection::vec((any::<Index>(), any::<Index>(), 0_u8..12), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_definition_is_checked_or_refused(file: Index, damages in how()) {
        let mut value: Value = serde_json::from_str(&CORPUS[file.index(CORPUS.len())]).unwrap();
        for (place, other, how) in &damages {
            damage(&mut value, *place, *other, *how);
        }
        let source = Source::new("x.asl.json", value.to_string());
        let open = |_: &Path| Err(std::io::Error::other("no files here"));
        let Ok(definitions) = definitions(&source, &Options::default(), &open) else { return Ok(()) };
        for definition in definitions.into_iter().flatten() {
            let checked = check(&definition.node, &definition.options);
            prop_assert!(checked.findings.iter().all(|finding| finding.rule != Rule::TooLarge));
            // Each acquire may be bypassed or not.
            let most = (100 * (checked.states + 1)) << checked.acquires;
            prop_assert!(checked.visited <= most, "{} positions", checked.visited);
        }
    }

    #[test]
    fn truncated_text_is_refused_with_place(file: Index, cut: Index) {
        let text = CORPUS[file.index(CORPUS.len())].trim_end();
        let cut = text.floor_char_boundary(1 + cut.index(text.len() - 1));
        let error = Source::new("x.asl.json", &text[..cut]).read().unwrap_err();
        let place = error.place.unwrap();
        prop_assert!(place.line >= 1 && place.line <= text.lines().count());
        prop_assert!(["EOF", "expected", "invalid"].iter().any(|word| error.message.contains(word)), "{error}");
    }
}
