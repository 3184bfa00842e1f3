//! Two teams on one table, each with the functions and the role of examples/teams. Neither can reach the other's leases: its
//! functions refuse, and without their own check its role does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use leasehold_local::{Allowed, Error, Options, Outcome, Stack};
use serde_json::{Map, Value, json};

use super::options;
use super::usage::Usage;

const EXAMPLE: &str = "examples/teams/template.yaml";
const VERBS: [&str; 5] = ["acquire", "extend", "release", "inspect", "operate"];
/// One name begins with the other.
const TEAMS: [(&str, &str); 2] = [("TeamA", "team"), ("TeamB", "team-b")];
const VARIABLES: [&str; 3] = ["LEASE_KEY_PREFIX", "LEASE_HOLDER_PREFIX", "LEASE_REENTRANT"];

/// Returns what went wrong. Empty if nothing did.
pub(super) async fn play(template: &Path, out: &Path) -> Result<Vec<String>, Error> {
    let root = Options::default().root;
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path);
        text.map_err(|error| failed(path.display(), &error))
    };
    let example = read(&root.join(EXAMPLE))?;
    let text = read(template)?;
    let mut whole: Value = serde_json::from_str(&text).map_err(|e| failed("the template", &e))?;
    let resources = whole["Resources"].as_object_mut();
    let resources = resources.ok_or_else(|| failed("the template", &"no resources"))?;
    for (id, team) in TEAMS {
        resources.extend(of_team(&example, id, team)?);
    }
    let file = out.join("teams.json");
    std::fs::write(&file, whole.to_string()).map_err(|error| failed(file.display(), &error))?;

    let mut wrong = Vec::new();
    // First as shipped, then without the functions' own boundary, so that the role refuses.
    for by_role in [false, true] {
        let open = VARIABLES.map(|name| (name.to_owned(), None));
        let without = BTreeMap::from([("*".to_owned(), open.into())]);
        let stack = Stack::start(Options {
            engine: false,
            environment: if by_role { without } else { BTreeMap::new() },
            ..options(&file, &out.join("teams"))
        });
        let stack = stack.await?;
        let shown = cross(&stack, by_role).await;
        wrong.extend(shown.err());
        if !by_role {
            let refused = stack.roles().refused().into_iter();
            wrong.extend(refused.map(|refused| format!("refused: {refused}")));
            let usage = Usage::of(stack.roles());
            let idle = usage.idle().into_iter();
            // Nobody waits in the queue here.
            let idle = idle.filter(|(role, allowed)| {
                role.starts_with("Team") && allowed.action != "states:SendTaskSuccess"
            });
            wrong.extend(idle.map(
                |(
                    role,
                    Allowed {
                        action, resource, ..
                    },
                )| {
                    format!("{role} may {action} on {resource}, but does not need it")
                },
            ));
        }
        stack.stop().await;
    }
    Ok(wrong)
}

/// Whether one team can use its own leases, and is refused all of the other's.
async fn cross(stack: &Stack, by_role: bool) -> Result<(), String> {
    let [(own, team), (_, other)] = TEAMS;
    let person = |team: &str, name: &str| {
        format!("arn:aws:states:us-east-1:123456789012:execution:{team}_{name}:1")
    };
    let acquire = |team: &str, name: &str| json!({"key": format!("{team}/{name}"), "holder": person(team, "job"), "request_id": name, "ttl_seconds": 600});
    let operate = |team: &str, operation: &str| json!({"key": format!("{team}/mine"), "operation": operation, "who": "a", "why": "b"});
    let mut leases = Vec::new();
    for (id, team) in TEAMS {
        let call = async |verb: &str, event: Value| served(stack, id, verb, event).await;
        let granted = call("acquire", acquire(team, "mine")).await?;
        let granted = call("extend", json!({"lease": granted["lease"]})).await?;
        let keys = [format!("{team}/one"), format!("{team}/two")];
        let set = json!({"keys": keys, "holder": person(team, "job"), "request_id": "set", "ttl_seconds": 600});
        let set = call("acquire", set.clone()).await?;
        call("release", json!({"leases": [set["leases"][1]]})).await?;
        let mut permit = acquire(team, "permit");
        permit["permits"] = 2.into();
        call("acquire", permit).await?;
        call("inspect", json!({"key": format!("{team}/mine")})).await?;
        let listed = call("inspect", json!({"holder": person(team, "job")})).await?;
        if listed["leases"].as_array().map_or(0, Vec::len) != 3 {
            return Err(format!("of {id} is listed {listed}"));
        }
        for operation in ["freeze", "unfreeze"] {
            call("operate", operate(team, operation)).await?;
        }
        leases.push(granted["lease"].clone());
    }
    let theirs = &leases[1];
    let mut as_if_own = acquire(other, "mine");
    as_if_own["holder"] = person(team, "job").into();
    let mut reentrant = acquire(other, "mine");
    reentrant["reentrant"] = true.into();
    reentrant["request_id"] = "another".into();
    for (verb, event) in [
        ("acquire", acquire(other, "mine")),
        ("acquire", as_if_own),
        ("acquire", reentrant),
        (
            "acquire",
            json!({"keys": [format!("{team}/x"), format!("{other}/x")], "holder": person(team, "job"), "ttl_seconds": 60}),
        ),
        ("extend", json!({"lease": theirs})),
        ("extend", json!({"leases": [leases[0], theirs]})),
        ("release", json!({"lease": theirs})),
        ("inspect", json!({"key": format!("{other}/mine")})),
        ("inspect", json!({"holder": person(other, "job")})),
        ("inspect", json!({"list": true})),
        ("operate", operate(other, "freeze")),
        ("operate", operate(other, "force_release")),
        ("operate", operate(other, "raise_floor")),
    ] {
        let said = invoke(stack, own, verb, &event).await?;
        let (error, prefix) = if by_role {
            ("Lease.Denied", "")
        } else {
            ("Lease.Invalid", "team")
        };
        if said["errorType"] != error || !said["errorMessage"].to_string().contains(prefix) {
            return Err(format!("{verb} {event} of another team: {said}"));
        }
    }
    // None of these calls has changed anything.
    served(stack, TEAMS[1].0, "extend", json!({"lease": theirs})).await?;
    if by_role {
        return Ok(());
    }
    let mut beyond = acquire(team, "mine");
    beyond["holder"] = person(other, "job").into();
    let mut again = acquire(team, "mine");
    again["reentrant"] = true.into();
    for (event, said) in [(beyond, "LEASE_HOLDER_PREFIX"), (again, "LEASE_REENTRANT")] {
        let refused = invoke(stack, own, "acquire", &event).await?;
        if !refused["errorMessage"].to_string().contains(said) {
            return Err(format!("acquire {event}: {refused}"));
        }
    }
    Ok(())
}

async fn served(stack: &Stack, team: &str, verb: &str, event: Value) -> Result<Value, String> {
    let answer = invoke(stack, team, verb, &event).await?;
    if answer["errorType"].is_null() {
        return Ok(answer);
    }
    Err(format!("{verb} {event} of the team's own: {answer}"))
}

/// The response of a team's function, or its error.
async fn invoke(stack: &Stack, team: &str, verb: &str, event: &Value) -> Result<Value, String> {
    let name = format!("{team}{}{}Function", verb[..1].to_uppercase(), &verb[1..]);
    let invoked = stack.functions().invoke(&name, &event.to_string()).await;
    match invoked.map_err(|error| error.to_string())?.outcome {
        Outcome::Answer(text) | Outcome::FunctionError(text) => {
            serde_json::from_str(&text).map_err(|error| error.to_string())
        }
        Outcome::Throttled => Err(format!("{name}: throttled")),
    }
}

/// The example's resources for one team, as SAM would translate them, in the stack that they import from.
fn of_team(example: &str, id: &str, team: &str) -> Result<Map<String, Value>, Error> {
    let text = example.replace("${Team}", team);
    let yaml: yaml_serde::Value = yaml_serde::from_str(&text).map_err(|e| failed(EXAMPLE, &e))?;
    let example =
        plain(&yaml).ok_or_else(|| failed(EXAMPLE, &"contains a tag that is not understood"))?;
    let globals = &example["Globals"]["Function"];
    let mut all = Map::new();
    for (name, resource) in example["Resources"].as_object().into_iter().flatten() {
        let mut resource = resource.clone();
        if resource["Type"] == "AWS::Serverless::Function" {
            let own = &resource["Properties"];
            let code = own["CodeUri"].as_str().unwrap_or_default();
            let code = code.trim_start_matches("../");
            resource = json!({"Type": "AWS::Lambda::Function", "Properties": {
                "Code": {"S3Bucket": "bucket", "S3Key": code},
                "Environment": globals["Environment"],
                "LoggingConfig": globals["LoggingConfig"],
                "MemorySize": globals["MemorySize"],
                "Role": own["Role"],
                "Timeout": globals["Timeout"],
            }});
        }
        all.insert(name.replacen("Team", id, 1), resource);
    }
    let verbs: BTreeSet<_> = VERBS.map(|verb| format!("functions/{verb}")).into();
    let found = all
        .values()
        .filter_map(|resource| resource["Properties"]["Code"]["S3Key"].as_str());
    if found.map(str::to_owned).collect::<BTreeSet<_>>() != verbs {
        return Err(failed(EXAMPLE, &"does not have one function of each verb"));
    }
    // Resolve references within it, and its imports.
    let text = Value::Object(all).to_string();
    let text = ["Role", "Logs"].iter().fold(text, |text, kind| {
        text.replace(&format!("\"Team{kind}"), &format!("\"{id}{kind}"))
    });
    let text = text
        .replace(
            r#"{"Fn::ImportValue":"leasehold-LeaseTableName"}"#,
            r#"{"Ref":"LeaseTable"}"#,
        )
        .replace(
            r#"{"Fn::ImportValue":"leasehold-LeaseTableArn"}"#,
            r#"{"Fn::GetAtt":["LeaseTable","Arn"]}"#,
        )
        .replace("${AWS::StackName}", team);
    serde_json::from_str(&text).map_err(|error| failed(EXAMPLE, &error))
}

/// YAML as JSON, `!Ref x` as `{"Ref": "x"}`. None for a tag that `CloudFormation` does not have.
fn plain(yaml: &yaml_serde::Value) -> Option<Value> {
    use yaml_serde::Value as Yaml;
    Some(match yaml {
        Yaml::Sequence(items) => Value::Array(items.iter().map(plain).collect::<Option<_>>()?),
        Yaml::Mapping(fields) => {
            let fields = fields.iter();
            let fields =
                fields.map(|(name, field)| Some((name.as_str()?.to_owned(), plain(field)?)));
            Value::Object(fields.collect::<Option<_>>()?)
        }
        Yaml::Tagged(tagged) => {
            let name = tagged.tag.to_string();
            let value = plain(&tagged.value)?;
            match name.trim_start_matches('!') {
                "Ref" => json!({"Ref": value}),
                "GetAtt" => {
                    let parts: Vec<_> = value.as_str()?.split('.').collect();
                    json!({"Fn::GetAtt": parts})
                }
                name => {
                    let name = format!("Fn::{name}");
                    json!({name: value})
                }
            }
        }
        scalar => serde_json::to_value(scalar).ok()?,
    })
}

fn failed(what: impl std::fmt::Display, why: &dyn std::fmt::Display) -> Error {
    Error::Call {
        what: format!("read {what}"),
        message: why.to_string(),
    }
}
