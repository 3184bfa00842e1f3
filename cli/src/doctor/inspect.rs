//! The checks that write nothing: the stack's resources, the table, the functions' settings, the machine, the alarms.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_lambda::operation::get_function_configuration::GetFunctionConfigurationOutput;
use aws_sdk_lambda::types::{LastUpdateStatus, State};
use leasehold::table::{self, Part};
use leasehold::{Environment, Error, Settings};
use leasehold_asl::plain;
use serde_json::json;

use super::account::{Account, CallError, Resources};
use super::clocks::ClockOffset;
use super::grace::of_grace;
use super::quotas::of_quotas;
use super::report::{Outcome, Report};
use super::template::{Function, MONITORING, STACK, of_type, planned_functions};
use crate::exit::in_full;
use crate::safeguards::Safeguards;

const TABLE: &str = "LeaseTable";
const START: &str = "StartFunction";
const MACHINE: &str = "WithLeaseStateMachine";
const MONITORING_STACK: &str = "MonitoringStack";
const ALARM: &str = "AWS::CloudWatch::Alarm";
/// What a stack has that knows durable functions.
const DURABLE_ENDS: &str = "DurableEndRule";

/// Settings that need not be the same everywhere: the table is checked on its own, and only acquire judges holders.
const MAY_DIFFER: [&str; 2] = ["LEASE_TABLE", "LEASE_EXECUTIONS"];

/// What the checks have read, for the checks that act.
pub(super) struct StackState {
    /// The functions' names in the account, by verb.
    pub(super) functions: BTreeMap<&'static str, String>,
    /// The ARN of the machine with-lease, if it can be started.
    pub(super) machine: Option<String>,
    pub(super) settings: Settings,
    /// The prefixes that the functions require of every key and every holder.
    pub(super) key_prefix: String,
    pub(super) holder_prefix: String,
}

/// Makes all checks of this module.
pub(super) async fn inspect(
    account: &Account,
    resources: &Resources,
    report: &mut Report,
) -> StackState {
    for mapping in of_type(&STACK, "AWS::Lambda::EventSourceMapping") {
        let outcome = of_mapping(account, resources, mapping).await;
        report.record("ends", outcome);
    }
    let functions = configurations(account, resources, report).await;
    let environments: BTreeMap<_, _> = functions
        .iter()
        .filter_map(|(verb, function)| Some((*verb, variables(function)?)))
        .collect();
    report.record("stack", of_stack(resources, &environments));
    let table = table_of(resources, &environments);
    match table {
        Some(table) => {
            of_table(account, table, report).await;
            let found = Safeguards::read(&account.dynamodb, table).await;
            report.record("recovery", of_safeguards(&found));
        }
        None => report.record("table", Outcome::fail("the stack has no table")),
    }
    if environments.len() < functions.len() {
        let hidden = "Lambda does not return the functions' variables: your credentials may not use their KMS key";
        report.record_all(&["table-name", "settings"], &Outcome::not_checked(hidden));
    } else if !environments.is_empty() {
        report.record("table-name", of_table_name(&environments, table));
        report.record("settings", of_settings(&environments));
    }
    let (machine, outcome) = of_machine(account, resources).await;
    report.record("machine", outcome);
    report.record("alarms", of_alarms(account, resources).await);
    report.record("quotas", of_quotas(account).await);
    let of_acquire = |name: &str| environments.get("acquire")?.get(name).cloned();
    let settings = Environment::from(of_acquire).map(|found| found.settings);
    if let Ok(settings) = &settings {
        let lists =
            ["LEASE_EXECUTIONS", "LEASE_STARTS"].map(|list| of_acquire(list).unwrap_or_default());
        let lists = lists.each_ref().map(String::as_str);
        report.record(
            "grace",
            of_grace(account, &lists, settings.reap_grace).await,
        );
    }
    let names = planned_functions().filter_map(|Function { id, verb, .. }| {
        let resource = resources.get(id)?;
        Some((verb, resource.id.clone()))
    });
    StackState {
        functions: names.collect(),
        machine,
        settings: settings.unwrap_or_default(),
        key_prefix: of_acquire("LEASE_KEY_PREFIX").unwrap_or_default(),
        holder_prefix: of_acquire("LEASE_HOLDER_PREFIX").unwrap_or_default(),
    }
}

fn of_stack(resources: &Resources, environments: &BTreeMap<&str, Variables>) -> Outcome {
    let executions = environments
        .get("acquire")
        .and_then(|of_acquire| of_acquire.get("LEASE_EXECUTIONS"));
    let has_durable = executions.is_some_and(|list| list.contains(":function:"));
    let wanted = STACK.iter().filter(|(id, planned)| {
        planned["Condition"].is_null() || has_durable && *id == DURABLE_ENDS
    });
    let missing = wanted.filter(|(id, _)| !resources.contains_key(*id));
    let missing = missing.map(|(id, _)| format!("{id} is missing"));
    let failed = resources
        .iter()
        .filter(|(_, resource)| is_broken(&resource.status))
        .map(|(id, resource)| format!("{id} is {}", resource.status));
    Outcome::of(missing.chain(failed).collect())
}

fn is_broken(status: &str) -> bool {
    status.ends_with("_FAILED") || status == "DELETE_COMPLETE"
}

/// The stack's own table, or the one that it was given by `ExistingTableName`.
fn table_of<'a>(
    resources: &'a Resources,
    environments: &'a BTreeMap<&str, Variables>,
) -> Option<&'a str> {
    if let Some(table) = resources.get(TABLE) {
        return Some(table.id.as_str());
    }
    let name = environments.get("acquire")?.get("LEASE_TABLE")?;
    Some(name.as_str()).filter(|name| !name.is_empty())
}

/// What the template switches on and a restore leaves out, beside what [`table::check`] sees.
fn of_safeguards(found: &Safeguards) -> Outcome {
    let off = found.off();
    match (&found.protection, &found.recovery) {
        (Err(error), _) => CallError::of("dynamodb:DescribeTable", error).outcome("the table"),
        (_, Err(error)) if off.is_empty() => {
            let trouble = CallError::of("dynamodb:DescribeContinuousBackups", error);
            trouble.outcome("point-in-time recovery of the table")
        }
        _ => Outcome::of(off),
    }
}

/// The library's own check of the table. Its faults belong to several checks.
async fn of_table(account: &Account, table: &str, report: &mut Report) {
    let checks = ["table", "index", "ttl"];
    let error = match table::faults(&account.dynamodb, table).await {
        Ok(faults) => {
            for (check, part) in checks
                .into_iter()
                .zip([Part::Table, Part::Index, Part::Ttl])
            {
                let found = faults.iter().filter(|fault| fault.part == part);
                let found = found.map(|fault| plain(&fault.what));
                report.record(check, Outcome::of(found.collect()));
            }
            return;
        }
        Err(error) => error,
    };
    match error {
        Error::Denied { action, .. } => {
            let why = format!("your credentials may not {action}");
            report.record_all(&checks, &Outcome::not_checked(why));
        }
        Error::Unavailable { .. } => {
            let why = Outcome::not_checked("DynamoDB does not answer");
            report.record_all(&checks, &why);
        }
        error => report.record("table", Outcome::fail(plain(&in_full(&error)))),
    }
}

async fn of_mapping(account: &Account, resources: &Resources, id: &str) -> Outcome {
    let Some(mapping) = resources.get(id) else {
        return Outcome::fail(format!("the event source mapping {id} is not in the stack"));
    };
    let get = account.lambda.get_event_source_mapping().uuid(&mapping.id);
    match get.send().await {
        Ok(described) => {
            let state = described.state().unwrap_or("in no state");
            let goes_on = ["Enabled", "Enabling", "Updating", "Creating"].contains(&state);
            Outcome::of(if goes_on {
                Vec::new()
            } else {
                vec![format!("the event source mapping {id} is {}", plain(state))]
            })
        }
        Err(error) => CallError::of("lambda:GetEventSourceMapping", &error)
            .outcome(&format!("the event source mapping {id}")),
    }
}

/// The configuration of each function that exists.
async fn configurations(
    account: &Account,
    resources: &Resources,
    report: &mut Report,
) -> BTreeMap<&'static str, GetFunctionConfigurationOutput> {
    let mut configurations = BTreeMap::new();
    let mut found = Vec::new();
    for function in planned_functions() {
        let verb = function.verb;
        let Some(resource) = resources.get(function.id) else {
            found.push(format!("{verb} is not in the stack"));
            continue;
        };
        let get = account.lambda.get_function_configuration();
        match get.function_name(&resource.id).send().await {
            Ok(described) => {
                found.extend(faults(&function, &described));
                configurations.insert(verb, described);
            }
            Err(error) => {
                let trouble = CallError::of("lambda:GetFunctionConfiguration", &error);
                match trouble.outcome(&format!("the function {verb}")) {
                    Outcome::Fail(why) => found.extend(why),
                    outcome => {
                        report.record_all(&["functions", "table-name", "settings"], &outcome);
                        return BTreeMap::new();
                    }
                }
            }
        }
    }
    let architectures: BTreeMap<_, _> = configurations
        .iter()
        .filter_map(|(verb, described)| {
            Some((
                *verb,
                described.architectures().first()?.as_str().to_owned(),
            ))
        })
        .collect();
    found.extend(differing("the instruction set", &architectures));
    report.record("functions", Outcome::of(found));
    configurations
}

fn faults(planned: &Function, described: &GetFunctionConfigurationOutput) -> Vec<String> {
    let verb = planned.verb;
    let mut faults = Vec::new();
    if !matches!(
        described.state(),
        None | Some(State::Active | State::Inactive)
    ) {
        let state = described.state().map(State::as_str).unwrap_or_default();
        faults.push(format!("{verb} is {state}"));
    }
    if described.last_update_status() == Some(&LastUpdateStatus::Failed) {
        faults.push(format!("the last update of {verb} failed"));
    }
    let runtime = described.runtime().map(|runtime| plain(runtime.as_str()));
    if runtime.as_deref() != Some(planned.runtime) {
        let runtime = runtime.unwrap_or_default();
        faults.push(format!(
            "{verb} runs on {runtime}, the template's runtime is {}",
            planned.runtime
        ));
    }
    let limit = described.timeout().unwrap_or_default();
    if i64::from(limit) != planned.timeout {
        faults.push(format!(
            "the timeout of {verb} is {limit} s, the template's is {} s",
            planned.timeout
        ));
    }
    faults
}

type Variables = BTreeMap<String, String>;

fn variables(described: &GetFunctionConfigurationOutput) -> Option<Variables> {
    let environment = described.environment()?;
    if environment.error().is_some() {
        return None;
    }
    let variables = environment.variables()?.iter();
    Some(
        variables
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

/// `table` is this stack's.
fn of_table_name(environments: &BTreeMap<&str, Variables>, table: Option<&str>) -> Outcome {
    let faults = environments.iter().filter_map(|(verb, all)| {
        let described = all
            .get("LEASE_TABLE")
            .map(String::as_str)
            .unwrap_or_default();
        let name = described
            .rsplit_once(":table/")
            .map_or(described, |(_, name)| name);
        (Some(name) != table).then(|| match name {
            "" => format!("{verb} has no LEASE_TABLE"),
            name => format!(
                "LEASE_TABLE of {verb} is {}, the stack's table is {}",
                plain(name),
                table.unwrap_or("missing")
            ),
        })
    });
    Outcome::of(faults.collect())
}

fn of_settings(environments: &BTreeMap<&str, Variables>) -> Outcome {
    let mut found = Vec::new();
    for (verb, all) in environments {
        if let Err(error) = Environment::from(|name| match name {
            // The check `table-name` covers it.
            "LEASE_TABLE" => Some("table".to_owned()),
            name => all.get(name).cloned(),
        }) {
            found.push(format!("{verb}: {}", plain(&in_full(&error))));
        }
    }
    let names: BTreeSet<_> = environments
        .values()
        .flat_map(BTreeMap::keys)
        .filter(|name| name.starts_with("LEASE_") && !MAY_DIFFER.contains(&name.as_str()))
        .collect();
    for name in names {
        // One that no function has from the template was set by hand, and is the same everywhere too.
        let readers: BTreeSet<_> = planned_functions()
            .filter(|one| one.has(name))
            .map(|one| one.verb)
            .collect();
        let reads = |verb: &str| readers.is_empty() || readers.contains(verb);
        let readers = environments.iter().filter(|(verb, _)| reads(verb));
        let values = readers.map(|(verb, all)| {
            let value = all.get(name).cloned();
            (*verb, value.unwrap_or_else(|| "not set".to_owned()))
        });
        found.extend(differing(name, &values.collect()));
    }
    Outcome::of(found)
}

/// The difference between functions, if any: the value of most, and the functions with another value.
fn differing(what: &str, values: &BTreeMap<&str, String>) -> Option<String> {
    let mut who: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (verb, value) in values {
        who.entry(value).or_default().push(verb);
    }
    let most = who
        .iter()
        .max_by_key(|(_, verbs)| verbs.len())
        .map(|(value, _)| *value)?;
    let others = who.iter().filter(|(value, _)| **value != most);
    let others: Vec<_> = others
        .map(|(value, verbs)| format!("{} in {}", plain(value), verbs.join(", ")))
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "{} is {} in most functions, and {}",
            plain(what),
            plain(most),
            others.join(", and ")
        )
    })
}

/// The ARN of the machine, if it can be started, and the outcome of its check.
async fn of_machine(account: &Account, resources: &Resources) -> (Option<String>, Outcome) {
    let Some(machine) = resources.get(MACHINE) else {
        let found = format!("{MACHINE} is not in the stack");
        return (None, Outcome::fail(found));
    };
    let arn = Some(machine.id.clone());
    let describe = account.sfn.describe_state_machine();
    let described = match describe.state_machine_arn(&machine.id).send().await {
        Ok(described) => described,
        Err(error) => {
            let trouble = CallError::of("states:DescribeStateMachine", &error);
            let may_run = matches!(trouble, CallError::Refused(_));
            let outcome = trouble.outcome("the state machine with-lease");
            return (arn.filter(|_| may_run), outcome);
        }
    };
    let status = described
        .status()
        .map_or("ACTIVE", |status| status.as_str());
    let mut found = Vec::new();
    if status != "ACTIVE" {
        found.push(format!("it is {status}"));
    }
    let function = resources.get(START);
    let name = function.map_or("", |function| function.id.as_str());
    // The name ends the ARN, or a qualifier follows it.
    let ends = ["\"", ":"].map(|end| format!(":function:{name}{end}"));
    let calls = |end: &String| described.definition().contains(end.as_str());
    if !ends.iter().any(calls) {
        found.push("it does not call start of this stack".to_owned());
    }
    (arn, Outcome::of(found))
}

async fn of_alarms(account: &Account, resources: &Resources) -> Outcome {
    let Some(monitoring) = resources.get(MONITORING_STACK) else {
        return Outcome::fail("the stack has no alarms: its parameter Monitoring is disabled");
    };
    match account.resources(&monitoring.id).await {
        Ok(listed) => {
            let missing = of_type(&MONITORING, ALARM).filter(|id| {
                let alarm = listed.get(*id);
                alarm.is_none_or(|alarm| is_broken(&alarm.status) || alarm.kind != ALARM)
            });
            let missing = missing.map(|id| format!("{id} is missing"));
            Outcome::of(missing.collect())
        }
        Err(trouble) => trouble.outcome("the nested stack MonitoringStack"),
    }
}

/// Lists the held leases with the function inspect, which reads the table and its index.
pub(super) async fn list(account: &Account, seen: &StackState, report: &mut Report) {
    let Some(inspect) = seen.functions.get("inspect") else {
        return;
    };
    let outcome = match account
        .invoke(inspect, &json!({"list": true, "limit": 1}))
        .await
    {
        Ok(described) if described.to_string().contains("lease_id") => {
            Outcome::fail("a lease_id was listed")
        }
        Ok(_) => Outcome::Pass,
        Err(refusal) => {
            if refusal.is("Lease.Denied")
                && let Outcome::Fail(found) = refusal.clone().outcome("inspect")
            {
                report.record("roles", Outcome::Fail(found));
            }
            refusal.outcome("inspect")
        }
    };
    report.record("listing", outcome);
}

/// Compares this machine's clock with DynamoDB's.
pub(super) fn clock_here(account: &Account, margin: Duration, report: &mut Report) {
    let outcome = match account.dates.ahead() {
        Some(dynamodb) => {
            let here = ClockOffset::HERE.than(dynamodb);
            Outcome::of(here.fault("this machine's", margin).into_iter().collect())
        }
        None => Outcome::not_checked("no response of DynamoDB had a date"),
    };
    report.record("clock-here", outcome);
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::SdkError;

    use super::*;

    /// The embedded table has no backups, so the answers are written here.
    #[test]
    fn unprotected_table_fails() {
        let judged = |protection, recovery: Result<bool, &'static str>| {
            of_safeguards(&Safeguards {
                protection: Ok(protection),
                recovery: recovery.map_err(SdkError::construction_failure),
            })
        };
        assert_eq!(judged(true, Ok(true)), Outcome::Pass);
        let no_recovery = Outcome::fail("point-in-time recovery is off");
        assert_eq!(judged(true, Ok(false)), no_recovery);
        let no_protection = Outcome::fail("deletion protection is off");
        assert_eq!(judged(false, Ok(true)), no_protection);
        assert_eq!(judged(false, Err("why")), no_protection);
        let unread = judged(true, Err("why"));
        assert!(
            ![Outcome::Pass, no_recovery].contains(&unread),
            "{unread:?}"
        );
    }

    #[test]
    fn table_may_be_an_arn() {
        let arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/leases";
        let variables = BTreeMap::from([("LEASE_TABLE".to_owned(), arn.to_owned())]);
        let functions = BTreeMap::from([("inspect", variables)]);
        assert_eq!(of_table_name(&functions, Some("leases")), Outcome::Pass);
    }

    #[test]
    fn templates_have_what_is_named_here() {
        for id in [START, MACHINE] {
            assert!(STACK[id]["Condition"].is_null(), "{id}");
        }
        for id in [TABLE, MONITORING_STACK, DURABLE_ENDS] {
            assert!(STACK[id]["Condition"].is_string(), "{id}");
        }
        let verbs: Vec<_> = planned_functions().map(|planned| planned.verb).collect();
        let all = [
            "acquire", "extend", "inspect", "operate", "reap", "release", "start", "sweep",
        ];
        assert_eq!(verbs, all);
        let starting = planned_functions().filter(|planned| planned.has("LEASE_STARTS"));
        assert_eq!(starting.count(), verbs.len() - 2);
        assert!(of_type(&STACK, "AWS::Lambda::EventSourceMapping").count() > 0);
        assert!(of_type(&MONITORING, ALARM).count() > 20);
    }
}
