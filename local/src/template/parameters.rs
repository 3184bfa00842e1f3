//! The values of a template's parameters, held to what the template declares of them, as `CloudFormation` does before it deploys.

use std::collections::BTreeMap;

use regex_lite::Regex;
use serde_json::Value;

/// The value of each parameter: the given one, or the default.
///
/// # Errors
/// A name that the template does not declare, or a value that it does not allow, in the words of `CloudFormation`.
pub(super) fn values<'a>(
    declared: &'a Value,
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<&'a str, Value>, String> {
    if let Some(unknown) = given.keys().find(|name| declared.get(name).is_none()) {
        return Err(format!("there is no parameter {unknown}"));
    }
    let declared = declared.as_object().into_iter().flatten();
    declared
        .map(|(name, declaration)| {
            let text = match given.get(name) {
                Some(text) => Some(text.clone()),
                None => default(declaration),
            };
            // A parameter without a value is empty here, so that a template with parameters of the user's own can start.
            let Some(text) = text else {
                return Ok((name.as_str(), declaration["Default"].clone()));
            };
            let value = value(declaration, &text).map_err(|constraint| {
                let described = declaration["ConstraintDescription"].as_str();
                let constraint = described.map_or(constraint, str::to_owned);
                format!(
                    "Parameter {name} failed to satisfy constraint: {constraint} (it is {text:?})"
                )
            })?;
            Ok((name.as_str(), value))
        })
        .collect()
}

fn default(declaration: &Value) -> Option<String> {
    match &declaration["Default"] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// The value of this text, or the constraint that it breaks.
fn value(declaration: &Value, text: &str) -> Result<Value, String> {
    match declaration["Type"].as_str() {
        Some("Number") => {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite());
            let number = number.ok_or_else(|| "Parameter must be a number".to_owned())?;
            for (bound, is_kept, words) in [
                ("MinValue", f64::ge as fn(&f64, &f64) -> bool, "not less"),
                ("MaxValue", f64::le, "not greater"),
            ] {
                if let Some(limit) = declaration[bound].as_f64()
                    && !is_kept(&number, &limit)
                {
                    return Err(format!("Parameter must be a number {words} than {limit}"));
                }
            }
            is_allowed(declaration, text)?;
            serde_json::from_str(text).map_err(|_| "Parameter must be a number".to_owned())
        }
        Some("CommaDelimitedList") => {
            let elements = text.split(',').map(str::trim);
            elements
                .map(|element| is_allowed(declaration, element).map(|()| Value::from(element)))
                .collect()
        }
        _ => is_allowed(declaration, text).map(|()| Value::from(text)),
    }
}

/// A text, or an element of a list.
fn is_allowed(declaration: &Value, text: &str) -> Result<(), String> {
    if let Some(allowed) = declaration["AllowedValues"].as_array() {
        let words = || {
            allowed
                .iter()
                .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
        };
        if !words().any(|one| one == text) {
            let words = words().collect::<Vec<_>>().join(", ");
            return Err(format!("Member must satisfy enum value set: [{words}]"));
        }
    }
    if let Some(pattern) = declaration["AllowedPattern"].as_str() {
        // The whole text has to match.
        let whole = Regex::new(&format!("^(?:{pattern})$"));
        let whole = whole.map_err(|error| format!("the pattern {pattern} is none: {error}"))?;
        if !whole.is_match(text) {
            return Err(format!(
                "Member must satisfy regular expression pattern: {pattern}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_held_to_their_declaration() {
        let declared = json!({
            "Cap": {"Type": "Number", "Default": 128, "MinValue": 1, "MaxValue": 1000},
            "Grants": {"Type": "String", "Default": "open", "AllowedValues": ["open", "stopped"]},
            "Name": {"Type": "String", "Default": "", "AllowedPattern": "[a-z]{0,3}", "ConstraintDescription": "three letters"},
            "List": {"Type": "CommaDelimitedList", "Default": "", "AllowedPattern": "|[a-z]+"},
            "Days": {"Type": "Number", "Default": 30, "AllowedValues": [1, 30]},
            "Own": {"Type": "String"},
        });
        let of = |name: &str, value: &str| {
            let given = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            values(&declared, &given).map(|values| values.get(name).cloned().unwrap())
        };
        for (name, value, found) in [
            ("Cap", "5", json!(5)),
            ("Grants", "stopped", json!("stopped")),
            ("Name", "abc", json!("abc")),
            ("List", "a, b", json!(["a", "b"])),
            ("List", "", json!([""])),
            ("Days", "1", json!(1)),
            ("Own", "x", json!("x")),
        ] {
            assert_eq!(of(name, value), Ok(found), "{name}={value}");
        }
        for (name, value, why) in [
            (
                "Cap",
                "5000",
                "Parameter must be a number not greater than 1000 (it is \"5000\")",
            ),
            (
                "Cap",
                "0",
                "Parameter must be a number not less than 1 (it is \"0\")",
            ),
            ("Cap", "many", "Parameter must be a number (it is \"many\")"),
            (
                "Grants",
                "closed",
                "Member must satisfy enum value set: [open, stopped] (it is \"closed\")",
            ),
            ("Name", "abcd", "three letters (it is \"abcd\")"),
            (
                "List",
                "a,B",
                "Member must satisfy regular expression pattern: |[a-z]+ (it is \"a,B\")",
            ),
            (
                "Days",
                "2",
                "Member must satisfy enum value set: [1, 30] (it is \"2\")",
            ),
        ] {
            let why = format!("Parameter {name} failed to satisfy constraint: {why}");
            assert_eq!(of(name, value), Err(why));
        }
        assert_eq!(
            of("Other", "1"),
            Err("there is no parameter Other".to_owned())
        );
    }
}
