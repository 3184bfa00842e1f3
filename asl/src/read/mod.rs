//! Reading: one tree for JSON and YAML with the place of every node, and the scopes and states in it.

pub(crate) mod error_names;
pub(crate) mod integrations;
pub(crate) mod json;
pub(crate) mod language;
pub(crate) mod machine;
pub(crate) mod node;
pub(crate) mod shape;
pub(crate) mod source;
pub(crate) mod timing;
pub(crate) mod within;
pub(crate) mod yaml;

use node::Node;
use source::{MARK, Source, Unreadable};
use std::path::Path;

impl Source {
    /// Reads the text as JSON if the file's name or the text's beginning says so, else as YAML. What begins like JSON and is none may
    /// still be YAML in braces, unless the name says JSON.
    ///
    /// # Errors
    ///
    /// The place and what was expected there. Also if the text is larger than [`LARGEST`](crate::LARGEST).
    pub fn read(&self) -> Result<Node, Unreadable> {
        let end = Path::new(&self.name).extension();
        let is_json = end.is_some_and(|end| end == "json");
        let is_yaml = end.is_some_and(|end| end == "yaml" || end == "yml");
        let looks_json = self
            .text
            .trim_start_matches(MARK)
            .trim_start()
            .starts_with(['{', '[']);
        if !is_json && !looks_json {
            return yaml::read(self);
        }
        json::read(self).or_else(|fault| match yaml::read(self) {
            Ok(node) if !is_json => Ok(node),
            Err(other) if is_yaml => Err(other),
            _ => Err(fault),
        })
    }
}
