//! IAM for roles: every function and every state machine works under the role that the template gives it, and the local services
//! refuse what the role does not allow.
//!
//! The access key id of a request is the name of the caller's role. A caller with any other id is a person or a test, and may do
//! everything. As in the service: actions and resources with asterisks, indexes separate from their tables, transactions as their
//! parts, callbacks by the machine that waits, and conditions on the partitions of a table that a request names. Left out: other
//! conditions, denials, boundaries, and the policies of an organization.

mod requests;
mod services;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use serde_json::Value;

use requests::Need;

use crate::arn::ACCOUNT;
use crate::template::{Allowed, Context, Template};

/// The roles of a stack, and their requests.
#[derive(Debug, Default)]
pub struct Roles {
    roles: BTreeMap<String, Vec<Allowed>>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    asked: BTreeSet<AuthorizationRequest>,
    refused: Vec<String>,
    /// The durable execution that waits with a callback.
    callbacks: Recent,
}

/// How much is remembered, so that a stack may run for days. A test asks for much less.
const REMEMBERED: usize = 10_000;

/// What the latest keys stand for.
#[derive(Debug, Default)]
struct Recent {
    values: BTreeMap<String, String>,
    order: VecDeque<String>,
}

impl Recent {
    fn insert(&mut self, key: String, value: String) {
        if self.values.insert(key.clone(), value).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }

    fn get(&self, key: &str) -> Option<&String> {
        self.values.get(key)
    }
}

/// A granted request of a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuthorizationRequest {
    /// The role's name.
    pub role: String,
    /// As in `dynamodb:UpdateItem`.
    pub action: String,
    /// The resource's ARN. None if the request does not name it.
    pub resource: Option<String>,
    /// The condition keys of the request. Empty for a role without conditions.
    pub context: Context,
}

impl Roles {
    /// The roles of a template. A template without roles allows everything.
    pub(crate) fn new(roles: BTreeMap<String, Vec<Allowed>>) -> Self {
        Self {
            roles,
            seen: Mutex::default(),
        }
    }

    /// The permissions of a role, by its name.
    #[must_use]
    pub fn allowed(&self) -> &BTreeMap<String, Vec<Allowed>> {
        &self.roles
    }

    /// Whether a role may do an action on the resource with this ARN.
    #[must_use]
    pub fn may(&self, role: &str, action: &str, resource: &str) -> bool {
        let mut allowed = self.roles.get(role).into_iter().flatten();
        allowed.any(|one| one.covers(action, Some(resource), &Context::new()))
    }

    /// The number of requests by roles.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.seen().requests
    }

    /// The granted requests of roles, each once.
    #[must_use]
    pub fn asked(&self) -> BTreeSet<AuthorizationRequest> {
        self.seen().asked.clone()
    }

    /// The refusals, in the service's words.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        self.seen().refused.clone()
    }

    /// Authorizes a request of the JSON protocols. The error is the service's message.
    pub(crate) fn judge(
        &self,
        headers: &HeaderMap,
        target: &str,
        body: &[u8],
    ) -> Result<(), String> {
        let Some(role) = self.asking(headers) else {
            return Ok(());
        };
        let required_permissions = requests::required_permissions(target, body);
        self.seen().requests += 1;
        required_permissions
            .into_iter()
            .try_for_each(|need| self.need(&role, need))
    }

    /// Authorizes the invocation of a function, and learns which durable execution waits with the callback in the event.
    pub(crate) fn judge_invocation(
        &self,
        headers: &HeaderMap,
        function: &str,
        event: &str,
    ) -> Result<(), String> {
        let event: Value = serde_json::from_str(event).unwrap_or_default();
        if let (Some(id), Some(execution)) =
            (event["callback_id"].as_str(), event["holder"].as_str())
        {
            let (id, execution) = (id.to_owned(), execution.to_owned());
            self.seen().callbacks.insert(id, execution);
        }
        let Some(key) = key_of(headers) else {
            return Ok(());
        };
        if !self.roles.contains_key(key) {
            return Ok(());
        }
        self.seen().requests += 1;
        self.need(key, Need::new("lambda:InvokeFunction", function))
    }

    /// Authorizes a call that concerns a durable execution, which it names by its ARN or by the id of a callback. The error is the
    /// service's message.
    pub(crate) fn judge_durable(
        &self,
        headers: &HeaderMap,
        action: &str,
        named: &str,
    ) -> Result<(), String> {
        let Some(role) = self.asking(headers) else {
            return Ok(());
        };
        self.seen().requests += 1;
        let of_callback = self.seen().callbacks.get(named).cloned();
        let execution = of_callback.unwrap_or_else(|| named.to_owned());
        self.need(&role, Need::new(action, execution))
    }

    /// Authorizes one action of a role, and records it. The error is the service's message.
    fn need(&self, role: &str, need: Need) -> Result<(), String> {
        let resource = need.resource.as_deref();
        let allowed = self.roles.get(role).map_or(&[][..], Vec::as_slice);
        let mut context = Context::new();
        if !need.leading_keys.is_empty() && allowed.iter().any(|one| !one.conditions.is_empty()) {
            context.insert("dynamodb:LeadingKeys".to_owned(), need.leading_keys);
        }
        let mut allowed = allowed.iter();
        let may = allowed.any(|one| one.covers(&need.action, resource, &context));
        let mut seen = self.seen();
        if may && seen.asked.len() >= REMEMBERED {
            return Ok(());
        }
        if may {
            seen.asked.insert(AuthorizationRequest {
                role: role.to_owned(),
                action: need.action,
                resource: need.resource,
                context,
            });
            return Ok(());
        }
        let on = resource.map_or_else(String::new, |resource| format!(" on resource: {resource}"));
        let action = &need.action;
        let refusal = format!(
            "User: arn:aws:sts::{ACCOUNT}:assumed-role/{role}/local is not authorized to perform: {action}{on} because no \
             identity-based policy allows the {action} action"
        );
        if seen.refused.len() < REMEMBERED {
            seen.refused.push(refusal.clone());
        }
        Err(refusal)
    }

    /// The role that signed a request.
    fn asking(&self, headers: &HeaderMap) -> Option<String> {
        let key = key_of(headers)?;
        self.roles.contains_key(key).then(|| key.to_owned())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The access key id in `AWS4-HMAC-SHA256 Credential=<key id>/20261121/us-east-1/dynamodb/aws4_request, …`.
fn key_of(headers: &HeaderMap) -> Option<&str> {
    let authorization = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (_, credential) = authorization.split_once("Credential=")?;
    credential.split('/').next()
}

/// Reads the roles of a template.
///
/// # Errors
/// The refusals of services that act for the stack's functions, state machines and rules.
pub(crate) fn of(template: &Template) -> Result<Roles, Vec<String>> {
    let roles = Roles::new(template.roles.clone());
    let refused = services::refused(&roles, template);
    if refused.is_empty() {
        Ok(roles)
    } else {
        Err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::{REMEMBERED, Recent};

    #[test]
    fn only_the_latest_callbacks_are_remembered() {
        let mut recent = Recent::default();
        for n in 0..=REMEMBERED {
            recent.insert(n.to_string(), "machine".to_owned());
        }
        assert_eq!(recent.values.len(), REMEMBERED);
        assert!(recent.get("0").is_none() && recent.get("1").is_some());
    }
}
