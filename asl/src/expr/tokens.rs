//! The words and signs of an expression.

use crate::expr::Language;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Text(String),
    Number(f64),
    /// A function or a field, also in backticks.
    Name(String),
    /// The name after a `$`, which may be empty, or `$` after another.
    Variable(String),
    Sign(&'static str),
    Regex,
    /// The mark of a literal that does not end, or a character that is no sign.
    Broken(char),
}

impl Token {
    /// As a message names it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) => format!("\"{text}\""),
            Self::Number(number) => number.to_string(),
            Self::Name(name) => name.clone(),
            Self::Variable(name) => format!("${name}"),
            Self::Sign(sign) => (*sign).to_owned(),
            Self::Regex => "a regular expression".to_owned(),
            Self::Broken(c) => c.to_string(),
        }
    }
}

/// Longer ones first.
const SIGNS: [&str; 33] = [
    "**", "??", "?:", ":=", "!=", "<=", ">=", "~>", "..", ".", "[", "]", "{", "}", "(", ")", ",",
    ";", ":", "?", "+", "-", "*", "/", "%", "|", "=", "<", ">", "^", "&", "@", "#",
];

pub(super) fn tokens(text: &str, language: Language) -> Vec<Token> {
    // A step of a path in JSONPath may be `order-id`.
    let dash = language == Language::JsonPath;
    let is_part = |c: char| is_name(c) || (dash && c == '-');
    let word = |text: &str| text.find(|c| !is_part(c)).unwrap_or(text.len());
    let mut found: Vec<Token> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        let after = &rest[length..];
        let token = match c {
            '/' if after.starts_with('*') => {
                length = after[1..].find("*/").map_or(rest.len(), |end| end + 4);
                None
            }
            '\'' | '"' | '`' => Some(literal(rest, c, &mut length)),
            '/' if begins_operand(found.last()) => Some(literal(rest, c, &mut length)),
            // A substitution of the template.
            '$' if after.starts_with('{') => {
                length = rest.find('}').map_or(rest.len(), |end| end + 1);
                Some(Token::Text(rest[..length].to_owned()))
            }
            '$' => {
                let end = if after.starts_with('$') {
                    1
                } else {
                    word(after)
                };
                length += end;
                Some(Token::Variable(after[..end].to_owned()))
            }
            '0'..='9' => {
                length = number(rest);
                let number = rest[..length].parse();
                Some(number.map_or(Token::Broken(c), Token::Number))
            }
            _ if is_name(c) => {
                length = word(rest);
                Some(Token::Name(rest[..length].to_owned()))
            }
            _ => {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                length = sign.map_or(length, str::len);
                Some(sign.map_or(Token::Broken(c), Token::Sign))
            }
        };
        found.extend(token);
        rest = rest[length..].trim_start();
    }
    found
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether an operand follows this token, not an operator: a `/` then begins a regular expression.
fn begins_operand(before: Option<&Token>) -> bool {
    match before {
        Some(Token::Name(name)) => matches!(name.as_str(), "and" | "or" | "in"),
        Some(Token::Sign(sign)) => !matches!(*sign, ")" | "]" | "}"),
        before => before.is_none(),
    }
}

/// The length of a number. The dots in `[0..9]` are none of it.
fn number(text: &str) -> usize {
    let digits = |text: &str| {
        let other = |c: char| !c.is_ascii_digit();
        text.find(other).unwrap_or(text.len())
    };
    let mut end = digits(text);
    if let Some(fraction) = text[end..].strip_prefix('.')
        && digits(fraction) > 0
    {
        end += 1 + digits(fraction);
    }
    if let Some(power) = text[end..].strip_prefix(['e', 'E']) {
        let signed = power.strip_prefix(['+', '-']).unwrap_or(power);
        if digits(signed) > 0 {
            end += 1 + power.len() - signed.len() + digits(signed);
        }
    }
    end
}

/// A literal between two marks, and its length. A mark within brackets does not close a regular expression.
fn literal(text: &str, mark: char, length: &mut usize) -> Token {
    let (mut content, mut depth) = (String::new(), 0);
    let mut rest = text.char_indices().skip(1);
    *length = text.len();
    while let Some((at, c)) = rest.next() {
        match c {
            '\\' => content.extend(rest.next().map(|(_, escaped)| escaped)),
            _ if c == mark && depth == 0 => {
                *length = at + 1;
                return match mark {
                    '/' => {
                        let flags = text[*length..].chars();
                        *length += flags.take_while(|flag| matches!(flag, 'i' | 'm')).count();
                        Token::Regex
                    }
                    '`' => Token::Name(content),
                    _ => Token::Text(content),
                };
            }
            _ => {
                if mark == '/' {
                    depth += i32::from(matches!(c, '(' | '[' | '{'));
                    depth -= i32::from(matches!(c, ')' | ']' | '}'));
                }
                content.push(c);
            }
        }
    }
    Token::Broken(mark)
}

/// The bracket or quote that is opened and not closed, or closed and not opened.
pub(super) fn unclosed(tokens: &[Token]) -> Option<char> {
    let mut open = Vec::new();
    for token in tokens {
        match token {
            Token::Broken(mark @ ('\'' | '"' | '`')) => return Some(*mark),
            Token::Sign("(") => open.push(('(', ")")),
            Token::Sign("[") => open.push(('[', "]")),
            Token::Sign("{") => open.push(('{', "}")),
            Token::Sign(sign @ (")" | "]" | "}")) => match open.pop() {
                Some((_, close)) if close == *sign => {}
                Some((opened, _)) => return Some(opened),
                None => return sign.chars().next(),
            },
            _ => {}
        }
    }
    open.pop().map(|(opened, _)| opened)
}
