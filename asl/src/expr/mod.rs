//! The expressions of a definition, each parsed once, where its text is read: JSONata between `{%` and `%}`, and the paths and
//! intrinsic functions of JSONPath. Nothing is evaluated.
//!
//! The parser knows what the rules ask: which variables, paths and functions an expression reads, what it compares, and what it may
//! be. An expression that it does not know to its end has no whole: what it reads is known, and what it is, is not.

mod parser;
mod term;
mod tokens;

use parser::Parsed;
pub(crate) use term::{Path, Root, Term, TermId};

/// The two query languages of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Jsonata,
    JsonPath,
}

/// The functions that never return the same twice.
pub(crate) const RANDOM: [&str; 4] = ["$uuid", "$random", "States.UUID", "States.MathRandom"];
/// The functions that return the time.
pub(crate) const CLOCK: [&str; 2] = ["$millis", "$now"];

/// The text between `{%` and `%}`.
pub(crate) fn inside(text: &str) -> Option<&str> {
    let text = text.trim();
    text.strip_prefix("{%")?.strip_suffix("%}")
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    pub language: Language,
    /// The bracket or quote that is opened and not closed, or closed and not opened.
    pub unclosed: Option<char>,
    /// Why it is not in the language. Of JSONPath only what [`unclosed`](Self::unclosed) says is known.
    pub fault: Option<String>,
    /// Each follows its parts.
    pub terms: Vec<Term>,
    whole: Option<TermId>,
}

impl Expr {
    /// None for a literal text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (inside, language) = match inside(text) {
            Some(inside) => (inside, Language::Jsonata),
            None if text.starts_with('$') || text.starts_with("States.") => {
                (text, Language::JsonPath)
            }
            None => return None,
        };
        let tokens = tokens::tokens(inside, language);
        let unclosed = tokens::unclosed(&tokens);
        let Parsed {
            terms,
            whole,
            fault,
        } = parser::parse(tokens, language);
        let open = unclosed.map(|mark| format!("{mark} has no counterpart"));
        let fault = open.or(fault.filter(|_| language == Language::Jsonata));
        Some(Self {
            language,
            unclosed,
            fault,
            terms,
            whole,
        })
    }

    /// The whole, unless something in it is not known.
    pub(crate) fn whole(&self) -> Option<&Term> {
        self.whole.map(|whole| &self.terms[whole])
    }

    /// The path, if it is nothing else.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.whole().and_then(as_path)
    }

    /// The place in the data, if it is a reference path: `$.held.lease` is held, lease.
    pub(crate) fn place(&self) -> Option<&[String]> {
        let path = self.path().filter(|path| path.root == Root::Data)?;
        Some(&path.steps)
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self.whole()? {
            Term::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Everything that it reads.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.terms.iter().filter_map(as_path)
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.paths().filter_map(Path::variable)
    }

    /// The variables whose field it reads. The data count as the variable "".
    pub(crate) fn owners(&self, field: &str) -> impl Iterator<Item = &str> {
        let paths = self.paths().filter(move |path| path.has_step(field));
        paths.map(|path| path.variable().unwrap_or_default())
    }

    /// For each term whether such a path is in it. What an object or a function contains is not counted.
    pub(crate) fn holding(&self, is_such: impl Fn(&Path) -> bool) -> Vec<bool> {
        let mut found: Vec<bool> = Vec::with_capacity(self.terms.len());
        for term in &self.terms {
            let holds = |id: &TermId| found[*id];
            found.push(match term {
                Term::Path(path) => is_such(path),
                Term::Call(_, parts) | Term::List(parts) => parts.iter().any(holds),
                Term::Binary(_, one, other) => holds(one) || holds(other),
                Term::Choice(condition, one, other) => {
                    holds(condition) || holds(one) || other.as_ref().is_some_and(holds)
                }
                Term::Text(_) | Term::Number(_) | Term::Other => false,
            });
        }
        found
    }

    pub(crate) fn calls(&self, function: &str) -> bool {
        let is_call = |term: &Term| matches!(term, Term::Call(name, _) if name == function);
        self.terms.iter().any(is_call)
    }

    pub(crate) fn calls_any(&self, functions: &[&str]) -> bool {
        functions.iter().any(|function| self.calls(function))
    }

    /// Whether this literal text stands in it.
    pub(crate) fn says(&self, word: &str) -> bool {
        let is_said = |term: &Term| matches!(term, Term::Text(text) if text == word);
        self.terms.iter().any(is_said)
    }

    /// Whether it depends on anything but the context, or is not known.
    pub(crate) fn varies(&self) -> bool {
        let is_fixed = |path: &Path| matches!(path.root, Root::Context | Root::Other);
        self.whole.is_none()
            || !self.paths().all(is_fixed)
            || self.calls_any(&RANDOM)
            || self.calls_any(&CLOCK)
    }

    /// The literal text that it is, also if it joins it from parts.
    pub(crate) fn constant(&self) -> Option<String> {
        let part = |term: &Term| match term {
            Term::Text(text) => Some(text.clone()),
            Term::Binary("&", ..) => Some(String::new()),
            _ => None,
        };
        let parts: Option<String> = self.terms.iter().map(part).collect();
        parts.filter(|_| self.whole.is_some())
    }

    /// The literal texts that it may be, if it can be nothing else.
    pub(crate) fn texts(&self) -> Option<Vec<&str>> {
        let mut found = Vec::new();
        let mut open = vec![self.whole?];
        while let Some(id) = open.pop() {
            match &self.terms[id] {
                Term::Text(text) => found.push(text.as_str()),
                Term::Choice(_, one, Some(other)) => open.extend([*other, *one]),
                _ => return None,
            }
        }
        Some(found)
    }

    /// The largest number that it may be: `$left >= 1 ? $min([15, $left])` is never more than 15.
    pub(crate) fn most(&self) -> Option<f64> {
        self.most_of(self.whole?)
    }

    fn most_of(&self, id: TermId) -> Option<f64> {
        match &self.terms[id] {
            Term::Number(number) => Some(*number),
            Term::Choice(_, one, None) => self.most_of(*one),
            Term::Choice(_, one, Some(other)) => {
                Some(self.most_of(*one)?.max(self.most_of(*other)?))
            }
            Term::Call(name, parts) => {
                let [part] = parts.as_slice() else {
                    return None;
                };
                match (name.as_str(), &self.terms[*part]) {
                    // A part without a value is no bound.
                    ("$min", Term::List(list)) => {
                        let numbers = list.iter().filter_map(|&part| match self.terms[part] {
                            Term::Number(number) => Some(number),
                            _ => None,
                        });
                        numbers.reduce(f64::min)
                    }
                    ("$floor" | "$ceil" | "$round", _) => self.most_of(*part).map(f64::ceil),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The paths that a term compares, each with the sign and the other side.
    pub(crate) fn compared(&self, term: &Term) -> Vec<(&'static str, &Path, &Term)> {
        let Term::Binary(sign @ ("=" | "!=" | "<" | "<=" | ">" | ">="), one, other) = term else {
            return Vec::new();
        };
        let sides = [(*one, *other), (*other, *one)].into_iter();
        sides
            .filter_map(|(path, other)| {
                Some((*sign, as_path(&self.terms[path])?, &self.terms[other]))
            })
            .collect()
    }

    /// The conditions that hold together if this term does.
    pub(crate) fn conjuncts(&self, id: TermId) -> Vec<&Term> {
        let mut found = Vec::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            match &self.terms[id] {
                Term::Binary("and", one, other) => open.extend([*one, *other]),
                term => found.push(term),
            }
        }
        found
    }
}

fn as_path(term: &Term) -> Option<&Path> {
    match term {
        Term::Path(path) => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Expr {
        Expr::read(text).unwrap()
    }

    /// Paths as they are written, without their indices.
    fn paths(text: &str) -> Vec<String> {
        let written = |path: &Path| {
            let root = match &path.root {
                Root::Variable(name) => name.as_str(),
                Root::Input => "(input)",
                Root::Result => "(result)",
                Root::ErrorOutput => "(error)",
                Root::Context => "(context)",
                Root::States => "(states)",
                Root::Data => "(data)",
                Root::Other => "",
            };
            [root]
                .into_iter()
                .chain(path.steps.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(".")
        };
        read(text).paths().map(written).collect()
    }

    #[test]
    fn what_is_read_is_known() {
        for (text, found) in [
            (
                "{% $states.input.order & $lease[0].safe_until %}",
                &["(input).order", "lease.safe_until"][..],
            ),
            (
                "{% $leases[key = $states.context.Execution.Id].x.`a b` %}",
                &["leases.x.a b", ".key", "(context).Execution.Id"],
            ),
            ("{% (/* $no */ $a & ' $nor' & $b /* $c %}", &["a", "b"]),
            (
                "{% $replace($x, /[^a'/]/i, '') & 6 / 2 & `it's`.y & $uuid() / 3 %}",
                &["x", ".it's.y"],
            ),
            (
                "{% $sift($x, function($v, $k)<x?s:b>{ $v.on }) ~> $count %}",
                &["x", "v", "k", "v.on", "count"],
            ),
            (
                "{% $parse($states.errorOutput.Cause).by %}",
                &["(error).Cause", ".by"],
            ),
            (
                "{% $x{ $k: $sum(v) }^(>a, <b) %}",
                &["x", "k", ".v", ".a", ".b"],
            ),
            ("$.a['b'][0].order-id", &["(data).a.b.order-id"]),
            (
                "States.Format('{}/{}', $.x, $$.State.Name)",
                &["(data).x", "(context).State.Name"],
            ),
            ("$", &["(data)"]),
            ("${Stage}", &[]),
        ] {
            assert_eq!(paths(text), found, "{text}");
        }
        assert_eq!(Expr::read("orders/$.id"), None);
        assert!(
            read("{% $uuid () %}").calls("$uuid") && read("States.UUID()").calls("States.UUID")
        );
    }

    #[test]
    fn place_is_reference_path() {
        let place = |text: &str| read(text).place().map(<[_]>::to_vec);
        assert_eq!(place("$.a['b'].c").unwrap(), ["a", "b", "c"]);
        assert_eq!(place("$").unwrap(), Vec::<String>::new());
        for other in [
            "$$.Execution.Id",
            "$lease.x",
            "$.a[*].b",
            "$.a[?(@.x > 1)]",
            "$..a",
            "States.UUID()",
        ] {
            assert_eq!(place(other), None, "{other}");
        }
    }

    #[test]
    fn values_have_bounds() {
        for (text, most) in [
            ("{% 60 %}", Some(60.0)),
            ("{% (-1.5e1) /* s */ %}", Some(-15.0)),
            (
                "{% ($left := $x - 1; $left >= 1 ? $min([15, $left])) %}",
                Some(15.0),
            ),
            ("{% $x ? 90 : 60 %}", Some(90.0)),
            ("{% $floor($min([$x, 1.5])) %}", Some(2.0)),
            ("{% $x ? $min([15, $left]) : $y %}", None),
            ("{% $min([15, $left]) * 60 %}", None),
            ("{% $min([$left, $other]) %}", None),
            ("{% $min([$left, $x ? 5]) %}", None),
        ] {
            assert_eq!(read(text).most(), most, "{text}");
        }
        for (text, texts) in [
            (
                "{% $length($x) <= 8 ? 'A.B' : 'C' %}",
                Some(vec!["A.B", "C"]),
            ),
            (
                "{% $x ? 'A' : $y ? \"B\" : 'C' %}",
                Some(vec!["A", "B", "C"]),
            ),
            ("{% 'A' %}", Some(vec!["A"])),
            ("{% $x ? 'A' %}", None),
            ("{% $x ? 'A' : $y %}", None),
        ] {
            assert_eq!(read(text).texts(), texts, "{text}");
        }
        assert_eq!(
            read("{% ('a/' & 'b') & '/{}' %}").constant().unwrap(),
            "a/b/{}"
        );
        assert_eq!(read("{% 'a' & $x %}").constant(), None);
    }

    #[test]
    fn what_varies_is_no_constant() {
        for fixed in [
            "{% $join(['a', $states.context.Execution.Id], '/') %}",
            "States.Format('a/{}', $$.Execution.Id)",
            "{% 'a' %}",
        ] {
            assert!(!read(fixed).varies(), "{fixed}");
        }
        for other in [
            "{% $states.input.x %}",
            "{% $x %}",
            "{% 'a' & $uuid() %}",
            "$.x",
            "States.UUID()",
            "{% |$|{'a': 1}| %}",
        ] {
            assert!(read(other).varies(), "{other}");
        }
    }

    #[test]
    fn comparisons_have_two_sides() {
        let compared = |text: &str| {
            let expr = read(text);
            let all = expr.terms.iter().flat_map(|term| expr.compared(term));
            all.map(|(sign, path, other)| format!("{} {sign} {other:?}", path.name().unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            compared("{% 5 > $tries and $x.page <= 1e3 %}"),
            ["tries > Number(5.0)", "page <= Number(1000.0)"]
        );
        let expr = read("{% $a = 1 and $b = 2 and $c or $d ? 1 %}");
        let Some(Term::Choice(condition, ..)) = expr.whole() else {
            panic!("{expr:?}")
        };
        assert_eq!(expr.conjuncts(*condition).len(), 1);
    }

    #[test]
    fn what_is_no_jsonata_is_said() {
        for (text, fault) in [
            ("10 + * 2", Some("2 follows its end")),
            ("$a +", Some("it ends where a value is expected")),
            ("$f($a,, $b)", Some(", stands where a value is expected")),
            ("[$a, $b,]", Some("a value is missing before ]")),
            ("{'a': 1, 'b' 2}", Some("2 stands where } is expected")),
            ("$a $b", Some("$b follows its end")),
            (
                "5 := $a",
                Some("a value is assigned to what is no variable"),
            ),
            ("$a = !$b", Some("! stands where a value is expected")),
            ("function($x) $x", Some("$x stands where { is expected")),
            ("", Some("it ends where a value is expected")),
            ("$sum($a", Some("( has no counterpart")),
            ("$a.{'b': %.c}^(>d)[0] ~> |$|{'e': *.**}, ['f']|", None),
            ("$a.function($x, $y)<n-n:n>{$x + $y}(6)", None),
            ("($f := λ($x){ $x ?: $y ?? function }; $f(?, 1);)", None),
            ("$a@$b#$i.c[[0..2]]", None),
        ] {
            let found = read(&format!("{{% {text} %}}")).fault;
            assert_eq!(found.as_deref(), fault, "{text}");
        }
    }

    #[test]
    fn an_expression_closes_what_it_opens() {
        for (key, open) in [
            ("$.order.id", None),
            ("$.orders[0]['a]']", None),
            ("$.order[", Some('[')),
            ("{% 'orders/' & $states.input.order %}", None),
            ("{% $f($states.input.a[0], {'x': \"}\"}) %}", None),
            ("{% 'it\\'s' %}", None),
            ("{% $replace($x, /it's/, '') %}", None),
            ("{% 'orders/ & $states.input.order %}", Some('\'')),
            ("{% $f($states.input.a] %}", Some('(')),
            ("{% $a) %}", Some(')')),
            ("States.Format('a/{}', $.x", Some('(')),
        ] {
            assert_eq!(read(key).unclosed, open, "{key}");
        }
    }

    #[test]
    fn depth_and_chains_are_bounded() {
        for deep in [
            "(",
            "[",
            "{",
            "-",
            "$f(",
            "$a[",
            "$x ? ",
            "$x := ",
            "a.",
            "$a & ",
            "$x ? 1 : ",
            "function(",
            "$a and ",
        ] {
            let text = format!("{{% {}$last %}}", deep.repeat(20_000));
            let expr = read(&text);
            assert!(expr.variables().any(|name| name == "last"), "{deep}");
            _ = (
                expr.varies(),
                expr.most(),
                expr.texts(),
                expr.constant(),
                expr.clone() == expr,
            );
        }
        let closed = format!("{{% {}$x{} %}}", "(".repeat(90), ")".repeat(90));
        assert_eq!(read(&closed).path().and_then(Path::variable), Some("x"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in r#"[-$.\[\](){}'"/`*+?:=<>&@#|%^~,; ax1é\\]{0,60}"#) {
            for text in [format!("{{%{text}%}}"), format!("${text}"), format!("States.{text}")] {
                if let Some(expr) = Expr::read(&text) {
                    _ = (expr.varies(), expr.most(), expr.texts(), expr.constant(), expr.place());
                    let parts = expr.terms.iter().map(|term| expr.compared(term).len());
                    prop_assert!(parts.sum::<usize>() <= 2 * expr.terms.len());
                }
            }
        }
    }
}
