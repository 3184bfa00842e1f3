//! The modules of this crate form layers: no module imports one that imports it, directly or through others.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The files below `folder` that are compiled into the product.
fn product_files(folder: &Path, found: &mut Vec<PathBuf>) {
    const TESTS: [&str; 5] = [
        "conformance",
        "conformance.rs",
        "layers.rs",
        "simulation",
        "tests.rs",
    ];
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| TESTS.contains(&name)) {
        } else if path.is_dir() {
            product_files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The modules that a file imports: `crate::x`, and `x` in `use crate::{x, …}`.
fn imports(source: &str) -> BTreeSet<String> {
    let word = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let mut found = BTreeSet::new();
    for after in source.split("crate::").skip(1) {
        let Some(list) = after.strip_prefix('{') else {
            found.insert(word(after));
            continue;
        };
        let (mut depth, mut start) = (0, true);
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => start = true,
                c if start && c.is_alphabetic() => {
                    found.insert(word(&list[at..]));
                    start = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn no_module_imports_one_that_imports_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    product_files(&root, &mut files);
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let below = file.strip_prefix(&root).expect("below the root");
        let module = below.iter().next().and_then(|name| name.to_str());
        let module = module.expect("a name").trim_end_matches(".rs").to_owned();
        let source = fs::read_to_string(&file).expect("a source");
        let product = source.split("#[cfg(test)]\nmod tests {").next();
        let lines = product.expect("a first part").lines();
        let code: Vec<_> = lines
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        modules
            .entry(module)
            .or_default()
            .extend(imports(&code.join("\n")));
    }
    modules.remove("lib");
    // Takes away what imports nothing that is left, until nothing is left.
    while !modules.is_empty() {
        let left: BTreeSet<_> = modules.keys().cloned().collect();
        modules.retain(|name, imports| {
            imports.remove(name);
            imports.iter().any(|import| left.contains(import))
        });
        assert!(modules.len() < left.len(), "a circle in {modules:#?}");
    }
}
