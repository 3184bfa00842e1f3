//! The shape that the service requires: which fields an object of a definition has, in which query language, and what their values
//! are. It is written from the Amazon States Language and the documentation of Step Functions, as tables.
//!
//! What is filled in when a template is deployed, or computed when the state runs, may be anything.

use crate::expr::{Language, Root, inside};
use crate::read::error_names::{ALL, nearest};
use crate::read::integrations;
use crate::read::node::{Member, Node, Span, Value};

/// What a value has to be, unless it is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Any,
    Text,
    Bool,
    Object,
    List,
    /// A list that is not empty.
    NotEmpty,
    /// A whole number from and to.
    Whole(f64, f64),
    /// A number from and to.
    Number(f64, f64),
    /// One of these words.
    Word(&'static str),
    /// A path or an intrinsic function, or null.
    Path,
    /// An instant.
    Timestamp,
}
use Form::{Any, Bool, List, NotEmpty, Number, Object, Path, Text, Timestamp, Whole, Word};

/// The longest timeout, in seconds, and the most attempts.
const MOST: f64 = 99_999_999.0;
/// The longest wait between two attempts, in seconds.
const LONGEST_DELAY: f64 = 31_622_400.0;
/// The most items of a batch, the most that run at once, the most that fail: any.
const MANY: f64 = 1e15;
/// The longest name, in characters.
const LONGEST_NAME: usize = 80;

const BOTH: Option<Language> = None;
const JSONATA: Option<Language> = Some(Language::Jsonata);
const PATHS: Option<Language> = Some(Language::JsonPath);

/// The name of a field, the objects that have it, the language in which they do, and its value.
type Field = (&'static str, &'static str, Option<Language>, Form);

#[rustfmt::skip]
const FIELDS: [Field; 91] = [
    ("Comment", "Machine Branch Processor Task Pass Wait Choice Succeed Fail Parallel Map Rule Retrier Catcher", BOTH, Text),
    ("QueryLanguage", "Machine Branch Processor Task Pass Wait Choice Succeed Fail Parallel Map", BOTH, Word("JSONPath JSONata")),
    ("StartAt", "Machine Branch Processor", BOTH, Any),
    ("States", "Machine Branch Processor", BOTH, Any),
    ("Version", "Machine", BOTH, Word("1.0")),
    ("ProcessorConfig", "Processor", BOTH, Object),
    ("Mode", "ProcessorConfig", BOTH, Word("INLINE DISTRIBUTED")),
    ("ExecutionType", "ProcessorConfig", BOTH, Word("STANDARD EXPRESS")),
    ("Type", "Task Pass Wait Choice Succeed Fail Parallel Map", BOTH, Any),
    ("Next", "Task Pass Wait Parallel Map Rule Catcher", BOTH, Any),
    ("End", "Task Pass Wait Parallel Map", BOTH, Bool),
    ("InputPath", "Task Pass Wait Choice Succeed Parallel Map", PATHS, Path),
    ("OutputPath", "Task Pass Wait Choice Succeed Parallel Map", PATHS, Path),
    ("Parameters", "Task Pass Parallel Map ItemReader ResultWriter", PATHS, Any),
    ("Result", "Pass", PATHS, Any),
    ("ResultSelector", "Task Parallel Map", PATHS, Object),
    ("ResultPath", "Task Pass Parallel Map Catcher", PATHS, Path),
    ("Arguments", "Task Parallel ItemReader ResultWriter", JSONATA, Any),
    ("Output", "Task Pass Wait Choice Succeed Parallel Map Rule Catcher", JSONATA, Any),
    ("Assign", "Task Pass Wait Choice Parallel Map Rule Catcher", BOTH, Object),
    ("Retry", "Task Parallel Map", BOTH, List),
    ("Catch", "Task Parallel Map", BOTH, List),
    ("ErrorEquals", "Retrier Catcher", BOTH, NotEmpty),
    ("IntervalSeconds", "Retrier", BOTH, Whole(1.0, MOST)),
    ("MaxAttempts", "Retrier", BOTH, Whole(0.0, MOST)),
    ("BackoffRate", "Retrier", BOTH, Number(1.0, MANY)),
    ("MaxDelaySeconds", "Retrier", BOTH, Whole(1.0, LONGEST_DELAY)),
    ("JitterStrategy", "Retrier", BOTH, Word("FULL NONE")),
    ("Resource", "Task ItemReader ResultWriter", BOTH, Text),
    ("Credentials", "Task", BOTH, Object),
    ("TimeoutSeconds", "Machine Task", BOTH, Whole(1.0, MOST)),
    ("TimeoutSecondsPath", "Task", PATHS, Path),
    ("HeartbeatSeconds", "Task", BOTH, Whole(1.0, MOST)),
    ("HeartbeatSecondsPath", "Task", PATHS, Path),
    ("Seconds", "Wait", BOTH, Whole(0.0, MOST)),
    ("SecondsPath", "Wait", PATHS, Path),
    ("Timestamp", "Wait", BOTH, Timestamp),
    ("TimestampPath", "Wait", PATHS, Path),
    ("Error", "Fail", BOTH, Text),
    ("ErrorPath", "Fail", PATHS, Path),
    ("Cause", "Fail", BOTH, Text),
    ("CausePath", "Fail", PATHS, Path),
    ("Branches", "Parallel", BOTH, Any),
    ("Choices", "Choice", BOTH, Any),
    ("Default", "Choice", BOTH, Text),
    ("Condition", "Rule", JSONATA, Bool),
    ("ItemProcessor", "Map", BOTH, Object),
    ("Iterator", "Map", BOTH, Object),
    ("Items", "Map", JSONATA, Any),
    ("ItemsPath", "Map", PATHS, Path),
    ("ItemSelector", "Map", BOTH, Any),
    ("ItemReader", "Map", BOTH, Object),
    ("ItemBatcher", "Map", BOTH, Object),
    ("ResultWriter", "Map", BOTH, Object),
    ("Label", "Map", BOTH, Text),
    ("MaxConcurrency", "Map", BOTH, Whole(0.0, MANY)),
    ("MaxConcurrencyPath", "Map", PATHS, Path),
    ("ToleratedFailureCount", "Map", BOTH, Whole(0.0, MANY)),
    ("ToleratedFailureCountPath", "Map", PATHS, Path),
    ("ToleratedFailurePercentage", "Map", BOTH, Number(0.0, 100.0)),
    ("ToleratedFailurePercentagePath", "Map", PATHS, Path),
    ("ReaderConfig", "ItemReader", BOTH, Object),
    ("WriterConfig", "ResultWriter", BOTH, Object),
    ("BatchInput", "ItemBatcher", BOTH, Object),
    ("MaxItemsPerBatch", "ItemBatcher", BOTH, Whole(1.0, MANY)),
    ("MaxItemsPerBatchPath", "ItemBatcher", PATHS, Path),
    ("MaxInputBytesPerBatch", "ItemBatcher", BOTH, Whole(1.0, MANY)),
    ("MaxInputBytesPerBatchPath", "ItemBatcher", PATHS, Path),
    ("Variable", "Rule", PATHS, Path),
    ("Not", "Rule", PATHS, Object),
    ("And", "Rule", PATHS, NotEmpty),
    ("Or", "Rule", PATHS, NotEmpty),
    ("BooleanEquals", "Rule", PATHS, Bool),
    ("BooleanEqualsPath", "Rule", PATHS, Path),
    ("IsBoolean", "Rule", PATHS, Bool),
    ("IsNull", "Rule", PATHS, Bool),
    ("IsNumeric", "Rule", PATHS, Bool),
    ("IsPresent", "Rule", PATHS, Bool),
    ("IsString", "Rule", PATHS, Bool),
    ("IsTimestamp", "Rule", PATHS, Bool),
    ("StringEquals", "Rule", PATHS, Text),
    ("StringMatches", "Rule", PATHS, Text),
    ("StringLessThan", "Rule", PATHS, Text),
    ("StringGreaterThan", "Rule", PATHS, Text),
    ("StringLessThanEquals", "Rule", PATHS, Text),
    ("StringGreaterThanEquals", "Rule", PATHS, Text),
    ("NumericEquals", "Rule", PATHS, Number(-MANY, MANY)),
    ("NumericLessThan", "Rule", PATHS, Number(-MANY, MANY)),
    ("NumericGreaterThan", "Rule", PATHS, Number(-MANY, MANY)),
    ("NumericLessThanEquals", "Rule", PATHS, Number(-MANY, MANY)),
    ("NumericGreaterThanEquals", "Rule", PATHS, Number(-MANY, MANY)),
];
/// The comparisons of instants have the same signs as those of numbers, and each comparison but two has a form with a path.
const SIGNS: [&str; 5] = [
    "Equals",
    "LessThan",
    "GreaterThan",
    "LessThanEquals",
    "GreaterThanEquals",
];

/// Fields of which an object has one at most.
const EXCLUSIVE: [&[&str]; 11] = [
    &["Seconds", "SecondsPath", "Timestamp", "TimestampPath"],
    &["TimeoutSeconds", "TimeoutSecondsPath"],
    &["HeartbeatSeconds", "HeartbeatSecondsPath"],
    &["Error", "ErrorPath"],
    &["Cause", "CausePath"],
    &["ItemProcessor", "Iterator"],
    &["ItemSelector", "Parameters"],
    &["MaxConcurrency", "MaxConcurrencyPath"],
    &["ToleratedFailureCount", "ToleratedFailureCountPath"],
    &[
        "ToleratedFailurePercentage",
        "ToleratedFailurePercentagePath",
    ],
    &["MaxItemsPerBatch", "MaxItemsPerBatchPath"],
];

/// A fault: where, and what.
pub(crate) type Fault = (Span, String);

/// The faults in the fields of a state or of a scope; not those of the states in it.
pub(crate) fn faults(node: &Node, what: &'static str, language: Language) -> Vec<Fault> {
    let mut shape = Shape {
        language,
        found: Vec::new(),
    };
    shape.object(node, what);
    match what {
        "Machine" | "Branch" => {}
        "Processor" => {
            shape.part(node, "ProcessorConfig");
            if let Some(config) = node.get("ProcessorConfig")
                && config.get("Mode").and_then(Node::text) == Some("DISTRIBUTED")
            {
                shape.needs(config, &["ExecutionType"], config.span);
            }
        }
        _ => shape.state(node, what),
    }
    shape.found
}

/// What is wrong with the name of a state.
pub(crate) fn fault_of_name(name: &str) -> Option<String> {
    let length = name.chars().count();
    (length > LONGEST_NAME)
        .then(|| format!("the name has {length} characters, and may have {LONGEST_NAME}"))
}

struct Shape {
    language: Language,
    found: Vec<Fault>,
}

impl Shape {
    fn say(&mut self, at: Span, what: impl Into<String>) {
        self.found.push((at, what.into()));
    }

    /// The fields of an object, and their values.
    fn object(&mut self, node: &Node, what: &'static str) {
        for member in node.members() {
            if !is_computed_whole(&member.key) {
                self.field(member, what);
            }
        }
        for others in EXCLUSIVE {
            let mut given = others.iter().filter_map(|field| node.member(field));
            if let (Some(one), Some(other)) = (given.next(), given.next()) {
                let last = if one.at.start > other.at.start {
                    one
                } else {
                    other
                };
                self.say(
                    last.at,
                    format!(
                        "it has {} and {}: remove one of the two",
                        one.key, other.key
                    ),
                );
            }
        }
    }

    fn field(&mut self, member: &Member, what: &'static str) {
        let key = member.key.as_str();
        let known: Vec<Field> = field_of(key).collect();
        let of = |field: &&Field| field.1.split(' ').any(|one| one == what);
        let Some((_, _, language, form)) = known.iter().find(of) else {
            let message = if known.is_empty() {
                let near = nearest(names(what), key, 4);
                let near = near.map_or_else(String::new, |near| format!("; {near}?"));
                format!("no {} has a field \"{key}\"{near}", general(what))
            } else {
                format!("a {what} has no field \"{key}\"")
            };
            return self.say(member.at, message);
        };
        if language.is_some_and(|language| language != self.language) {
            let (of, is) = if self.language.is_jsonata() {
                ("JSONPath", "JSONata")
            } else {
                ("JSONata", "JSONPath")
            };
            return self.say(
                member.at,
                format!("{key} is a field of {of}, and the state is in {is}"),
            );
        }
        self.value(&member.value, key, *form);
    }

    fn value(&mut self, node: &Node, key: &str, form: Form) {
        // A path reads `null` as nothing; anything else that is null is missing.
        let may_be_null = matches!(form, Any | Path);
        if is_open(node, self.language) && (may_be_null || !node.is_null()) {
            return;
        }
        let expected = match (form, &node.value) {
            (Any, _)
            | (Text, Value::Text(_))
            | (Bool, Value::Bool(_))
            | (Object, Value::Object(_))
            | (List, Value::List(_)) => return,
            (NotEmpty, Value::List(items)) if !items.is_empty() => return,
            (Whole(least, most), Value::Number(n))
                if n.fract() == 0.0 && (least..=most).contains(n) =>
            {
                return;
            }
            (Number(least, most), Value::Number(n)) if (least..=most).contains(n) => return,
            (Word(words), Value::Text(text)) if words.split(' ').any(|word| word == text) => return,
            (Path, Value::Text(text)) if text.starts_with('$') || text.starts_with("States.") => {
                return;
            }
            (Timestamp, Value::Text(text)) if is_instant(text) => return,
            (Text, _) => "a text".to_owned(),
            (Bool, _) => "true or false".to_owned(),
            (Object, _) => "an object".to_owned(),
            (List, _) => "a list".to_owned(),
            (NotEmpty, _) => "a list that is not empty".to_owned(),
            (Whole(least, most), _) => format!("a whole number {}", range(least, most)),
            (Number(least, most), _) => format!("a number {}", range(least, most)),
            (Word(words), _) => words.replace(' ', " or "),
            (Path, _) => "a path, which begins with $".to_owned(),
            (Timestamp, _) => "an instant like 2030-01-31T12:00:00Z".to_owned(),
        };
        let found = node.shown();
        self.say(
            node.span,
            format!("{key} is {found}, and has to be {expected}"),
        );
    }

    fn needs(&mut self, node: &Node, fields: &[&str], at: Span) {
        let is_given = |member: &Member| {
            is_computed_whole(&member.key) || fields.contains(&member.key.as_str())
        };
        if !is_open(node, self.language) && !node.members().iter().any(is_given) {
            self.say(at, format!("expected {}", fields.join(" or ")));
        }
    }

    fn state(&mut self, node: &Node, what: &str) {
        match what {
            "Task" => self.task(node),
            "Wait" => self.needs(node, EXCLUSIVE[0], node.span),
            "Choice" => {
                for rule in node.list_of("Choices") {
                    self.rule(rule, true);
                }
            }
            "Map" => {
                self.part(node, "ItemReader");
                self.part(node, "ItemBatcher");
                self.part(node, "ResultWriter");
            }
            _ => {}
        }
        let ends = node.get("End").filter(|end| end.is_true());
        if let (Some(next), Some(_)) = (node.member("Next"), ends)
            && what != "Succeed"
        {
            self.say(next.at, "it has a Next and ends: remove one of the two");
        }
        for (field, what) in [("Retry", "Retrier"), ("Catch", "Catcher")] {
            let clauses = node.list_of(field);
            for (nth, clause) in clauses.iter().enumerate() {
                self.clause(clause, what, nth + 1 == clauses.len());
            }
        }
        self.names_of_variables(node);
        self.expressions(node, false);
    }

    fn part(&mut self, node: &Node, what: &'static str) {
        if let Some(part) = node.get(what) {
            self.object(part, what);
        }
    }

    fn task(&mut self, node: &Node) {
        self.needs(node, &["Resource"], node.span);
        let role = node.get("Credentials");
        if let Some(role) = role.filter(|role| !role.members().is_empty()) {
            self.needs(role, &["RoleArn", "RoleArn.$"], role.span);
        }
        if let Some(resource) = node.get("Resource")
            && resource.tag.as_ref().is_none_or(|tag| tag == "Sub")
            && let Some(why) = resource.text().and_then(integrations::fault)
        {
            self.say(resource.span, why);
        }
        let number = |field| node.get(field).and_then(Node::literal_number);
        if let (Some(heartbeat), Some(limit)) =
            (number("HeartbeatSeconds"), number("TimeoutSeconds"))
            && heartbeat >= limit
            && let Some(at) = node.get("HeartbeatSeconds")
        {
            self.say(at.span, format!("HeartbeatSeconds is {heartbeat}, and has to be less than TimeoutSeconds, {limit}"));
        }
    }

    fn clause(&mut self, clause: &Node, what: &'static str, is_last: bool) {
        if clause.tag.is_some() {
            return;
        }
        self.object(clause, what);
        self.needs(clause, &["ErrorEquals"], clause.span);
        let errors = clause.list_of("ErrorEquals");
        for error in errors {
            self.value(error, "an error", Text);
        }
        let Some(all) = errors.iter().find(|error| error.text() == Some(ALL)) else {
            return;
        };
        if errors.len() > 1 {
            self.say(all.span, format!("{ALL} has to stand alone in its clause"));
        } else if !is_last {
            self.say(
                all.span,
                format!(
                    "{ALL} has to be in the last clause, since no error comes to those behind it"
                ),
            );
        }
    }

    /// A rule of a Choice, or one inside another, which leads nowhere.
    fn rule(&mut self, rule: &Node, is_outer: bool) {
        self.object(rule, "Rule");
        if let Some(next) = rule.member("Next").filter(|_| !is_outer) {
            self.say(next.at, "only the outermost rule has a Next");
        }
        self.names_of_variables(rule);
        if self.language.is_jsonata() {
            return self.needs(rule, &["Condition"], rule.span);
        }
        let is_operator = |member: &&Member| {
            let of =
                |field: Field| field.1 == "Rule" && !["Condition", "Variable"].contains(&field.0);
            field_of(&member.key).any(of)
        };
        let operators: Vec<&Member> = rule.members().iter().filter(is_operator).collect();
        match operators.as_slice() {
            [] if rule.tag.is_some()
                || rule
                    .members()
                    .iter()
                    .any(|member| is_computed_whole(&member.key)) => {}
            [] => self.say(rule.span, "expected a comparison, And, Or or Not"),
            [one] => match one.key.as_str() {
                "And" | "Or" => one
                    .value
                    .list()
                    .iter()
                    .for_each(|rule| self.rule(rule, false)),
                "Not" => self.rule(&one.value, false),
                _ => self.needs(rule, &["Variable"], rule.span),
            },
            [_, other, ..] => self.say(other.at, "a rule has one comparison"),
        }
    }

    fn names_of_variables(&mut self, node: &Node) {
        for member in node.members_of("Assign") {
            let name = member.name();
            let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
            let goes_on = name.chars().all(|c| c.is_alphanumeric() || c == '_');
            if is_computed_whole(name)
                || (begins && goes_on && name != "states" && name.chars().count() <= LONGEST_NAME)
            {
                continue;
            }
            self.say(member.at, format!("\"{name}\" is no name of a variable: at most 80 letters, digits and _, no digit first, and not states"));
        }
    }

    /// The expressions in the fields of a state, at any depth.
    fn expressions(&mut self, node: &Node, is_path: bool) {
        match &node.value {
            Value::Text(text) => self.expression(node, text, is_path),
            Value::List(items) => items.iter().for_each(|item| self.expressions(item, false)),
            Value::Object(members) => {
                for member in members {
                    let key = member.key.as_str();
                    let is_path = !self.language.is_jsonata() && key.ends_with(".$");
                    // What is inside has states of its own, and texts for people compute nothing.
                    if ![
                        "Branches",
                        "ItemProcessor",
                        "Iterator",
                        "Comment",
                        "Type",
                        "Next",
                    ]
                    .contains(&key)
                    {
                        self.expressions(&member.value, is_path);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) if is_path => {
                self.say(
                    node.span,
                    "a field that ends with .$ has a path or an intrinsic function",
                );
            }
            _ => {}
        }
    }

    fn expression(&mut self, node: &Node, text: &str, is_path: bool) {
        if is_filled(node) {
            return;
        }
        if self.language.is_jsonata() && inside(text).is_none() {
            let opens = text.trim_start().starts_with("{%");
            let closes = text.trim_end().ends_with("%}") && !text.contains("{%");
            if opens || closes {
                self.say(node.span, "an expression begins with {% and ends with %}");
            }
            return;
        }
        let Some(expr) = node.expr_in(self.language) else {
            if is_path {
                self.say(
                    node.span,
                    "a field that ends with .$ has a path or an intrinsic function",
                );
            }
            return;
        };
        if let Some(fault) = expr
            .fault
            .as_ref()
            .filter(|_| is_path || self.language.is_jsonata())
        {
            self.say(node.span, format!("the expression cannot be read: {fault}"));
        }
        let fields = ["input", "result", "errorOutput", "context"];
        for path in expr.paths().filter(|path| path.root == Root::States) {
            if let Some(step) = path.steps.first() {
                let near = nearest(fields.into_iter(), step, 3);
                let near = near.map_or_else(String::new, |near| format!("; {near}?"));
                self.say(node.span, format!("$states has no field \"{step}\"{near}"));
            }
        }
    }
}

/// The rows of a field's name.
fn field_of(name: &str) -> impl Iterator<Item = Field> + '_ {
    let listed = FIELDS.into_iter().filter(move |field| field.0 == name);
    listed.chain(comparison(name))
}

/// A comparison that is not listed: of an instant, or with a path.
fn comparison(name: &str) -> Option<Field> {
    let (plain, is_path) = match name.strip_suffix("Path") {
        Some(plain) => (plain, true),
        None => (name, false),
    };
    let mut kinds = ["String", "Numeric", "Timestamp"].into_iter();
    let (kind, sign) = kinds.find_map(|kind| Some((kind, plain.strip_prefix(kind)?)))?;
    if !SIGNS.contains(&sign) || !(is_path || kind == "Timestamp") {
        return None;
    }
    Some(("", "Rule", PATHS, if is_path { Path } else { Timestamp }))
}

/// The names of the fields that such an object has.
fn names(what: &'static str) -> impl Iterator<Item = &'static str> {
    let fields = FIELDS.into_iter().rev();
    let of = move |field: &Field| field.1.split(' ').any(|one| one == what);
    fields.filter(of).map(|(name, ..)| name)
}

fn general(what: &str) -> &str {
    match what {
        "Machine" => "state machine",
        "Task" | "Pass" | "Wait" | "Choice" | "Succeed" | "Fail" | "Parallel" | "Map" => "state",
        "Retrier" => "clause of a Retry",
        "Catcher" => "clause of a Catch",
        "Rule" => "rule of a Choice",
        other => other,
    }
}

fn range(least: f64, most: f64) -> String {
    match (least, most) {
        (_, MANY) if least < 0.0 => String::new(),
        (_, MANY) => format!("of at least {least}"),
        _ => format!("from {least} to {most}"),
    }
}

/// Whether it is an instant of RFC 3339 with a capital T, and a Z or an offset.
fn is_instant(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = b"0000-00-00T00:00:00";
    let fits = |(one, of): (&u8, &u8)| {
        if *of == b'0' {
            one.is_ascii_digit()
        } else {
            one == of
        }
    };
    let Some((begin, rest)) = text.split_at_checked(shape.len()) else {
        return false;
    };
    let zone = rest.strip_prefix('.').map_or(rest, |rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
    });
    let is_zone = zone == "Z"
        || (zone.len() == 6 && zone.starts_with(['+', '-']) && zone.as_bytes()[3] == b':');
    bytes.iter().zip(shape).all(fits) && begin.is_ascii() && is_zone
}

/// Whether a value stands for another one: it is computed when the state runs, or filled in when the template is deployed.
pub(crate) fn is_open(node: &Node, language: Language) -> bool {
    let is_function = node
        .members()
        .iter()
        .any(|member| is_computed_whole(&member.key));
    // A path in a plain field of JSONPath is literal text.
    (language.is_jsonata() && node.expr_in(language).is_some())
        || node.is_null()
        || is_filled(node)
        || is_function
}

/// Whether a text is filled in when the template is deployed.
fn is_filled(node: &Node) -> bool {
    node.tag.is_some() || node.text().is_some_and(|text| text.contains("${"))
}

/// A field that stands for the whole object.
pub(crate) fn is_computed_whole(key: &str) -> bool {
    key.starts_with("Fn::") || ["Ref", "<<"].contains(&key)
}
