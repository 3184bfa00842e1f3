//! Who may do what: roles with their policies, and resources that say themselves who may use them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::intrinsics::Resolver;
use super::type_of;
use crate::iam::{self, Allowed};

/// What a resource lets a service do in the name of another resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invitation {
    pub(crate) principal: String,
    /// The ARN of the resource that it acts for.
    pub(crate) source: String,
    pub(crate) allowed: Allowed,
}

/// The last part of a role's ARN.
pub(super) fn name_of(arn: &str) -> String {
    arn.rsplit('/').next().unwrap_or(arn).to_owned()
}

/// What a resource that carries policies allows: a role, or a state machine that SAM makes one for.
pub(super) fn allowed(resolver: &Resolver, properties: &Value) -> Result<Vec<Allowed>, String> {
    if !iam::list(&properties["ManagedPolicyArns"]).is_empty() {
        return Err("managed policies are not known locally".to_owned());
    }
    let policies = resolver
        .resolve(&properties["Policies"])?
        .unwrap_or_default();
    let mut all = Vec::new();
    for policy in iam::list(&policies) {
        // SAM leaves the name out.
        let document = policy.get("PolicyDocument").unwrap_or(policy);
        all.extend(iam::allowed(document)?);
    }
    Ok(all)
}

/// The invitations of a resource, of whatever type it is.
pub(super) fn invitations(
    resolver: &Resolver,
    resource: &Value,
) -> Result<Vec<Invitation>, String> {
    let properties = &resource["Properties"];
    let text = |name: &str| {
        resolver
            .text(&properties[name])
            .map(Option::unwrap_or_default)
    };
    match type_of(resource) {
        "AWS::Lambda::Permission" => {
            let function = text("FunctionName")?;
            let function = function.rsplit(':').next().unwrap_or_default();
            Ok(vec![Invitation {
                principal: text("Principal")?,
                source: text("SourceArn")?,
                allowed: Allowed {
                    action: text("Action")?,
                    resource: resolver.function_arn(function),
                },
            }])
        }
        "AWS::SQS::QueuePolicy" => {
            let document = resolver
                .resolve(&properties["PolicyDocument"])?
                .unwrap_or_default();
            let mut all = Vec::new();
            for statement in iam::list(&document["Statement"]) {
                let condition = &statement["Condition"];
                let source = condition["ArnEquals"]["aws:SourceArn"].as_str();
                let mut plain = statement.clone();
                plain["Condition"] = Value::Null;
                for principal in iam::texts(&statement["Principal"]["Service"])? {
                    let one = BTreeMap::from([("Statement", plain.clone())]);
                    let one = serde_json::json!(one);
                    all.extend(iam::allowed(&one)?.into_iter().map(|allowed| Invitation {
                        principal: principal.clone(),
                        source: source.unwrap_or_default().to_owned(),
                        allowed,
                    }));
                }
            }
            Ok(all)
        }
        _ => Ok(Vec::new()),
    }
}
