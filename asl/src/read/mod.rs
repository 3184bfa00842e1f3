//! Reading: one tree for JSON and YAML with the place of every node, and the scopes and states in it.

pub(crate) mod error_names;
pub(crate) mod expression;
pub(crate) mod json;
pub(crate) mod machine;
pub(crate) mod node;
pub(crate) mod source;
pub(crate) mod timing;
pub(crate) mod within;
mod yaml;

use node::Node;
use source::{Source, Unreadable};
use std::path::Path;

impl Source {
    /// Reads the text as JSON if the file's name or the text's beginning says so, else as YAML.
    ///
    /// # Errors
    ///
    /// The place and what was expected there. Also if the text is larger than [`LARGEST`](crate::LARGEST).
    pub fn read(&self) -> Result<Node, Unreadable> {
        let end = Path::new(&self.name).extension();
        let looks_json = self.text.trim_start().starts_with(['{', '[']);
        if looks_json || end.is_some_and(|end| end == "json") {
            json::read(self)
        } else {
            yaml::read(self)
        }
    }
}
