//! What is built comes from where the locks say, as the locks say.

use crate::tree::{Report, Tree};

/// Where commands stand that fetch or build.
const SCRIPTS: [&str; 2] = ["Makefile", ".ci/run"];

/// Crates whose insides something here rests on, and Python packages that are patched: pinned to the letter.
const TO_THE_LETTER: [(&str, &str); 6] = [
    ("Cargo.toml", "dynoxide-rs = { version = \"="),
    ("Cargo.toml", "dynamodb-lease = { version = \"="),
    ("proof/fuzz/Cargo.toml", "libfuzzer-sys = \"="),
    ("local/asl/requirements.txt", "moto=="),
    ("local/asl/requirements.txt", "jsonata-python=="),
    ("tools/requirements.txt", "aws-sam-cli=="),
];

pub fn locked(tree: &Tree, report: &mut Report) {
    for script in SCRIPTS {
        if tree.get(script).is_none() {
            report.error(format!("{script}: does not exist"));
        }
        // A command may go on in the next line.
        let joined = tree.get(script).unwrap_or_default().replace("\\\n", " ");
        for line in joined.lines().filter(|line| !line.starts_with('#')) {
            let builds = ["build", "clippy", "doc", "fetch", "install", "run", "test"]
                .iter()
                .any(|verb| line.contains(&format!("cargo {verb} ")))
                || line.contains("$(LAMBDA) build");
            if builds && !line.contains("--locked") {
                report.error(format!("{script}: without --locked: {}", line.trim()));
            }
            // The one that writes the lock has none to go by, and is pinned itself.
            let installs = line.contains("pip install") && !line.contains("pip-tools==");
            if installs && !line.contains("--require-hashes") {
                report.error(format!("{script}: without hashes: {}", line.trim()));
            }
            // A package's scripts would run before anybody has looked at it.
            let installs = line.contains("$(NPM) ");
            if installs && !line.contains("--ignore-scripts") {
                report.error(format!("{script}: may run anything: {}", line.trim()));
            }
            let from_lock = line.contains(" ci ") || line.contains("--package-lock-only");
            if installs && !from_lock {
                report.error(format!("{script}: not by the lock: {}", line.trim()));
            }
        }
    }
    for kind in ["requirements.txt", "package-lock.json", "Cargo.lock"] {
        if tree.files("", kind).next().is_none() {
            report.error(format!("no {kind} to look at"));
        }
    }
    for (path, lock) in tree.files("", "package-lock.json") {
        unhashed(path, lock, report);
    }
    for (path, requirements) in tree.files("", "requirements.txt") {
        let joined = requirements.replace("\\\n", " ");
        for line in joined.lines().map(str::trim) {
            let is_one = !line.is_empty() && !line.starts_with(['#', '-']);
            if is_one && !(line.contains("==") && line.contains("--hash=sha256:")) {
                report.error(format!("{path}: not pinned with a hash: {line}"));
            }
            if line.starts_with("--") && !line.starts_with("--hash") {
                report.error(format!("{path}: from elsewhere: {line}"));
            }
        }
    }
    for (path, start) in TO_THE_LETTER {
        let content = tree.get(path).unwrap_or_default();
        if !content.lines().any(|line| line.starts_with(start)) {
            report.error(format!("{path}: nothing starts with {start}"));
        }
    }
    for (path, lock) in tree.files("", "Cargo.lock") {
        let home = "registry+https://github.com/rust-lang/crates.io-index";
        let sources = lock
            .lines()
            .filter_map(|line| line.strip_prefix("source = "));
        for source in sources.filter(|source| source.trim_matches('"') != home) {
            report.error(format!("{path}: {source} is not crates.io"));
        }
    }
}

/// Every package of npm's has a hash, and comes from wherever npm is told to get packages.
fn unhashed(path: &str, lock: &str, report: &mut Report) {
    let lock: serde_json::Value = serde_json::from_str(lock).unwrap_or_default();
    let packages = lock["packages"].as_object();
    let packages = packages.into_iter().flatten();
    let fetched: Vec<_> = packages.filter(|(name, _)| !name.is_empty()).collect();
    if fetched.is_empty() {
        report.error(format!("{path}: no package to look at"));
    }
    for (name, package) in fetched {
        let hash = package["integrity"].as_str().unwrap_or_default();
        if !hash.starts_with("sha512-") {
            report.error(format!("{path}: not pinned with a hash: {name}"));
        }
        if !package["resolved"].is_null() {
            report.error(format!("{path}: from elsewhere: {name}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    const FILES: [(&str, &str); 9] = [
        ("Makefile", include_str!("../../../Makefile")),
        (".ci/run", include_str!("../../../.ci/run")),
        ("Cargo.toml", include_str!("../../../Cargo.toml")),
        (
            "proof/fuzz/Cargo.toml",
            include_str!("../../fuzz/Cargo.toml"),
        ),
        ("Cargo.lock", include_str!("../../../Cargo.lock")),
        (
            "proof/fuzz/Cargo.lock",
            include_str!("../../fuzz/Cargo.lock"),
        ),
        (
            "local/asl/requirements.txt",
            include_str!("../../../local/asl/requirements.txt"),
        ),
        (
            "tools/requirements.txt",
            include_str!("../../../tools/requirements.txt"),
        ),
        (
            "tools/asl/package-lock.json",
            include_str!("../../../tools/asl/package-lock.json"),
        ),
    ];

    #[test]
    fn what_is_not_locked_is_told() {
        assert_eq!(errors(locked, &FILES), [""; 0]);
        for (path, from, to) in [
            (
                "Makefile",
                "cargo test --workspace --locked",
                "cargo test --workspace",
            ),
            (
                "Makefile",
                "cargo install --quiet --locked",
                "cargo install --quiet",
            ),
            ("Makefile", "--no-deps --require-hashes", "--no-deps"),
            ("Makefile", "$(NPM) ci --ignore-scripts", "$(NPM) ci"),
            ("Makefile", "$(NPM) ci ", "$(NPM) install "),
            (
                "tools/asl/package-lock.json",
                "\"integrity\": \"sha512-",
                "\"integrity\": \"sha1-",
            ),
            (
                "tools/asl/package-lock.json",
                "\"integrity\"",
                "\"resolved\": \"x\", \"integrity\"",
            ),
            ("Cargo.toml", "version = \"=3.2.0\"", "version = \"3.2.0\""),
            (
                "proof/fuzz/Cargo.toml",
                "libfuzzer-sys = \"=",
                "libfuzzer-sys = \"",
            ),
            ("local/asl/requirements.txt", "moto==", "moto>="),
            ("tools/requirements.txt", "--hash=sha256", "--hash=md5"),
            (
                "tools/requirements.txt",
                "aws-sam-cli==",
                "--index-url x\naws-sam-cli==",
            ),
            (
                "Cargo.lock",
                "registry+https://github.com/rust-lang",
                "registry+https://github.com/somebody",
            ),
            (
                "proof/fuzz/Cargo.lock",
                "registry+https://github.com/rust-lang",
                "git+https://github.com/somebody",
            ),
        ] {
            let changed = FILES.map(|(name, content)| {
                let content = content.to_owned();
                match name == path {
                    // Of a package with several hashes all go.
                    true if from.starts_with("--hash") => (name, content.replace(from, to)),
                    true => (name, content.replacen(from, to, 1)),
                    false => (name, content),
                }
            });
            let was = FILES.iter().find(|(name, _)| *name == path).unwrap().1;
            let is = &changed.iter().find(|(name, _)| *name == path).unwrap().1;
            assert_ne!(was, is, "{from} is not in {path}");
            let changed: Vec<_> = changed
                .iter()
                .map(|(name, content)| (*name, content.as_str()))
                .collect();
            assert_ne!(errors(locked, &changed), [""; 0], "{path}: {to}");
        }
    }
}
