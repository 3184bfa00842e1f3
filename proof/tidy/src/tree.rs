//! The files of the repository in memory, so that a rule can be tested on a tree of two lines.

use std::collections::BTreeMap;
use std::path::Path;
use yaml_serde::Value;

/// What is built or belongs to a tool, not to the repository.
const SKIPPED: &[&str] = &[".aws-sam", ".git", "node_modules", "target"];

/// What a rule has to say.
#[derive(Debug, Default)]
pub struct Report {
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

impl Report {
    pub fn error(&mut self, text: impl Into<String>) {
        self.errors.push(text.into());
    }
}

/// Path (with `/`, relative to the root) to content.
#[derive(Clone, Debug, Default)]
pub struct Tree(BTreeMap<String, String>);

impl Tree {
    /// Reads every text file below `root`; other files keep their name and lose their content.
    pub fn read(root: &Path) -> std::io::Result<Self> {
        let mut tree = Self::default();
        tree.walk(root, "")?;
        Ok(tree)
    }

    fn walk(&mut self, directory: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.walk(&entry.path(), &format!("{path}/"))?;
                }
            } else {
                let content = std::fs::read(entry.path())?;
                self.0
                    .insert(path, String::from_utf8(content).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// The files whose path starts and ends like this, in order.
    pub fn files<'a>(
        &'a self,
        start: &'a str,
        end: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .iter()
            .filter(move |(path, _)| path.starts_with(start) && path.ends_with(end))
            .map(|(path, content)| (path.as_str(), content.as_str()))
    }

    pub fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// The resources of template.yaml by logical id; none, and an error, if it does not parse.
    pub fn resources(&self, report: &mut Report) -> Vec<(String, Value)> {
        let template =
            match yaml_serde::from_str::<Value>(self.get("template.yaml").unwrap_or_default()) {
                Ok(template) => template,
                Err(error) => {
                    report.error(format!("template.yaml: {error}"));
                    return Vec::new();
                }
            };
        let Some(resources) = template.get("Resources").and_then(Value::as_mapping) else {
            report.error("template.yaml: no Resources to look at");
            return Vec::new();
        };
        resources
            .iter()
            .map(|(id, resource)| (id.as_str().unwrap_or_default().to_owned(), resource.clone()))
            .collect()
    }

    /// This tree with another file, or another text in it.
    pub fn with(&self, path: &str, content: &str) -> Self {
        let mut tree = self.clone();
        tree.0.insert(path.to_owned(), content.to_owned());
        tree
    }

    /// This tree without whatever starts like this.
    pub fn without(&self, start: &str) -> Self {
        let mut tree = self.clone();
        tree.0.retain(|path, _| !path.starts_with(start));
        tree
    }

    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self(
            files
                .iter()
                .map(|(path, content)| ((*path).to_owned(), (*content).to_owned()))
                .collect(),
        )
    }
}

/// What a rule says of a tree: its errors.
#[cfg(test)]
pub fn errors(rule: fn(&Tree, &mut Report), files: &[(&str, &str)]) -> Vec<String> {
    let mut report = Report::default();
    rule(&Tree::of(files), &mut report);
    report.errors
}

/// The whole words of `text` that start with `start`, in order, each once: `start` and the letters, digits, `_` and `-` after it.
pub fn words(text: &str, start: &str) -> Vec<String> {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut found: Vec<String> = text
        .match_indices(start)
        .filter(|(at, _)| !text[..*at].ends_with(|c| inside(c) || c == '.'))
        .map(|(at, _)| {
            let rest = &text[at + start.len()..];
            format!(
                "{start}{}",
                &rest[..rest.find(|c| !inside(c)).unwrap_or(rest.len())]
            )
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole() {
        let text = "\"Lease.Held\", 'Lease.Lost', WithLease.Odd, my.Lease.X, Lease.Held";
        assert_eq!(words(text, "Lease."), ["Lease.Held", "Lease.Lost"]);
    }

    #[test]
    fn a_template_that_does_not_parse_is_an_error() {
        let mut report = Report::default();
        assert!(
            Tree::of(&[("template.yaml", "a: [")])
                .resources(&mut report)
                .is_empty()
        );
        assert_eq!(report.errors.len(), 1);
    }
}
