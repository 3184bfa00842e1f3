//! What the query language decides. How each writes what the weaver computes is in `weave::language`.

pub(crate) use crate::expr::Language;
use crate::expr::{Expr, Root};
use crate::read::error_names::{NO_PARAMETER, NO_VALUE};
use crate::read::node::Node;

impl Language {
    /// The language that an object names, or that of what is around it.
    pub(crate) fn read(node: &Node, around: Self) -> Self {
        match node.text_of("QueryLanguage") {
            Some("JSONata") => Self::Jsonata,
            Some(_) => Self::JsonPath,
            None => around,
        }
    }

    pub(crate) fn is_jsonata(self) -> bool {
        self == Self::Jsonata
    }

    /// What a state's result is read from.
    pub(crate) fn result(self) -> Root {
        match self {
            Self::Jsonata => Root::Result,
            Self::JsonPath => Root::Data,
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
    /// path or a hole (`{}`, `{order}`) in it, or an expression of literal texts. `${…}` is a substitution of the template.
    pub(crate) fn literal_hole(self, key: &Node) -> Option<String> {
        let is_computed = |expr: &&Expr| self.is_jsonata() && expr.language == self;
        let literal = match key.expr().filter(is_computed) {
            Some(expr) => expr.constant()?,
            None => key.text()?.to_owned(),
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
    use crate::read::node::{Span, Value};

    fn hole(language: Language, key: &str) -> Option<String> {
        let key = Node::new(Span::default(), None, Value::Text(key.to_owned()));
        language.literal_hole(&key)
    }

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
            assert_eq!(hole(Language::Jsonata, key).as_deref(), cure, "{key}");
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
            assert_eq!(hole(Language::JsonPath, key).as_deref(), cure, "{key}");
        }
    }
}
