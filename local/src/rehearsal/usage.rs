//! Compares the requests of the roles with their permissions. No request may be refused, and no permission may be idle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use leasehold_local::{Allowed, AuthorizationRequest, Error, Options, Roles, Stack};
use serde_json::Value;

use super::fixture::Fixture;
use super::{options, read, scenarios, write};

/// What acquire needs for permits.
const NEEDED: &str = "dynamodb:Query";

/// The permissions, the requests and the refusals.
#[derive(Debug)]
pub(super) struct Usage {
    allowed: BTreeMap<String, Vec<Allowed>>,
    asked: BTreeSet<AuthorizationRequest>,
    refused: Vec<String>,
    requests: u64,
}

impl Usage {
    pub(super) fn of(roles: &Roles) -> Self {
        Self {
            allowed: roles.allowed().clone(),
            asked: roles.asked(),
            refused: roles.refused(),
            requests: roles.requests(),
        }
    }

    /// The faults: refusals, except of texts with `meant`, and permissions that a role could lose without a refusal.
    pub(super) fn wrong(&self, meant: &str) -> Vec<String> {
        let refused = self
            .refused
            .iter()
            .filter(|refused| !refused.contains(meant))
            .map(|refused| format!("refused: {refused}"));
        let idle = self.idle().into_iter().map(|(role, allowed)| {
            let Allowed {
                action, resource, ..
            } = allowed;
            format!("{role} may {action} on {resource}, but nothing that ran needs it")
        });
        refused.chain(idle).collect()
    }

    /// Each permission of a role that could be omitted, because every request would be allowed without it.
    pub(super) fn idle(&self) -> Vec<(&str, &Allowed)> {
        let mut idle = Vec::new();
        for (role, allowed) in &self.allowed {
            for (at, one) in allowed.iter().enumerate() {
                let needed = self.asked.iter().any(|asked| {
                    let allows = |one: &Allowed| {
                        one.covers(&asked.action, asked.resource.as_deref(), &asked.context)
                    };
                    let others = allowed.iter().enumerate().filter(|(other, _)| *other != at);
                    asked.role == *role
                        && allows(one)
                        && !others.into_iter().any(|(_, other)| allows(other))
                });
                if !needed {
                    idle.push((role.as_str(), one));
                }
            }
        }
        idle
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, roles, refused) = (self.requests, self.allowed.len(), self.refused.len());
        write!(
            f,
            "{requests} requests allowed by {roles} roles, {refused} refused"
        )
    }
}

/// Takes a needed right from the role of acquire, and says so if nothing is refused for that.
pub(super) async fn seeded(template: &Path, out: &Path) -> Result<Option<String>, Error> {
    let mut changed: Value = serde_json::from_str(&read(template)?).unwrap_or_default();
    let actions = "/Resources/AcquireRole/Properties/Policies/0/PolicyDocument/Statement/0/Action";
    let actions = changed.pointer_mut(actions).and_then(Value::as_array_mut);
    let none = || Error::call(template.display(), "AcquireRole has no actions");
    actions.ok_or_else(none)?.retain(|action| action != NEEDED);
    let out = out.join("fault");
    let file = write(&out.join("template.json"), &changed.to_string())?;
    let stack = Stack::start(Options {
        engine: false,
        ..options(&file, &out)
    })
    .await?;
    let shown = scenarios::by_a_person(&Fixture::functions(&stack).await?).await;
    let refused = stack.roles().refused();
    stack.stop().await;
    let expected = format!("not authorized to perform: {NEEDED}");
    let found = shown.is_err() && refused.iter().any(|refused| refused.contains(&expected));
    Ok((!found).then(|| {
        format!("a role of acquire without {NEEDED} is not found: {shown:?}, refused {refused:?}")
    }))
}

#[cfg(test)]
mod tests {
    use leasehold_local::Context;

    use super::*;

    fn usage(allowed: &[(&str, &str)], asked: &[(&str, &str)]) -> Usage {
        let one = |(action, resource): &(&str, &str)| Allowed {
            action: (*action).to_owned(),
            resource: (*resource).to_owned(),
            conditions: Vec::new(),
        };
        let asked = asked.iter().map(|(action, resource)| AuthorizationRequest {
            role: "R".to_owned(),
            action: (*action).to_owned(),
            resource: Some((*resource).to_owned()),
            context: Context::new(),
        });
        Usage {
            allowed: BTreeMap::from([("R".to_owned(), allowed.iter().map(one).collect())]),
            asked: asked.collect(),
            refused: vec!["may not d:Put on meant".to_owned()],
            requests: 0,
        }
    }

    #[test]
    fn what_is_allowed_and_not_asked_for_is_told() {
        let both = [("d:Get", "t"), ("d:Put", "t")];
        assert_eq!(usage(&both, &both).wrong("meant"), [""; 0]);
        assert_eq!(
            usage(&both, &both).wrong("nothing"),
            ["refused: may not d:Put on meant"]
        );
        assert_eq!(
            usage(&both, &both[..1]).wrong("meant"),
            ["R may d:Put on t, but nothing that ran needs it"]
        );
    }

    #[test]
    fn what_is_allowed_twice_could_be_left_out() {
        let twice = [("d:Get", "t"), ("d:Get", "*")];
        assert_eq!(usage(&twice, &twice[..1]).wrong("meant").len(), 2);
        let wider = [("d:Get", "t"), ("d:Get", "u")];
        assert_eq!(usage(&twice, &wider).wrong("meant").len(), 1);
    }
}
