//! The boundary of a function: which keys and holders its callers may name. With it, several teams can share one
//! table but no leases: each team has functions of its own.

use leasehold::{Error, Key};

use crate::Names;

/// The keys and holders that the callers of a function may name. Functions enforce it; the methods of `Leases` do not, because
/// their callers can read the table anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boundary {
    /// The prefix of every key.
    key_prefix: Option<String>,
    /// The prefix of every holder.
    holder_prefix: Option<String>,
    /// Whether an acquire may be `reentrant`.
    reentrant: bool,
}

impl Default for Boundary {
    fn default() -> Self {
        Self {
            key_prefix: None,
            holder_prefix: None,
            reentrant: true,
        }
    }
}

impl Boundary {
    /// Reads `LEASE_KEY_PREFIX`, `LEASE_HOLDER_PREFIX`, `LEASE_REENTRANT`.
    ///
    /// # Errors
    /// [`Error::Misconfigured`] naming the variable that does not parse.
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        const REENTRANT: &str = "LEASE_REENTRANT";
        Ok(Self {
            key_prefix: prefix(&lookup, "LEASE_KEY_PREFIX")?,
            holder_prefix: prefix(&lookup, "LEASE_HOLDER_PREFIX")?,
            reentrant: match lookup(REENTRANT).as_deref() {
                None | Some("true") => true,
                Some("false") => false,
                Some(_) => return Err(Error::misconfigured(REENTRANT, "must be true or false")),
            },
        })
    }

    /// Refuses a request that names anything outside the boundary.
    pub(crate) fn check(&self, request: &Names<'_>) -> Result<(), Error> {
        for (path, key) in &request.keys {
            let prefix = self.key_prefix.as_deref();
            within(path, key.as_str(), prefix, "LEASE_KEY_PREFIX")?;
        }
        for (path, name) in &request.pools {
            within(path, name, self.key_prefix.as_deref(), "LEASE_KEY_PREFIX")?;
        }
        for (path, holder) in &request.holders {
            let prefix = self.holder_prefix.as_deref();
            within(path, holder.as_str(), prefix, "LEASE_HOLDER_PREFIX")?;
        }
        if !self.reentrant && request.reentrant {
            let problem = "is switched off for this function (LEASE_REENTRANT)";
            return Err(Error::invalid("reentrant", problem));
        }
        let Some((variable, prefix)) = self.prefix() else {
            return Ok(());
        };
        if request.list {
            let problem =
                format!("shows leases outside {prefix:?} ({variable}): name a key or a holder");
            return Err(Error::invalid("list", problem));
        }
        // A holder may hold keys outside the prefix.
        let is_named = !request.keys.is_empty() || !request.pools.is_empty();
        let by_holder = !is_named && !request.holders.is_empty();
        if by_holder && self.holder_prefix.is_none() {
            let problem = format!(
                "may hold keys outside {prefix:?} ({variable}): set LEASE_HOLDER_PREFIX as well"
            );
            return Err(Error::invalid("holder", problem));
        }
        Ok(())
    }

    /// For a function that handles all rows of a table: with a boundary, no function would handle the other rows.
    pub(crate) fn check_absence(&self) -> Result<(), Error> {
        self.prefix().map_or(Ok(()), |(variable, _)| {
            let problem = "cannot be set for this function, which handles the whole table";
            Err(Error::misconfigured(variable, problem))
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

/// The prefix of keys or of holders. An empty one is refused, because it would limit nothing.
fn prefix(lookup: impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<String>, Error> {
    let Some(text) = lookup(name) else {
        return Ok(None);
    };
    match Key::new(text) {
        Ok(prefix) => Ok(Some(prefix.as_str().to_owned())),
        Err(problem) => Err(Error::misconfigured(name, &problem.to_string())),
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

#[cfg(test)]
mod tests {
    use leasehold::{Holder, Keys, Lease, LeaseSet, Pool, Timestamp};
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;
    use crate::json;

    fn boundary(key: Option<&str>, holder: Option<&str>, reentrant: bool) -> Boundary {
        Boundary {
            key_prefix: key.map(str::to_owned),
            holder_prefix: holder.map(str::to_owned),
            reentrant,
        }
    }

    /// Every field that names something.
    #[derive(Deserialize)]
    struct Request {
        key: Option<Key>,
        keys: Option<Keys>,
        pool: Option<Pool>,
        holder: Option<Holder>,
        lease: Option<Lease>,
        leases: Option<LeaseSet>,
        #[serde(default)]
        reentrant: bool,
        #[serde(default)]
        list: bool,
    }

    /// The refusal of the event; empty if it passes.
    fn said(boundary: &Boundary, event: &Value) -> String {
        let request: Request = json::read(event).expect("a request");
        let names = Names::default()
            .key(&request.key)
            .keys(&request.keys)
            .pool(&request.pool)
            .holder(&request.holder)
            .lease(&request.lease)
            .leases(&request.leases)
            .reentrant(request.reentrant)
            .list(request.list);
        let checked = boundary.check(&names);
        checked.map_or_else(|error| error.to_string(), |()| String::new())
    }

    fn handle(key: &str, holder: &str) -> Value {
        let at = Timestamp::from_millis(1_795_230_000_120);
        json!({"key": key, "holder": holder, "lease_id": "i".repeat(32), "fencing_token": 5, "version": 5,
            "lifetime": "execution", "acquired_at": at})
    }

    #[test]
    fn boundary_is_read_exactly() {
        let read = |pairs: &[(&str, &str)]| {
            Boundary::read(|name| {
                let pair = pairs.iter().find(|(n, _)| *n == name)?;
                Some(pair.1.to_owned())
            })
        };
        let bounded = read(&[
            ("LEASE_KEY_PREFIX", "team-a/"),
            ("LEASE_HOLDER_PREFIX", "a*"),
            ("LEASE_REENTRANT", "false"),
        ]);
        let expected = boundary(Some("team-a/"), Some("a*"), false);
        assert_eq!(bounded.expect("valid"), expected);
        assert_eq!(read(&[]).expect("valid"), Boundary::default());
        for (name, value) in [
            ("LEASE_KEY_PREFIX", ""),
            ("LEASE_HOLDER_PREFIX", ""),
            ("LEASE_KEY_PREFIX", "a\n"),
            ("LEASE_REENTRANT", ""),
            ("LEASE_REENTRANT", "no"),
        ] {
            let refused = read(&[(name, value)]).expect_err("refused").to_string();
            assert!(refused.contains(name), "{name}={value}: {refused}");
        }
    }

    #[test]
    fn only_prefixes_pass_the_boundary() {
        let team = boundary(Some("team-a/"), Some("a:"), true);
        let ours = || handle("team-a/k", "a:h");
        for event in [
            json!({"key": "team-a/k", "holder": "a:h"}),
            json!({"keys": ["team-a/k", "team-a/l"], "holder": "a:h", "reentrant": true}),
            json!({"lease": ours()}),
            json!({"leases": [ours()]}),
            json!({"key": "team-a/k"}),
            json!({"holder": "a:h"}),
        ] {
            assert_eq!(said(&team, &event), "", "{event}");
        }
        for (event, field) in [
            (json!({"key": "team-b/k", "holder": "a:h"}), "key"),
            (json!({"key": "team-a", "holder": "a:h"}), "key"),
            (json!({"key": "TEAM-A/k", "holder": "a:h"}), "key"),
            (json!({"keys": ["team-a/k", "l"], "holder": "a:h"}), "keys"),
            (json!({"lease": handle("k", "a:h")}), "lease.key"),
            (
                json!({"leases": [ours(), handle("k", "a:h")]}),
                "leases.key",
            ),
        ] {
            let expected = format!("{field}: must begin with \"team-a/\" (LEASE_KEY_PREFIX)");
            assert_eq!(said(&team, &event), expected, "{event}");
        }
        for (event, field) in [
            (json!({"key": "team-a/k", "holder": "b:h"}), "holder"),
            (json!({"holder": "b:h"}), "holder"),
            (json!({"lease": handle("team-a/k", "b:h")}), "lease.holder"),
            (
                json!({"leases": [handle("team-a/k", "b:h")]}),
                "leases.holder",
            ),
        ] {
            let expected = format!("{field}: must begin with \"a:\" (LEASE_HOLDER_PREFIX)");
            assert_eq!(said(&team, &event), expected, "{event}");
        }
    }

    #[test]
    fn prefix_holds_for_pools() {
        let team = boundary(Some("team-a/"), None, true);
        let with_pool = |name: &str| {
            let mut lease = handle("team-a/k", "h");
            lease["pool"] =
                json!({"name": name, "permit": 0, "lease_id": "i".repeat(32), "fencing_token": 5});
            lease
        };
        let ours = json!({"lease": with_pool("team-a/p"), "key": "team-a/k", "pool": {"name": "team-a/p", "permits": 3}});
        assert_eq!(said(&team, &ours), "");
        for (event, field) in [
            (
                json!({"key": "team-a/k", "pool": {"name": "p", "permits": 3}}),
                "pool.name",
            ),
            (json!({"lease": with_pool("p")}), "lease.pool.name"),
            (json!({"leases": [with_pool("p")]}), "leases.pool.name"),
        ] {
            let expected = format!("{field}: must begin with \"team-a/\" (LEASE_KEY_PREFIX)");
            assert_eq!(said(&team, &event), expected, "{event}");
        }
        let alone = Key::new("p").expect("valid");
        let refused = team.check(&Names::default().only_pool(&alone));
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.starts_with("pool: must begin with"), "{refused}");
    }

    #[test]
    fn requests_for_others_are_refused() {
        for team in [
            boundary(Some("team-a/"), None, true),
            boundary(None, Some("a:"), true),
        ] {
            let list = said(&team, &json!({"list": true}));
            assert!(list.starts_with("list: shows leases outside"), "{list}");
        }
        let holder = said(
            &boundary(Some("team-a/"), None, true),
            &json!({"holder": "h"}),
        );
        assert!(holder.contains("LEASE_HOLDER_PREFIX"), "{holder}");
        let open = Boundary::default();
        for event in [
            json!({"list": true}),
            json!({"holder": "h"}),
            json!({"key": "k", "holder": "h", "reentrant": true}),
        ] {
            assert_eq!(said(&open, &event), "", "{event}");
        }
    }

    #[test]
    fn reentrant_can_be_switched_off() {
        let off = boundary(None, None, false);
        let asked = said(&off, &json!({"key": "k", "holder": "h", "reentrant": true}));
        assert!(asked.contains("LEASE_REENTRANT"), "{asked}");
        for event in [
            json!({"key": "k", "holder": "h", "reentrant": false}),
            json!({"key": "k", "holder": "h"}),
        ] {
            assert_eq!(said(&off, &event), "", "{event}");
        }
    }

    #[test]
    fn table_maintenance_has_no_boundary() {
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
