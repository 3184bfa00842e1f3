//! Files with text that a person names.

use std::io::Read as _;
use std::path::Path;

use crate::exit::Failure;

/// The text of this file; `-` is standard input.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let text = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}
