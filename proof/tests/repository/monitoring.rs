//! What watches a deployment: the library's metrics, the template's alarms and dashboard, and the paragraph of
//! docs/operate/alarms.md that each alarm leads to.

use crate::stack::{MONITORING, TEMPLATE, of_type, text};
use crate::{Files, Rule, SeededEdit};
use serde_json::Value;
use std::collections::BTreeSet;

pub const RULES: &[(&str, Rule, &[SeededEdit])] = &[
    (
        "every metric is written, counted by a test, shown and documented",
        metrics,
        &[
            ("proof/tests/contract/cases/holding.yaml", "Revived: 1", ""),
            (METRICS, "    Lost \"", "    Loss \""),
            (
                TEMPLATE,
                "\"ApplicationLogLevel\": \"INFO\"",
                "\"ApplicationLogLevel\": \"WARN\"",
            ),
        ],
    ),
    (
        "the runbook writes requests where nobody else does, and sends none that it could not write",
        requests_are_private,
        &[
            (
                "docs/operate/stuck-key.md",
                "\"$private/force.json\" &&",
                "\"$private/force.json\"",
            ),
            (RUNBOOK, "$private/floor.json", "/tmp/floor.json"),
        ],
    ),
    (
        "every alarm has its paragraph in the runbook, and every paragraph its alarm",
        alarms,
        &[
            (RUNBOOK, "### Lost\n", "### Loss\n"),
            (MONITORING, "\"ClocksAlarm\": {", "\"ClockAlarm\": {"),
            (
                TEMPLATE,
                "https://${AWS::Region}.console",
                "${AWS::Region}.console",
            ),
        ],
    ),
    (
        "the dashboard shows every alarm, and draws it where it begins",
        dashboard,
        &[
            (MONITORING, "\\\"${LostAlarm.Arn}\\\", ", ""),
            (
                MONITORING,
                "\\\"label\\\": \\\"alarm lost\\\", \\\"value\\\": 1",
                "\\\"label\\\": \\\"alarm lost\\\", \\\"value\\\": 2",
            ),
        ],
    ),
    (
        "whatever may fail without a line of ours has an alarm on AWS's own metrics",
        silent_failures,
        &[
            (
                MONITORING,
                "/aws/lambda/${StackName}-extend",
                "/aws/lambda/${StackName}-extent",
            ),
            (
                MONITORING,
                "$.record.errorType = \\\"Runtime.*\\\"",
                "$.record.status != \\\"success\\\"",
            ),
            (
                MONITORING,
                "\"MetricName\": \"Throttles\"",
                "\"MetricName\": \"Errors\"",
            ),
            (
                MONITORING,
                "\"ApproximateAgeOfOldestMessage\"",
                "\"SentMessageSize\"",
            ),
            (MONITORING, "\"TriggeredRules\"", "\"ThrottledRules\""),
            (
                MONITORING,
                "\"ExecutionsTimedOut\"",
                "\"ExecutionThrottled\"",
            ),
        ],
    ),
];

const METRICS: &str = "lib/src/metrics.rs";
const RUNBOOK: &str = "docs/operate/alarms.md";
const COST: &str = "docs/reference/cost.md";
const NAMESPACE: &str = "Leasehold";
/// Of the metrics that log filters make.
const FILTERED: &str = "Leasehold/${StackName}";
/// A report of the platform on an invocation that ended without an answer. Answers that are errors have an `errorType` of
/// their own, such as `Lease.Held`, which Lambda may report as `Runtime.Unknown`.
const CRASH: &str = "{ $.type = \"platform.report\" && ($.record.status = \"timeout\" || ($.record.errorType = \"Runtime.*\" && $.record.errorType != \"Runtime.Unknown\")) }";

/// What every paragraph of an alarm says, in bold.
const PARTS: [&str; 5] = ["It means", "At stake", "Look", "Do", "Ignore it"];

fn requests_are_private(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    let pages = files.all("docs/operate/", ".md");
    let lines = pages.flat_map(|(path, text)| text.lines().map(move |line| (path, line)));
    for (path, line) in lines {
        if line.contains("/tmp/") {
            wrong.push(format!("{path}: {line}: others can write there"));
        }
        // What is written ends the line or a command, whose failure has to end the rest.
        let written = line.split(" > \"$private/").skip(1);
        for after in written {
            let (_, then) = after.split_once('"').unwrap_or_default();
            if !then.starts_with(" &&") && !then.starts_with(" || break") {
                wrong.push(format!("{path}: {line}: goes on after a failed write"));
            }
        }
    }
    wrong
}

fn metrics(files: &Files) -> Vec<String> {
    let list = files
        .text(METRICS)
        .split_once("\nmetrics! {")
        .and_then(|(_, rest)| rest.split_once('}'));
    let rows = list.map_or("", |(list, _)| list).lines();
    let written: BTreeSet<String> = rows
        .filter_map(|row| row.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    let widgets = widgets(files);
    let shown = widgets
        .iter()
        .flat_map(|widget| list_of(&widget["properties"]["metrics"]));
    let shown: BTreeSet<String> = shown
        .filter(|metric| metric[0] == NAMESPACE)
        .map(|metric| text(&metric[1]))
        .collect();
    let differing = written.symmetric_difference(&shown);
    let mut wrong: Vec<String> = differing
        .map(|name| format!("{name} is not both written and on the dashboard"))
        .collect();
    for (id, alarm) in of_type(files, "AWS::CloudWatch::Alarm") {
        for metric in watched(&alarm)
            .iter()
            .filter(|metric| metric["Namespace"] == NAMESPACE)
        {
            if !written.contains(&text(&metric["MetricName"])) {
                wrong.push(format!(
                    "{id}: nothing writes {}",
                    text(&metric["MetricName"])
                ));
            }
        }
    }
    for (id, function) in of_type(files, "AWS::Lambda::Function") {
        let level = &function["Properties"]["LoggingConfig"]["ApplicationLogLevel"];
        if level != "INFO" {
            wrong.push(format!("{id}: Lambda drops the metrics at level {level}"));
        }
    }
    let documents: String = files
        .all("", "README.md")
        .chain(files.all("docs/", ".md"))
        .map(|(_, text)| text)
        .collect();
    let silent = written
        .iter()
        .filter(|name| !documents.contains(&format!("`{name}`")));
    wrong.extend(silent.map(|name| format!("no document names the metric {name}")));
    let tests: String = files
        .all("proof/tests/contract/", "")
        .chain(files.all("lib/tests/cases/", ".rs"))
        .chain([("", files.text(METRICS))])
        .map(|(_, text)| text)
        .collect();
    let untested = written.iter().filter(|name| {
        let forms = [
            format!(" {name}: "),
            format!("{{{name}: "),
            format!("\"{name}\""),
            format!("Metric::{name}"),
        ];
        !forms.iter().any(|form| tests.contains(form))
    });
    wrong.extend(untested.map(|name| format!("no test counts the metric {name}")));
    wrong
}

fn alarms(files: &Files) -> Vec<String> {
    let runbook = files.text(RUNBOOK);
    let section = runbook
        .split("\n## ")
        .find(|part| part.starts_with("Alarms"))
        .unwrap_or_default();
    let paragraphs: Vec<(String, &str)> = section
        .split("\n### ")
        .skip(1)
        .map(|paragraph| {
            (
                paragraph
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_lowercase()
                    .replace(' ', "-"),
                paragraph,
            )
        })
        .collect();
    let mut wrong = Vec::new();
    // What all of them end with, before the name: an address that can be opened.
    for (id, stack) in of_type(files, "AWS::CloudFormation::Stack") {
        let address = stack["Properties"]["Parameters"]["Runbook"].to_string();
        if address != "null"
            && !(address.contains("\"https://") && address.contains(&format!("{RUNBOOK}#\"")))
        {
            wrong.push(format!("{id}: the descriptions of alarms lead nowhere"));
        }
    }
    let (mut names, mut cost) = (BTreeSet::new(), 0);
    for (id, alarm) in of_type(files, "AWS::CloudWatch::Alarm") {
        let properties = &alarm["Properties"];
        let name = text(&properties["AlarmName"]).replace("${StackName}-", "");
        let tells = |actions: &str| properties[actions].to_string().contains("AlarmTopicArn");
        let treats = text(&properties["TreatMissingData"]);
        let description = text(&properties["AlarmDescription"]);
        if id != logical_id(&name)
            || !description.contains(" Do: ")
            || !description.ends_with(&format!(" ${{Runbook}}{name}"))
            || !["breaching", "notBreaching", "ignore"].contains(&treats.as_str())
            || !tells("AlarmActions")
            || !tells("OKActions")
        {
            wrong.push(format!(
                "{id}: its name, paragraph, missing data or actions are not as for the others"
            ));
        }
        cost += watched(&alarm).len();
        names.insert(name);
    }
    let described: BTreeSet<String> = paragraphs.iter().map(|(name, _)| name.clone()).collect();
    wrong.extend(
        names
            .symmetric_difference(&described)
            .map(|name| format!("{name}: not both an alarm and a paragraph")),
    );
    for (name, paragraph) in paragraphs {
        let missing = PARTS
            .iter()
            .filter(|part| !paragraph.contains(&format!("**{part}")));
        wrong.extend(missing.map(|part| format!("{RUNBOOK}: {name}: does not say {part:?}")));
    }
    let bill = format!("{} alarms on {cost} metrics", names.len());
    if !files.text(COST).contains(&bill) {
        wrong.push(format!("{COST}: the cost is not that of {bill}"));
    }
    wrong
}

fn dashboard(files: &Files) -> Vec<String> {
    let alarms = of_type(files, "AWS::CloudWatch::Alarm");
    let widgets = widgets(files);
    let ids: BTreeSet<String> = alarms.iter().map(|(id, _)| id.clone()).collect();
    let shown = widgets
        .iter()
        .flat_map(|widget| list_of(&widget["properties"]["alarms"]));
    let shown: BTreeSet<String> = shown
        .map(|arn| text(arn).replace("${", "").replace(".Arn}", ""))
        .collect();
    let differing = ids.symmetric_difference(&shown);
    let mut wrong: Vec<String> = differing
        .map(|id| format!("{id}: not both an alarm and on the dashboard"))
        .collect();
    for line in widgets
        .iter()
        .flat_map(|widget| list_of(&widget["properties"]["annotations"]["horizontal"]))
    {
        let label = text(&line["label"]);
        let id = logical_id(label.trim_start_matches("alarm "));
        let begins = alarms
            .iter()
            .find(|(alarm, _)| *alarm == id)
            .map(|(_, alarm)| text(&alarm["Properties"]["Threshold"]));
        let drawn = text(&line["value"]).replace("${", "").replace('}', "");
        if begins.as_deref() != Some(drawn.as_str()) {
            wrong.push(format!(
                "the dashboard draws {label} at {drawn}, and it begins at {begins:?}"
            ));
        }
    }
    wrong
}

fn silent_failures(files: &Files) -> Vec<String> {
    let alarms = of_type(files, "AWS::CloudWatch::Alarm");
    let watched: BTreeSet<(String, String, String)> = alarms
        .iter()
        .flat_map(|(_, alarm)| watched(alarm))
        .map(|metric| {
            let of = text(&metric["Dimensions"][0]["Value"]);
            (text(&metric["Namespace"]), text(&metric["MetricName"]), of)
        })
        .collect();
    let mut wrong = Vec::new();
    let mut needs = |namespace: &str, metric: &str, of: &str| {
        let metric = (namespace.to_owned(), metric.to_owned(), of.to_owned());
        if !watched.contains(&metric) {
            wrong.push(format!(
                "no alarm watches {} {} of {of:?}",
                metric.0, metric.1
            ));
        }
    };
    needs(FILTERED, "Crashes", "null");
    for (id, _) in of_type(files, "AWS::Lambda::Function") {
        needs("AWS/Lambda", "Throttles", &id);
    }
    let redriven: BTreeSet<String> = of_type(files, "AWS::SQS::Queue")
        .iter()
        .chain(&of_type(files, "AWS::Lambda::EventSourceMapping"))
        .flat_map(|(_, one)| {
            let properties = &one["Properties"];
            [
                text(&properties["RedrivePolicy"]["deadLetterTargetArn"]),
                text(&properties["DestinationConfig"]["OnFailure"]["Destination"]),
            ]
        })
        .collect();
    for (id, _) in of_type(files, "AWS::SQS::Queue") {
        let metric = if redriven.contains(&format!("{id}.Arn")) {
            "ApproximateNumberOfMessagesVisible"
        } else {
            "ApproximateAgeOfOldestMessage"
        };
        needs("AWS/SQS", metric, &id);
    }
    for (id, rule) in of_type(files, "AWS::Events::Rule") {
        // A schedule that stops is noticed by the run that it should have started. How many durable executions end, which are a
        // user's, nothing counts in one number; sweep looks at them too, and at those that are redriven.
        let is_looked_after = ["DurableEndRule", "RedriveRule"].contains(&&*id);
        if rule["Properties"]["ScheduleExpression"].is_null() && !is_looked_after {
            needs("AWS/Events", "TriggeredRules", &id);
        }
    }
    for metric in ["ExecutionsFailed", "ExecutionsTimedOut"] {
        needs("AWS/States", metric, "WithLeaseStateMachine");
    }
    let functions = of_type(files, "AWS::Lambda::Function");
    let groups = functions.iter().map(|(id, _)| {
        let verb = id.trim_end_matches("Function").to_lowercase();
        format!("/aws/lambda/${{StackName}}-{verb}")
    });
    let groups: BTreeSet<String> = groups.collect();
    let filters = of_type(files, "AWS::Logs::MetricFilter");
    let filtered = filters.iter().filter(|(_, filter)| {
        let properties = &filter["Properties"];
        let metric = &properties["MetricTransformations"][0];
        properties["FilterPattern"] == CRASH
            && text(&metric["MetricNamespace"]) == FILTERED
            && metric["MetricName"] == "Crashes"
    });
    let filtered = filtered.map(|(_, filter)| text(&filter["Properties"]["LogGroupName"]));
    let filtered: BTreeSet<String> = filtered.collect();
    let differing = filtered.symmetric_difference(&groups);
    wrong.extend(
        differing
            .map(|group| format!("{group}: not both a function's log and counted for crashes")),
    );
    wrong
}

/// The metrics that an alarm looks at, each with a name and a namespace.
fn watched(alarm: &Value) -> Vec<Value> {
    let properties = &alarm["Properties"];
    if !properties["MetricName"].is_null() {
        return vec![properties.clone()];
    }
    let queries = list_of(&properties["Metrics"])
        .iter()
        .map(|query| query["MetricStat"]["Metric"].clone());
    queries.filter(|metric| !metric.is_null()).collect()
}

/// The dashboard's widgets; where the stack puts in a number, its name is kept as text.
fn widgets(files: &Files) -> Vec<Value> {
    let dashboards = of_type(files, "AWS::CloudWatch::Dashboard");
    let body = dashboards.first().map_or_else(String::new, |(_, found)| {
        text(&found["Properties"]["DashboardBody"])
    });
    let mut parts = body.split(": ${");
    let mut json = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        json.extend([": \"${", name, "}\"", rest]);
    }
    let body: Value = serde_json::from_str(&json).unwrap_or_default();
    list_of(&body["widgets"]).to_vec()
}

fn logical_id(name: &str) -> String {
    let words = name
        .split('-')
        .map(|word| word[..1.min(word.len())].to_uppercase() + word.get(1..).unwrap_or_default());
    words.collect::<String>() + "Alarm"
}

fn list_of(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
