//! From tokens to terms, by the powers of the operators.

use crate::expr::Language;
use crate::expr::term::{Path, Root, Term, TermId};
use crate::expr::tokens::Token;

/// Deeper than expressions of people. The limit exists because parsing is recursive.
const DEEPEST: usize = 100;

/// The operators after an operand, each with its power.
const INFIX: [(&str, u8); 28] = [
    ("[", 80),
    ("(", 80),
    ("@", 80),
    ("#", 80),
    (".", 75),
    ("{", 70),
    ("*", 60),
    ("/", 60),
    ("%", 60),
    ("+", 50),
    ("-", 50),
    ("&", 50),
    ("=", 40),
    ("!=", 40),
    ("<", 40),
    ("<=", 40),
    (">", 40),
    (">=", 40),
    ("in", 40),
    ("~>", 40),
    ("^", 40),
    ("??", 40),
    ("?:", 40),
    ("and", 30),
    ("or", 25),
    ("?", 20),
    ("..", 20),
    (":=", 10),
];
const STEP: u8 = 75;

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    language: Language,
    depth: usize,
    terms: Vec<Term>,
    /// Whether something is not known. What follows is read nevertheless.
    is_unread: bool,
    /// The first that the language does not have there.
    fault: Option<String>,
}

/// What an expression was read as.
pub(super) struct Parsed {
    pub terms: Vec<Term>,
    /// The term that is the whole, unless something in it is not known.
    pub whole: Option<TermId>,
    pub fault: Option<String>,
}

pub(super) fn parse(tokens: Vec<Token>, language: Language) -> Parsed {
    let mut parser = Parser {
        tokens: tokens.into_iter().peekable(),
        language,
        depth: 0,
        terms: Vec::new(),
        is_unread: false,
        fault: None,
    };
    let whole = parser.expression(0);
    while let Some(token) = parser.tokens.peek() {
        let what = format!("{} follows its end", token.shown());
        parser.fault(what);
        parser.expression(0);
    }
    Parsed {
        terms: parser.terms,
        whole: (!parser.is_unread).then_some(whole),
        fault: parser.fault,
    }
}

/// Whether a function is written out behind this word.
fn is_function(word: &str) -> bool {
    matches!(word, "function" | "λ")
}

impl Parser {
    fn expression(&mut self, least: u8) -> TermId {
        self.depth += 1;
        let is_too_deep = self.depth > DEEPEST;
        self.is_unread |= is_too_deep;
        let mut left = self.operand(is_too_deep);
        let fits = |(_, power): &(&str, u8)| !is_too_deep && *power >= least;
        while let Some((sign, power)) = self.infix().filter(fits) {
            self.tokens.next();
            left = match sign {
                "." => self.step(left),
                "[" => self.index(left),
                "(" => self.call(left),
                "{" => {
                    self.sequence("}");
                    self.push(Term::Other)
                }
                "?" => {
                    let one = self.expression(0);
                    let other = self.takes(":").then(|| self.expression(0));
                    self.push(Term::Choice(left, one, other))
                }
                sign => {
                    let names =
                        matches!(&self.terms[left], Term::Path(path) if path.steps.is_empty());
                    if sign == ":=" && !names {
                        self.fault("a value is assigned to what is no variable".to_owned());
                    }
                    // A value is assigned from right to left.
                    let right = self.expression(power + u8::from(sign != ":="));
                    self.push(Term::Binary(sign, left, right))
                }
            };
        }
        self.depth -= 1;
        left
    }

    fn infix(&mut self) -> Option<(&'static str, u8)> {
        let sign = match self.tokens.peek()? {
            Token::Sign(sign) => sign,
            Token::Name(name) => name.as_str(),
            _ => return None,
        };
        INFIX.into_iter().find(|(other, _)| *other == sign)
    }

    fn operand(&mut self, is_too_deep: bool) -> TermId {
        let Some(token) = self.tokens.next() else {
            self.fault("it ends where a value is expected".to_owned());
            return self.push(Term::Other);
        };
        let term = match token {
            Token::Text(text) => Term::Text(text),
            Token::Number(number) => Term::Number(number),
            Token::Name(name) if !is_too_deep && is_function(&name) && self.takes("(") => {
                self.function();
                Term::Other
            }
            Token::Name(name) => Term::Path(Path::new(Root::Other, &[&name])),
            Token::Variable(name) => Term::Path(Path::new(self.root(name), &[])),
            Token::Regex | Token::Sign("*" | "**" | "%" | "?") => Term::Other,
            Token::Sign(sign @ ("(" | "[" | "{" | "-" | "<" | ">" | "|")) if !is_too_deep => {
                return self.prefixed(sign);
            }
            Token::Sign(_) if is_too_deep => Term::Other,
            Token::Sign(_) | Token::Broken(_) => {
                self.fault(format!(
                    "{} stands where a value is expected",
                    token.shown()
                ));
                Term::Other
            }
        };
        self.push(term)
    }

    /// The operand that begins with this sign.
    fn prefixed(&mut self, sign: &'static str) -> TermId {
        let term = match sign {
            "(" => match self.sequence(")").last() {
                Some(&value) => return value,
                None => Term::Other,
            },
            "[" => Term::List(self.sequence("]")),
            "{" => {
                self.sequence("}");
                Term::Other
            }
            "-" => {
                let of = self.expression(STEP);
                match self.terms[of] {
                    Term::Number(number) => Term::Number(-number),
                    _ => Term::Other,
                }
            }
            "|" => {
                self.transform();
                Term::Other
            }
            // A direction in an order.
            _ => return self.expression(0),
        };
        self.push(term)
    }

    fn root(&self, variable: String) -> Root {
        match (variable.as_str(), self.language) {
            ("", Language::JsonPath) => Root::Data,
            ("$", Language::JsonPath) => Root::Context,
            ("" | "$", Language::Jsonata) => Root::Other,
            ("states", Language::Jsonata) => Root::States,
            _ => Root::Variable(variable),
        }
    }

    /// What follows a dot.
    fn step(&mut self, left: TermId) -> TermId {
        let is_name = |token: &Token| matches!(token, Token::Name(_) | Token::Text(_));
        if let Some(Token::Name(name) | Token::Text(name)) = self.tokens.next_if(is_name) {
            if is_function(&name) && self.takes("(") {
                self.function();
                return self.push(Term::Other);
            }
            if let Term::Path(path) = &mut self.terms[left] {
                path.push(name);
                return left;
            }
            return self.push(Term::Path(Path::new(Root::Other, &[&name])));
        }
        self.expression(STEP + 1);
        self.push(Term::Other)
    }

    /// An index or a filter. In JSONPath a name may stand there.
    fn index(&mut self, left: TermId) -> TermId {
        let inside = self.sequence("]");
        if self.language == Language::Jsonata {
            return left;
        }
        let index = match inside.as_slice() {
            [index] => self.terms[*index].clone(),
            _ => Term::Other,
        };
        match (&mut self.terms[left], index) {
            (Term::Path(path), Term::Text(name)) => path.push(name),
            (_, Term::Number(_)) => {}
            _ => return self.push(Term::Other),
        }
        left
    }

    fn call(&mut self, left: TermId) -> TermId {
        let parts = self.sequence(")");
        // The name of a function is not read as a variable.
        let name = match std::mem::replace(&mut self.terms[left], Term::Other) {
            Term::Path(path) => match path.variable() {
                Some(name) => format!("${name}"),
                None => path.steps.join("."),
            },
            _ => String::new(),
        };
        self.push(Term::Call(name, parts))
    }

    /// The parameters, the signature and the body of a function.
    fn function(&mut self) {
        self.sequence(")");
        if self.tokens.peek() == Some(&Token::Sign("<")) {
            let is_signature = |token: &Token| *token != Token::Sign("{");
            while self.tokens.next_if(is_signature).is_some() {}
        }
        self.expects("{");
        self.sequence("}");
    }

    /// Where, what to change, and what to remove.
    fn transform(&mut self) {
        self.expression(0);
        self.expects("|");
        self.expression(0);
        if self.takes(",") {
            self.expression(0);
        }
        self.expects("|");
        // It is the transformation that is not known, not what it reads.
        self.is_unread = true;
    }

    /// The expressions up to a bracket, whatever is between them.
    fn sequence(&mut self, close: &'static str) -> Vec<TermId> {
        let mut found = Vec::new();
        while !self.takes(close) {
            found.push(self.expression(0));
            let is_separator = |token: &Token| matches!(token, Token::Sign("," | ";" | ":"));
            match self.tokens.next_if(is_separator) {
                Some(Token::Sign(";")) => {}
                Some(_) if self.tokens.peek() == Some(&Token::Sign(close)) => {
                    self.fault(format!("a value is missing before {close}"));
                }
                Some(_) => {}
                None => {
                    self.expects(close);
                    break;
                }
            }
        }
        found
    }

    fn expects(&mut self, sign: &'static str) {
        if self.takes(sign) {
            return;
        }
        let found = match self.tokens.peek() {
            Some(token) => format!("{} stands", token.shown()),
            None => "it ends".to_owned(),
        };
        self.fault(format!("{found} where {sign} is expected"));
    }

    fn takes(&mut self, sign: &'static str) -> bool {
        self.tokens.next_if_eq(&Token::Sign(sign)).is_some()
    }

    fn fault(&mut self, what: String) {
        self.is_unread = true;
        self.fault.get_or_insert(what);
    }

    fn push(&mut self, term: Term) -> TermId {
        self.terms.push(term);
        self.terms.len() - 1
    }
}
