//! The two query languages of definitions. How each writes what the weaver computes is in `weave::language`.

use crate::read::error_names::{NO_PARAMETER, NO_VALUE};
use crate::read::expression::inside;
use crate::read::node::Node;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Jsonata,
    JsonPath,
}

impl Language {
    /// The language that an object names, or that of what is around it.
    pub(crate) fn read(node: &Node, around: Self) -> Self {
        match node.text_of("QueryLanguage") {
            Some("JSONata") => Self::Jsonata,
            Some(_) => Self::JsonPath,
            None => around,
        }
    }

    /// The language of a computed text. None for a literal.
    pub(crate) fn of(text: &str) -> Option<Self> {
        if inside(text).is_some() {
            Some(Self::Jsonata)
        } else if text.starts_with('$') || text.starts_with("States.") {
            Some(Self::JsonPath)
        } else {
            None
        }
    }

    pub(crate) fn is_jsonata(self) -> bool {
        self == Self::Jsonata
    }

    /// What stands for a state's input.
    pub(crate) fn input(self) -> &'static str {
        match self {
            Self::Jsonata => "$states.input",
            Self::JsonPath => "$",
        }
    }

    /// The error of a computed value that is missing.
    pub(crate) fn no_value(self) -> &'static str {
        match self {
            Self::Jsonata => NO_VALUE,
            Self::JsonPath => NO_PARAMETER,
        }
    }
}
