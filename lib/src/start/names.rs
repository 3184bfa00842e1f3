//! What a start names: a state machine, an execution, its input.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::PassLease;
use crate::{
    outcomes::Lease,
    values::{BadValue, Holder, Permits},
};

/// The ARN of a standard state machine, also with a version or an alias.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StateMachineArn(String);

impl StateMachineArn {
    /// Checks `arn`.
    ///
    /// # Errors
    /// [`BadValue`] if it cannot be the ARN of a state machine.
    pub fn new(arn: impl Into<String>) -> Result<Self, BadValue> {
        let arn = arn.into();
        let parts: Vec<_> = arn.split(':').collect();
        let fits = match *parts {
            ["arn", _, "states", _, _, "stateMachine", _]
            | ["arn", _, "states", _, _, "stateMachine", _, _] => !parts.contains(&""),
            _ => false,
        };
        let fits = fits && arn.len() <= 256 && !arn.contains(['*', '?', ',']);
        if fits {
            return Ok(Self(arn));
        }
        Err(BadValue(
            "must be the ARN of a state machine, with or without a version or an alias".to_owned(),
        ))
    }

    /// The ARN, as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without a version or an alias.
    #[must_use]
    pub fn unqualified(&self) -> &str {
        let end = self.0.match_indices(':').nth(6).map(|(at, _)| at);
        &self.0[..end.unwrap_or(self.0.len())]
    }

    /// The execution of this machine with this name.
    #[must_use]
    pub fn execution(&self, name: &ExecutionName) -> Holder {
        let machine = self
            .unqualified()
            .replacen(":stateMachine:", ":execution:", 1);
        Holder::stored(&format!("{machine}:{name}"))
    }

    pub(crate) fn stored(arn: &str) -> Self {
        Self(arn.to_owned())
    }
}

impl TryFrom<String> for StateMachineArn {
    type Error = BadValue;

    fn try_from(arn: String) -> Result<Self, BadValue> {
        Self::new(arn)
    }
}

impl From<StateMachineArn> for String {
    fn from(arn: StateMachineArn) -> Self {
        arn.0
    }
}

impl fmt::Display for StateMachineArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of an execution: 1 to 80 characters, as Step Functions allows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExecutionName(String);

impl ExecutionName {
    /// Checks `name`.
    ///
    /// # Errors
    /// [`BadValue`] says what is wrong.
    pub fn new(name: impl Into<String>) -> Result<Self, BadValue> {
        let name = name.into();
        if name.is_empty() || name.chars().count() > 80 {
            return Err(BadValue("must have 1 to 80 characters".to_owned()));
        }
        let is_refused =
            |c: char| c.is_whitespace() || c.is_control() || "<>{}[]?*\"#%\\^|~`$&,;:/".contains(c);
        match name.chars().find(|c| is_refused(*c)) {
            Some(_) => Err(BadValue(
                "must not contain white space, control characters or any of < > { } [ ] ? * \" # % \\ ^ | ~ ` $ & , ; : /"
                    .to_owned(),
            )),
            None => Ok(Self(name)),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn stored(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl TryFrom<String> for ExecutionName {
    type Error = BadValue;

    fn try_from(name: String) -> Result<Self, BadValue> {
        Self::new(name)
    }
}

impl From<ExecutionName> for String {
    fn from(name: ExecutionName) -> Self {
        name.0
    }
}

impl fmt::Display for ExecutionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The input of an execution: JSON of at most 262,144 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExecutionInput(String);

/// The longest input that Step Functions takes, in bytes.
const LONGEST: usize = 262_144;

/// How many bytes [`PassLease::Token`] adds at most: a key of 1,024 bytes with every escape, and a number.
const TOKEN: usize = 6 * 1024 + 100;

/// How many [`PassLease::Handle`] adds: also the handle, with the key, the execution's ARN, and metadata of 4,096 bytes with every
/// escape, in as many entries as it can have.
const HANDLE: usize = LONGEST - 220_000;

/// The name of what `pass_lease` adds.
const PASSED: &str = "leasehold";

impl ExecutionInput {
    /// Checks `json`.
    ///
    /// # Errors
    /// [`BadValue`] if it is no JSON, or too long.
    pub fn new(json: impl Into<String>) -> Result<Self, BadValue> {
        let json = json.into();
        if json.len() > LONGEST {
            return Err(BadValue(format!(
                "must be at most {LONGEST} bytes of JSON, is {}",
                json.len()
            )));
        }
        if serde_json::from_str::<serde::de::IgnoredAny>(&json).is_err() {
            return Err(BadValue("must be JSON".to_owned()));
        }
        Ok(Self(json))
    }

    /// The JSON, as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn stored(json: &str) -> Self {
        Self(json.to_owned())
    }

    /// Whether a lease can be added.
    pub(crate) fn takes(&self, pass: PassLease) -> Result<(), BadValue> {
        let most = match pass {
            PassLease::Nothing => return Ok(()),
            PassLease::Token => LONGEST - TOKEN,
            PassLease::Handle => LONGEST - HANDLE,
        };
        let value = self.value();
        let has_room = value
            .as_object()
            .is_some_and(|fields| !fields.contains_key(PASSED));
        if self.0.len() <= most && has_room {
            return Ok(());
        }
        Err(BadValue(format!(
            "must be an object of at most {most} bytes without a field {PASSED}, which pass_lease adds"
        )))
    }

    /// With what of a lease is passed; of one of several permits also its number.
    pub(crate) fn with(&self, pass: PassLease, permits: Option<Permits>, lease: &Lease) -> String {
        if pass == PassLease::Nothing {
            return self.0.clone();
        }
        let mut passed = json!({"key": lease.key, "fencing_token": lease.fencing_token});
        if permits.is_some_and(|permits| permits.get() > 1) {
            passed["permit"] = lease.permit.into();
        }
        if pass == PassLease::Handle {
            passed["lease"] = json!(lease);
        }
        // The text goes on as it came: read and written, a number of many digits would be another.
        let fields = self.0.trim_end().strip_suffix('}').unwrap_or_default();
        let comma = if fields.trim_end().ends_with('{') {
            ""
        } else {
            ", "
        };
        format!("{fields}{comma}\"{PASSED}\": {passed}}}")
    }

    /// Whether an execution with the input `other` has this one: as JSON, and whatever lease it was passed.
    pub(crate) fn is(&self, other: &str, pass: PassLease) -> bool {
        let without_lease = |text: &str| {
            let mut json = Exact::read(text)?;
            if let Exact::Object(fields) = &mut json
                && pass != PassLease::Nothing
            {
                fields.remove(PASSED);
            }
            Some(json)
        };
        let own = without_lease(&self.0);
        own.is_some() && own == without_lease(other)
    }

    fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// JSON of which a number is its text, unless a [`Value`] keeps every digit of it.
#[derive(PartialEq)]
enum Exact {
    Other(Value),
    Number(String),
    List(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

/// How many digits of a decimal number are kept by reading it.
const KEPT_DIGITS: usize = 15;

impl Exact {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        Some(match text.chars().next()? {
            '{' => {
                let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
                let fields = fields.into_iter();
                let fields = fields.map(|(name, field)| Some((name, Self::read(field.get())?)));
                Self::Object(fields.collect::<Option<_>>()?)
            }
            '[' => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                let items = items.iter().map(|item| Self::read(item.get()));
                Self::List(items.collect::<Option<_>>()?)
            }
            _ => match serde_json::from_str(text).ok()? {
                Value::Number(number)
                    if number.is_f64()
                        && text.chars().filter(char::is_ascii_digit).count() > KEPT_DIGITS =>
                {
                    Self::Number(text.to_owned())
                }
                other => Self::Other(other),
            },
        })
    }
}

impl Default for ExecutionInput {
    fn default() -> Self {
        Self("{}".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Acquire, Leases, Memory, Metadata, Settings,
        test_support::{grant, make},
    };

    fn input(json: &str) -> ExecutionInput {
        ExecutionInput::new(json).expect("valid")
    }

    #[tokio::test]
    async fn text_goes_on_as_it_came() {
        let leases = Leases::new(Memory::new(), Settings::default());
        let ttl = make::ttl(std::time::Duration::from_mins(1));
        let request = Acquire::new(make::key("k"), make::holder("h"), ttl);
        let lease = grant(&leases, request).await.lease;
        let long = r#"{"b": 18446744073709551616, "a": 0.12345678901234567890 }"#;
        let sent = input(long).with(PassLease::Token, None, &lease);
        assert!(sent.starts_with(long.trim_end_matches(" }")), "{sent}");
        let read: Value = serde_json::from_str(&sent).expect("JSON");
        assert_eq!(read[PASSED]["key"], "k");
        assert!(input(long).is(&sent, PassLease::Token));
        let empty = input(" { } ").with(PassLease::Token, None, &lease);
        assert!(input("{}").is(&empty, PassLease::Token), "{empty}");
    }

    /// As long in JSON as a lease can be: each character has its longest escape, and metadata as many entries as fit.
    async fn longest_lease() -> Lease {
        let leases = Leases::new(Memory::new(), Settings::default());
        let ttl = make::ttl(std::time::Duration::from_mins(1));
        let request = Acquire::new(make::key("k"), make::holder("h"), ttl);
        let one = || {
            (0..32)
                .map(char::from)
                .filter(|c| !"\u{8}\t\n\u{c}\r".contains(*c))
        };
        let two = || one().flat_map(|a| one().map(move |b| format!("{a}{b}")));
        let three = one().flat_map(|a| two().map(move |b| format!("{a}{b}")));
        let names = one().map(String::from).chain(two()).chain(three);
        let mut bytes = 0;
        let names = names.take_while(|name| {
            bytes += name.len();
            bytes <= 4096
        });
        let metadata = names.map(|name| (name, String::new())).collect();
        let machine = format!(
            "arn:aws:states:us-east-1:123456789012:execution:{}",
            "m".repeat(210)
        );
        Lease {
            key: make::key("\"".repeat(1024)),
            holder: make::holder(format!("{machine}:{}", "\u{10000}".repeat(80))),
            permit: 999,
            metadata: Metadata::new(metadata).expect("valid"),
            ..grant(&leases, request).await.lease
        }
    }

    #[tokio::test]
    async fn whatever_lease_is_passed_fits() {
        let lease = longest_lease().await;
        // docs/reference/api.md says so.
        for (pass, most) in [(PassLease::Token, 255_900), (PassLease::Handle, 220_000)] {
            let long = |bytes: usize| input(&format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8)));
            assert_eq!(long(most).takes(pass), Ok(()), "{pass:?}");
            assert!(long(most + 1).takes(pass).is_err(), "{pass:?}");
            let sent = long(most).with(pass, Some(make::permits(1000)), &lease);
            assert!(sent.len() <= LONGEST, "{pass:?}: {}", sent.len());
        }
    }

    #[test]
    fn same_json_is_the_same_input() {
        let one = input(r#"{"a": [1, 2.50], "n": 18446744073709551616, "t": "x\u0041"}"#);
        let same = r#"{ "t":"xA","n":18446744073709551616,"a":[1,2.5]}"#;
        assert!(one.is(same, PassLease::Nothing));
        for other in [
            same.replace("616", "617"),
            same.replace("2.5", "2.51"),
            same.replace("xA", "xB"),
            "[1".to_owned(),
        ] {
            assert!(!one.is(&other, PassLease::Nothing), "{other}");
        }
    }
}
