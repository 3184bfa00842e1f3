//! A user's own functions and state machines, beside those of the template.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::time::Duration;

use clap::Args;
use leasehold_local::{Code, Error, Function, Stack};
use serde::de::IgnoredAny;

/// As long as Lambda allows.
const TIMEOUT: Duration = Duration::from_mins(15);
const CONCURRENCY: usize = 50;

/// What a user adds to the stack.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct UserCode {
    /// A Lambda function of yours: a command that runs its runtime, or the URL of a server that gets each event by POST; may be repeated
    #[arg(long, value_name = "NAME=COMMAND|URL", value_parser = function)]
    function: Vec<(String, Code)>,
    /// A state machine of yours, by its definition in JSON, in which `${NAME}` and `${NAMEArn}` are functions; may be repeated
    #[arg(long, value_name = "NAME=FILE", value_parser = machine, conflicts_with = "no_engine")]
    machine: Vec<(String, PathBuf)>,
}

/// Splits `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A name as Lambda and Step Functions allow it.
fn named(text: &str) -> Result<(String, String), String> {
    let (name, value) = pair(text)?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_allowed) {
        return Err(format!(
            "{name:?} is no name: 1 to 64 letters, digits, - and _"
        ));
    }
    Ok((name, value))
}

fn function(text: &str) -> Result<(String, Code), String> {
    let (name, code) = named(text)?;
    Ok((name, code.parse()?))
}

fn machine(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = named(text)?;
    Ok((name, file.into()))
}

impl UserCode {
    /// Registers the functions, then creates the machines. Returns the ARNs of the machines by name.
    pub(crate) async fn add_to(&self, stack: &Stack) -> Result<BTreeMap<String, String>, Error> {
        for (name, code) in &self.function {
            if stack.functions().function(name).is_ok() {
                return Err(Error::call(
                    format_args!("--function {name}"),
                    "there is a function of this name already",
                ));
            }
            stack.functions().register(Function {
                logical_id: name.clone(),
                verb: name.clone(),
                code: code.clone(),
                environment: stack.variables(),
                timeout: TIMEOUT,
                here: None,
                memory_mb: 128,
                concurrency: CONCURRENCY,
            });
        }
        // Together, because most of the time is the runtimes' own.
        let functions = stack.functions();
        let mut trials: Vec<_> = self
            .function
            .iter()
            .map(|(name, _)| Box::pin(functions.try_start(name)))
            .collect();
        std::future::poll_fn(|context| {
            trials.retain_mut(|trial| trial.as_mut().poll(context).is_pending());
            if trials.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        let values = substitutions(stack);
        let mut created = BTreeMap::new();
        for (name, file) in &self.machine {
            created.insert(name.clone(), create(stack, name, file, &values).await?);
        }
        Ok(created)
    }
}

/// What `${…}` of a definition may name: each function as itself, and as its ARN.
fn substitutions(stack: &Stack) -> BTreeMap<String, String> {
    let functions = stack.functions().functions().into_iter();
    let each = functions.flat_map(|function| {
        let named = (function.logical_id.clone(), function.logical_id.clone());
        [
            named,
            (format!("{}Arn", function.logical_id), function.arn()),
        ]
    });
    each.chain([("Partition".to_owned(), "aws".to_owned())])
        .collect()
}

async fn create(
    stack: &Stack,
    name: &str,
    file: &Path,
    values: &BTreeMap<String, String>,
) -> Result<String, Error> {
    let read = std::fs::read_to_string(file);
    let text = read.map_err(Error::io(format!("read {}", file.display())))?;
    let wrong = |place: Option<(usize, usize)>, message: String| Error::Definition {
        place: match place {
            Some((line, column)) => format!("{}:{line}:{column}", file.display()),
            None => file.display().to_string(),
        },
        message,
    };
    let definition = filled(&text, values).map_err(|message| wrong(None, message))?;
    if let Err(error) = serde_json::from_str::<IgnoredAny>(&definition) {
        let message = error.to_string();
        let problem = message.split(" at line ").next().unwrap_or_default();
        return Err(wrong(
            Some((error.line(), error.column())),
            problem.to_owned(),
        ));
    }
    let created = stack.create_state_machine(name, &definition, "own").await;
    created.map_err(|message| wrong(place(&definition, &message), message))
}

/// Line and column of what a message is about: those that it names, or those of the field that it names by its path.
fn place(definition: &str, message: &str) -> Option<(usize, usize)> {
    if let Some((_, rest)) = message.split_once("line ") {
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
        if let (Some(Ok(line)), Some(Ok(column))) = (
            numbers.next().map(str::parse),
            numbers.next().map(str::parse),
        ) {
            return Some((line, column));
        }
    }
    let (_, path) = message.split_once(" at /")?;
    let mut at = 0;
    for part in path.trim_end_matches('\'').split('/') {
        let name = part.split('[').next().unwrap_or_default();
        let field = serde_json::to_string(name).ok()?;
        let is_field = |(start, _): &(usize, &str)| {
            let after = &definition[at + start + field.len()..];
            after.trim_start().starts_with(':')
        };
        at += definition[at..].match_indices(&field).find(is_field)?.0;
    }
    let before = &definition[..at];
    let line = before.rsplit('\n').next().unwrap_or_default();
    Some((before.matches('\n').count() + 1, line.chars().count() + 1))
}

/// A definition with each `${…}` replaced by its value.
fn filled(text: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or("has `${` without `}`")?;
        let value = values.get(name).ok_or_else(|| {
            format!(
                "has ${{{name}}}, which is no function here: add --function {}=…",
                name.trim_end_matches("Arn")
            )
        })?;
        all += value;
        all += rest;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{filled, place};

    #[test]
    fn definition_is_filled_or_names_gap() {
        let values = BTreeMap::from([("ChargeArn".to_owned(), "arn:charge".to_owned())]);
        assert_eq!(
            filled("a ${ChargeArn}, ${ChargeArn}.", &values).unwrap(),
            "a arn:charge, arn:charge."
        );
        let missing = filled("${BookArn}", &values).unwrap_err();
        assert!(missing.contains("--function Book=…"), "{missing}");
        assert!(filled("${open", &values).is_err());
    }

    #[test]
    fn refusal_points_into_file() {
        let definition = "{\n \"StartAt\": \"A\",\n \"States\": {\n  \"B\": {\"Next\": \"A\"},\n  \"A\": {\"Next\": \"C\"}}}";
        for (message, expected) in [
            (
                "SCHEMA_VALIDATION_FAILED: line 5:12: \"Psas\"",
                Some((5, 12)),
            ),
            ("there is no state 'C' at /States/A/Next'", Some((5, 9))),
            ("there is no state 'C' at /States/D/Next'", None),
            ("no place", None),
        ] {
            assert_eq!(place(definition, message), expected, "{message}");
        }
    }
}
