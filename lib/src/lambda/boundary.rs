//! The boundary of a function: which keys and holders its callers may name. With it, several teams can share one
//! table but no leases: each team has functions of its own.

use serde_json::Value;

use crate::{
    error::Error,
    json,
    settings::{Boundary, misconfigured},
};

impl Boundary {
    /// Refuses a request that names anything outside the boundary. The request was parsed before, so each field has
    /// its type.
    pub(super) fn check(&self, request: &Value) -> Result<(), Error> {
        for (path, key) in texts(request, "key") {
            within(&path, key, self.key_prefix.as_deref(), "LEASE_KEY_PREFIX")?;
        }
        for (path, holder) in texts(request, "holder") {
            let prefix = self.holder_prefix.as_deref();
            within(&path, holder, prefix, "LEASE_HOLDER_PREFIX")?;
        }
        if !self.reentrant && says(request, "reentrant") {
            let problem = "is switched off for this function (LEASE_REENTRANT)";
            return Err(Error::invalid("reentrant", problem));
        }
        let Some((variable, prefix)) = self.prefix() else {
            return Ok(());
        };
        if says(request, "list") {
            let problem =
                format!("shows leases outside {prefix:?} ({variable}): name a key or a holder");
            return Err(Error::invalid("list", problem));
        }
        // A holder may hold keys outside the prefix.
        let has = |name| request.get(name).is_some();
        let by_holder = has("holder") && !has("key") && !has("keys");
        if by_holder && self.holder_prefix.is_none() {
            let problem = format!(
                "may hold keys outside {prefix:?} ({variable}): set LEASE_HOLDER_PREFIX as well"
            );
            return Err(Error::invalid("holder", problem));
        }
        Ok(())
    }

    /// For a function that handles all rows of a table: with a boundary, no function would handle the other rows.
    pub(super) fn check_absence(&self) -> Result<(), Error> {
        self.prefix().map_or(Ok(()), |(variable, _)| {
            let problem = "cannot be set for this function, which handles the whole table";
            Err(misconfigured(variable, problem))
        })
    }

    /// A variable that limits keys or holders, and its prefix.
    fn prefix(&self) -> Option<(&'static str, &str)> {
        let key = self.key_prefix.as_deref();
        let holder = self.holder_prefix.as_deref();
        key.map(|prefix| ("LEASE_KEY_PREFIX", prefix))
            .or_else(|| holder.map(|prefix| ("LEASE_HOLDER_PREFIX", prefix)))
    }
}

fn within(path: &str, text: &str, prefix: Option<&str>, variable: &str) -> Result<(), Error> {
    match prefix {
        Some(prefix) if !text.starts_with(prefix) => {
            let problem = format!("must begin with {prefix:?} ({variable})");
            Err(Error::invalid(path, problem))
        }
        _ => Ok(()),
    }
}

/// Each key or each holder in a request, and its path.
fn texts<'a>(request: &'a Value, field: &'static str) -> Vec<(String, &'a str)> {
    let mut found = Vec::new();
    let mut add = |path: String, text: Option<&'a str>| found.extend(text.map(|text| (path, text)));
    let own = format!("/{field}");
    add(field.to_owned(), json::text(request, &own));
    add(
        format!("lease.{field}"),
        json::text(request, &format!("/lease{own}")),
    );
    let list = |name| request.get(name).and_then(Value::as_array).into_iter();
    for lease in list("leases").flatten() {
        add(format!("leases.{field}"), json::text(lease, &own));
    }
    if field == "key" {
        for key in list("keys").flatten() {
            add("keys".to_owned(), key.as_str());
        }
    }
    found
}

/// Whether the field with this name is true.
fn says(request: &Value, name: &str) -> bool {
    request.get(name) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundary(key: Option<&str>, holder: Option<&str>, reentrant: bool) -> Boundary {
        Boundary {
            key_prefix: key.map(str::to_owned),
            holder_prefix: holder.map(str::to_owned),
            reentrant,
        }
    }

    /// The refusal of the event; empty if it passes.
    fn said(boundary: &Boundary, event: &str) -> String {
        let checked = boundary.check(&json::parse(event).expect("JSON"));
        checked.map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn nothing_beyond_the_prefixes_is_let_through() {
        let team = boundary(Some("team-a/"), Some("a:"), true);
        for event in [
            r#"{"key": "team-a/k", "holder": "a:h"}"#,
            r#"{"keys": ["team-a/k", "team-a/l"], "holder": "a:h", "reentrant": true}"#,
            r#"{"lease": {"key": "team-a/k", "holder": "a:h"}}"#,
            r#"{"leases": [{"key": "team-a/k", "holder": "a:h"}]}"#,
            r#"{"key": "team-a/k", "operation": "freeze", "who": "b"}"#,
            r#"{"holder": "a:h"}"#,
        ] {
            assert_eq!(said(&team, event), "", "{event}");
        }
        for (event, field) in [
            (r#"{"key": "team-b/k", "holder": "a:h"}"#, "key"),
            (r#"{"key": "team-a", "holder": "a:h"}"#, "key"),
            (r#"{"key": "TEAM-A/k", "holder": "a:h"}"#, "key"),
            (r#"{"keys": ["team-a/k", "l"], "holder": "a:h"}"#, "keys"),
            (r#"{"lease": {"key": "k", "holder": "a:h"}}"#, "lease.key"),
            (
                r#"{"leases": [{"key": "team-a/k", "holder": "a:h"}, {"key": "k", "holder": "a:h"}]}"#,
                "leases.key",
            ),
        ] {
            let expected = format!("{field}: must begin with \"team-a/\" (LEASE_KEY_PREFIX)");
            assert_eq!(said(&team, event), expected, "{event}");
        }
        for (event, field) in [
            (r#"{"key": "team-a/k", "holder": "b:h"}"#, "holder"),
            (r#"{"holder": "b:h"}"#, "holder"),
            (
                r#"{"lease": {"key": "team-a/k", "holder": "b:h"}}"#,
                "lease.holder",
            ),
            (
                r#"{"leases": [{"key": "team-a/k", "holder": "b:h"}]}"#,
                "leases.holder",
            ),
        ] {
            let expected = format!("{field}: must begin with \"a:\" (LEASE_HOLDER_PREFIX)");
            assert_eq!(said(&team, event), expected, "{event}");
        }
    }

    #[test]
    fn what_would_show_others_leases_is_refused() {
        for team in [
            boundary(Some("team-a/"), None, true),
            boundary(None, Some("a:"), true),
        ] {
            let list = said(&team, r#"{"list": true}"#);
            assert!(list.starts_with("list: shows leases outside"), "{list}");
        }
        let holder = said(&boundary(Some("team-a/"), None, true), r#"{"holder": "h"}"#);
        assert!(holder.contains("LEASE_HOLDER_PREFIX"), "{holder}");
        let open = Boundary::default();
        for event in [
            r#"{"list": true}"#,
            r#"{"holder": "h"}"#,
            r#"{"key": "k", "holder": "h", "reentrant": true}"#,
        ] {
            assert_eq!(said(&open, event), "", "{event}");
        }
    }

    #[test]
    fn reentrant_can_be_switched_off() {
        let off = boundary(None, None, false);
        let asked = said(&off, r#"{"key": "k", "holder": "h", "reentrant": true}"#);
        assert!(asked.contains("LEASE_REENTRANT"), "{asked}");
        for event in [
            r#"{"key": "k", "holder": "h", "reentrant": false}"#,
            r#"{"key": "k", "holder": "h"}"#,
        ] {
            assert_eq!(said(&off, event), "", "{event}");
        }
    }

    #[test]
    fn who_sees_to_the_whole_table_has_no_boundary() {
        let absent = boundary(None, None, false).check_absence();
        assert!(absent.is_ok());
        for (team, variable) in [
            (boundary(Some("a"), None, true), "LEASE_KEY_PREFIX"),
            (boundary(None, Some("a"), true), "LEASE_HOLDER_PREFIX"),
        ] {
            let refused = team.check_absence().expect_err("refused").to_string();
            assert!(refused.contains(variable), "{refused}");
        }
    }
}
