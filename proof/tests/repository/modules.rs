//! No module of a crate imports, over others or by itself, a module that imports it: the walk of a call goes down only.
//! `Leases` has methods in many modules, so a call of one of them counts as an import.

use crate::{Files, Rule, SeededEdit};
use std::collections::{BTreeMap, BTreeSet};

pub const RULES: &[(&str, Rule, &[SeededEdit])] = &[(
    "no two modules of lib, lambda, asl, cli, local or net import each other",
    circles,
    &[
        (
            "lib/src/clock.rs",
            "\nuse ",
            "\nuse crate::leases::Leases;\nuse ",
        ),
        (
            "lib/src/leases.rs",
            "self.clock.now()",
            "self.keys_with_waiters()",
        ),
    ],
)];

type Edges = BTreeMap<String, BTreeSet<String>>;

fn circles(files: &Files) -> Vec<String> {
    ["lib", "lib/lambda", "asl", "cli", "local", "local/net"]
        .iter()
        .flat_map(|package| {
            let edges = imports(files, &format!("{package}/src/"));
            let reached: Edges = edges
                .keys()
                .map(|from| (from.clone(), below(&edges, from)))
                .collect();
            let circles = reached
                .iter()
                .filter(|(module, reached)| reached.contains(*module));
            let circles = circles.map(|(module, all)| {
                let back = all
                    .iter()
                    .filter(|other| reached[*other].contains(module) && *other != module);
                let back: Vec<&str> = back.map(String::as_str).collect();
                format!(
                    "{package}: {module} is in a circle with {}",
                    back.join(", ")
                )
            });
            circles.collect::<Vec<_>>()
        })
        .collect()
}

/// Everything that is imported from here, however far away.
fn below(edges: &Edges, from: &str) -> BTreeSet<String> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        for other in edges.get(&module).into_iter().flatten() {
            if found.insert(other.clone()) {
                next.push(other.clone());
            }
        }
    }
    found
}

/// Which modules right below the root of a crate import which, tests left out.
fn imports(files: &Files, source: &str) -> Edges {
    // Modules that only tests have are declared so by the module above them.
    let declared = files
        .all(source, ".rs")
        .flat_map(|(_, text)| text.split("#[cfg(test)]\nmod ").skip(1));
    let of_tests: BTreeSet<String> = declared
        .filter_map(|rest| rest.split_once(';'))
        .map(|(name, _)| format!("/{name}.rs"))
        .collect();
    let sources = || {
        files.all(source, ".rs").filter(|(path, _)| {
            !path.contains("/test_support") && !of_tests.iter().any(|end| path.ends_with(end))
        })
    };
    let module_of = |path: &str| {
        let rest = &path[source.len()..];
        rest.split(['/', '.']).next().unwrap_or_default().to_owned()
    };
    let modules: BTreeSet<String> = sources().map(|(path, _)| module_of(path)).collect();
    // What the root gives out again, by the module that it comes from.
    let root: String = files
        .text(&format!("{source}lib.rs"))
        .replace(char::is_whitespace, "");
    let mut homes = BTreeMap::new();
    for statement in root
        .split(';')
        .filter_map(|part| part.split_once("pubuse").map(|(_, rest)| rest))
    {
        let (module, names) = statement.split_once("::").unwrap_or_default();
        for name in names
            .split(['{', '}', ',', ':'])
            .filter(|name| !name.is_empty())
        {
            homes.insert(
                name.to_owned(),
                module.trim_start_matches("crate").to_owned(),
            );
        }
    }
    let methods: BTreeMap<String, String> = sources()
        .flat_map(|(path, text)| {
            let names = of_leases(text).filter(|line| !line.starts_with("     "));
            let names = names.filter_map(|line| line.split_once("fn "));
            let names = names.flat_map(|(_, name)| first_names(name));
            names.map(move |name| (name, module_of(path)))
        })
        .collect();
    let mut edges: Edges = BTreeMap::new();
    for (path, text) in sources() {
        let from = module_of(path);
        if ["lib", "main"].contains(&from.as_str()) {
            continue;
        }
        let code = text
            .split("\n#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default();
        let code: String = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        let code = code.replace(char::is_whitespace, "");
        let to = edges.entry(from.clone()).or_default();
        for (at, _) in code.match_indices("crate::") {
            for name in first_names(&code[at + "crate::".len()..]) {
                let module = homes.get(&name).cloned().unwrap_or(name);
                if module != from && modules.contains(&module) {
                    to.insert(module);
                }
            }
        }
        let own = of_leases(text).collect::<String>();
        let own = own.replace(char::is_whitespace, "");
        for (code, object) in [(&own, "self."), (&code, "leases.")] {
            for (at, _) in code.match_indices(object) {
                let called = code[at + object.len()..].split('(').next();
                to.extend(called.and_then(|name| methods.get(name)).cloned());
            }
        }
        to.remove(&from);
    }
    edges
}

/// The lines of code of `impl Leases`.
fn of_leases(text: &str) -> impl Iterator<Item = &str> {
    text.split("\nimpl<S: Store> Leases<S> {\n")
        .skip(1)
        .flat_map(|rest| rest.split("\n}\n").next().unwrap_or_default().lines())
        .filter(|line| !line.trim_start().starts_with("//"))
}

/// The first name of a path, or of each path in braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let Some(list) = path.strip_prefix('{') else {
        return vec![name(path)];
    };
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(name(&list[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(name(&list[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    names
}
