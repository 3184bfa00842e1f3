//! The two query languages of definitions. How each writes what the weaver computes is in `weave::language`.

use crate::read::error_names::{NO_PARAMETER, NO_VALUE};
use crate::read::expression::{bare, inside};
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

    /// What to write instead of a key that looks computed and is the same text for all executions: literal text with an expression, a
    /// path or a hole (`{}`, `{order}`) in it, or an expression without any name. `${…}` is a substitution of the template.
    pub(crate) fn literal_hole(self, key: &str) -> Option<String> {
        let expression = inside(key).filter(|_| self.is_jsonata());
        let literal = match expression {
            Some(expression) if bare(expression).contains('$') => return None,
            Some(expression) => expression.trim().trim_matches(['\'', '"']),
            None => key,
        };
        let starts_hole = |at: usize| {
            let (before, rest) = literal.split_at(at);
            let next = rest.chars().nth(1);
            match rest.as_bytes()[0] {
                b'{' => !before.ends_with('$'),
                b'$' => {
                    next.is_some_and(|next| matches!(next, '.' | '$' | '[') || next.is_alphabetic())
                }
                _ => rest.starts_with("States.") && rest.contains('('),
            }
        };
        let hole = literal
            .char_indices()
            .map(|(at, _)| at)
            .find(|&at| starts_hole(at))?;
        let prefix = &literal[..hole];
        Some(match (self, prefix) {
            (Self::Jsonata, "") => "\"{% $states.input.… %}\"".to_owned(),
            (Self::Jsonata, _) => format!("\"{{% '{prefix}' & $states.input.… %}}\""),
            (Self::JsonPath, "") => "\"$.…\"".to_owned(),
            (Self::JsonPath, _) => format!("\"States.Format('{prefix}{{}}', $.…)\""),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_that_looks_computed_is_reported() {
        let jsonata = [
            ("orders/42", None),
            ("${Stage}/orders", None),
            ("{% 'orders/' & $states.input.order %}", None),
            ("{% 'orders/42' %}", None),
            ("US$5 {x", Some("\"{% 'US$5 ' & $states.input.… %}\"")),
            ("orders/{}", Some("\"{% 'orders/' & $states.input.… %}\"")),
            (
                "orders/{% $states.input.id %}",
                Some("\"{% 'orders/' & $states.input.… %}\""),
            ),
            ("orders/$.id", Some("\"{% 'orders/' & $states.input.… %}\"")),
            (
                "{% 'orders/{}' %}",
                Some("\"{% 'orders/' & $states.input.… %}\""),
            ),
            ("$.order", Some("\"{% $states.input.… %}\"")),
            (
                "States.Format('orders/{}', $.order)",
                Some("\"{% $states.input.… %}\""),
            ),
        ];
        for (key, cure) in jsonata {
            assert_eq!(
                Language::Jsonata.literal_hole(key).as_deref(),
                cure,
                "{key}"
            );
        }
        let json_path = [
            ("orders/42", None),
            (
                "orders/{% $states.input.id %}",
                Some("\"States.Format('orders/{}', $.…)\""),
            ),
            ("$.order", Some("\"$.…\"")),
        ];
        for (key, cure) in json_path {
            assert_eq!(
                Language::JsonPath.literal_hole(key).as_deref(),
                cure,
                "{key}"
            );
        }
    }
}
