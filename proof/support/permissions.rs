//! What the roles of a stack may do, compared with what they have asked for: nothing may be refused, and no permission may be idle.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_local::{Allowed, AuthorizationRequest, Roles};

/// The permissions of roles, and their requests.
#[derive(Debug, Default)]
pub struct Permissions {
    allowed: BTreeMap<String, Vec<Allowed>>,
    asked: BTreeSet<AuthorizationRequest>,
    refused: Vec<String>,
}

impl Permissions {
    /// Adds what one stack's roles have done; all stacks are of one template.
    pub fn add(&mut self, roles: &Roles) {
        self.allowed.clone_from(roles.allowed());
        self.asked.extend(roles.asked());
        self.refused.extend(roles.refused());
    }

    /// The refusals, but for those that contain one of these texts.
    pub fn refused(&self, meant: &[&str]) -> Vec<&str> {
        let refused = self.refused.iter().map(String::as_str);
        let is_meant = |refused: &&str| meant.iter().any(|meant| refused.contains(meant));
        refused.filter(|refused| !is_meant(refused)).collect()
    }

    /// Each permission of a role that could be left out, because every request would be allowed without it.
    pub fn idle(&self) -> Vec<String> {
        let mut idle = Vec::new();
        for (role, allowed) in &self.allowed {
            let asked: Vec<_> = self.asked.iter().filter(|one| one.role == *role).collect();
            for (at, one) in allowed.iter().enumerate() {
                let needed = asked.iter().any(|asked| {
                    let allows = |one: &Allowed| {
                        one.covers(&asked.action, asked.resource.as_deref(), &asked.context)
                    };
                    let mut others = allowed.iter().enumerate().filter(|(other, _)| *other != at);
                    allows(one) && !others.any(|(_, other)| allows(other))
                });
                if !needed {
                    idle.push(format!("{role} {} {}", one.action, one.resource));
                }
            }
        }
        idle
    }
}

#[cfg(test)]
mod tests {
    use leasehold_local::Context;

    use super::*;

    fn permissions(allowed: &[(&str, &str)], asked: &[(&str, &str)]) -> Permissions {
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
        Permissions {
            allowed: BTreeMap::from([("R".to_owned(), allowed.iter().map(one).collect())]),
            asked: asked.collect(),
            refused: vec!["may not d:Put on meant".to_owned()],
        }
    }

    #[test]
    fn unused_permission_is_idle() {
        let both = [("d:Get", "t"), ("d:Put", "t")];
        assert_eq!(permissions(&both, &both).idle(), [""; 0]);
        assert_eq!(permissions(&both, &both[..1]).idle(), ["R d:Put t"]);
    }

    #[test]
    fn covered_permission_is_idle() {
        let twice = [("d:Get", "t"), ("d:Get", "*")];
        assert_eq!(permissions(&twice, &twice[..1]).idle().len(), 2);
        let wider = [("d:Get", "t"), ("d:Get", "u")];
        assert_eq!(permissions(&twice, &wider).idle().len(), 1);
    }

    #[test]
    fn unintended_refusal_is_reported() {
        let none = permissions(&[], &[]);
        assert_eq!(none.refused(&["meant"]), [""; 0]);
        assert_eq!(none.refused(&["nothing"]), ["may not d:Put on meant"]);
    }
}
