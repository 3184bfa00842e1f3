//! Rules about what watches a deployment: the library's metrics, the template's alarms and dashboard, and the paragraph
//! of docs/RUNBOOK.md that each alarm leads to.

use crate::stack::{differ, items, text};
use crate::tree::{Report, Tree};
use yaml_serde::Value;

const METRICS: &str = "lib/src/metrics.rs";
const RUNBOOK: &str = "docs/RUNBOOK.md";
const NAMESPACE: &str = "Leasehold";

/// What every paragraph tells, in bold.
const PARTS: [&str; 5] = ["It means", "At stake", "Look", "Do", "It is nothing"];

pub fn metrics(tree: &Tree, report: &mut Report) {
    let known = known(tree);
    if known.is_empty() {
        report.error(format!("{METRICS}: no metrics are listed"));
    }
    let mut watched = Vec::new();
    for (id, alarm) in alarms(tree, report) {
        for looked_at in looked_at(&alarm) {
            if text(&looked_at["Namespace"]) == NAMESPACE {
                let name = text(&looked_at["MetricName"]);
                if !known.contains(&name) {
                    report.error(format!("template.yaml: {id}: nobody writes {name}"));
                }
            }
        }
    }
    for widget in widgets(tree, report) {
        for metric in list(&widget["properties"]["metrics"]) {
            if metric[0] == NAMESPACE {
                watched.push(metric[1].as_str().unwrap_or_default().to_owned());
            }
        }
    }
    differ(report, &watched, &known, |name| {
        format!("template.yaml: the dashboard shows {name}, which nobody writes")
    });
    differ(report, &known, &watched, |name| {
        format!("template.yaml: the dashboard does not show {name}")
    });
    let readme = tree.get("README.md").unwrap_or_default();
    for name in &known {
        if !readme.contains(&format!("`{name}`")) {
            report.error(format!("README.md: nothing is said of the metric {name}"));
        }
    }
}

pub fn alarms_lead_somewhere(tree: &Tree, report: &mut Report) {
    let runbook = tree.get(RUNBOOK).unwrap_or_default();
    let paragraphs = paragraphs(runbook);
    let alarms = alarms(tree, report);
    if alarms.is_empty() {
        report.error("template.yaml: there is no alarm");
    }
    let mut names = Vec::new();
    let mut cost = 0;
    for (id, alarm) in &alarms {
        let wrong = |what: &str| format!("template.yaml: {id}: {what}");
        let properties = &alarm["Properties"];
        let name = text(&properties["AlarmName"]).replace("${AWS::StackName}-", "");
        if *id != format!("{}Alarm", camel(&name)) {
            report.error(wrong(&format!("is not the logical id of {name}")));
        }
        let description = text(&properties["AlarmDescription"]);
        if !description.ends_with(&format!(" {RUNBOOK}#{name}")) {
            report.error(wrong("its description does not lead to its paragraph"));
        }
        if text(&properties["TreatMissingData"]).is_empty() {
            report.error(wrong("says nothing of missing data"));
        }
        for actions in ["AlarmActions", "OKActions"] {
            if !items(&untagged(&properties[actions]))
                .iter()
                .any(|action| items(action).iter().any(|to| text(to) == "AlarmTopicArn"))
            {
                report.error(wrong(&format!("{actions} tell nobody")));
            }
        }
        cost += looked_at(alarm).len();
        names.push(name);
    }
    let told: Vec<String> = paragraphs.iter().map(|(name, _)| name.clone()).collect();
    differ(report, &names, &told, |name| {
        format!("{RUNBOOK}: no paragraph {name}, to which an alarm leads")
    });
    differ(report, &told, &names, |name| {
        format!("{RUNBOOK}: {name}: no alarm leads here")
    });
    for (name, paragraph) in paragraphs {
        for part in PARTS {
            if !paragraph.contains(&format!("**{part}")) {
                report.error(format!("{RUNBOOK}: {name}: does not say \"{part}\""));
            }
        }
    }
    let bill = format!("{} alarms on {cost} metrics", names.len());
    if !runbook.contains(&bill) {
        report.error(format!(
            "{RUNBOOK}: what watching costs is not that of {bill}"
        ));
    }
}

pub fn dashboard(tree: &Tree, report: &mut Report) {
    let alarms = alarms(tree, report);
    let widgets = widgets(tree, report);
    let ids: Vec<String> = alarms.iter().map(|(id, _)| id.clone()).collect();
    let shown: Vec<String> = widgets
        .iter()
        .flat_map(|widget| list(&widget["properties"]["alarms"]))
        .filter_map(serde_json::Value::as_str)
        .map(|arn| arn.replace("${", "").replace(".Arn}", ""))
        .collect();
    differ(report, &ids, &shown, |id| {
        format!("template.yaml: the dashboard does not show {id}")
    });
    differ(report, &shown, &ids, |id| {
        format!("template.yaml: the dashboard shows {id}, which is no alarm")
    });
    for widget in &widgets {
        let properties = &widget["properties"];
        let title = properties["title"].as_str().unwrap_or_default();
        if widget["type"] != "text" && title.is_empty() {
            report.error("template.yaml: the dashboard has a widget without a title");
        }
        for line in list(&properties["annotations"]["horizontal"]) {
            let label = line["label"].as_str().unwrap_or_default();
            let id = format!("{}Alarm", camel(label.trim_start_matches("alarm ")));
            let threshold = alarms.iter().find(|(alarm, _)| *alarm == id);
            let threshold = threshold.map(|(_, alarm)| written(&alarm["Properties"]["Threshold"]));
            let drawn = line["value"].as_str().map_or_else(
                || line["value"].to_string(),
                |name| name.replace("${", "").replace('}', ""),
            );
            if threshold.as_deref() != Some(drawn.as_str()) {
                report.error(format!(
                    "template.yaml: the dashboard draws {label} at {drawn}, which is not where it begins"
                ));
            }
        }
    }
}

/// The names of the library's metrics: the first text of each pair.
fn known(tree: &Tree) -> Vec<String> {
    let source = tree.get(METRICS).unwrap_or_default();
    let list = source.split_once("pub const METRICS");
    let list = list.and_then(|(_, rest)| rest.split_once("];"));
    list.map_or_else(Vec::new, |(list, _)| {
        list.lines()
            .filter_map(|line| line.trim().strip_prefix("(\""))
            .filter_map(|pair| pair.split('"').next())
            .map(str::to_owned)
            .collect()
    })
}

fn alarms(tree: &Tree, report: &mut Report) -> Vec<(String, Value)> {
    let mut resources = tree.resources(report);
    resources.retain(|(_, resource)| text(&resource["Type"]) == "AWS::CloudWatch::Alarm");
    resources
}

/// The metrics that an alarm looks at, each with a name and a namespace.
fn looked_at(alarm: &Value) -> Vec<Value> {
    let properties = &alarm["Properties"];
    if !properties["MetricName"].is_null() {
        return vec![properties.clone()];
    }
    items(&properties["Metrics"])
        .iter()
        .map(|query| query["MetricStat"]["Metric"].clone())
        .filter(|metric| !metric.is_null())
        .collect()
}

/// The dashboard's widgets; where the stack puts in a number, its name stands as text.
fn widgets(tree: &Tree, report: &mut Report) -> Vec<serde_json::Value> {
    let resources = tree.resources(report);
    let dashboard = resources
        .iter()
        .find(|(_, resource)| text(&resource["Type"]) == "AWS::CloudWatch::Dashboard");
    let Some((_, dashboard)) = dashboard else {
        report.error("template.yaml: there is no dashboard");
        return Vec::new();
    };
    let body = text(&dashboard["Properties"]["DashboardBody"]);
    let mut parts = body.split(": ${");
    let mut json = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        json.extend([": \"${", name, "}\"", rest]);
    }
    match serde_json::from_str::<serde_json::Value>(&json) {
        Ok(body) => list(&body["widgets"]).to_vec(),
        Err(error) => {
            report.error(format!("template.yaml: DashboardBody: {error}"));
            Vec::new()
        }
    }
}

/// The paragraphs under "Alarms", each by the name that a link to it has.
fn paragraphs(runbook: &str) -> Vec<(String, &str)> {
    let alarms = runbook
        .split("\n## ")
        .find(|part| part.starts_with("Alarms"));
    alarms
        .unwrap_or_default()
        .split("\n### ")
        .skip(1)
        .map(|paragraph| {
            let title = paragraph.lines().next().unwrap_or_default();
            (title.to_lowercase().replace(' ', "-"), paragraph)
        })
        .collect()
}

fn camel(name: &str) -> String {
    name.split('-')
        .map(|word| word[..1.min(word.len())].to_uppercase() + word.get(1..).unwrap_or_default())
        .collect()
}

/// A number or a name as it is written.
fn written(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        other => text(other),
    }
}

fn untagged(value: &Value) -> Value {
    match value {
        Value::Tagged(tagged) => tagged.value.clone(),
        other => other.clone(),
    }
}

fn list(value: &serde_json::Value) -> &[serde_json::Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    const TEMPLATE: &str = include_str!("../../../template.yaml");
    const BOOK: &str = include_str!("../../../docs/RUNBOOK.md");
    const LIST: &str = include_str!("../../../lib/src/metrics.rs");
    const README: &str = include_str!("../../../README.md");

    /// The real files hold; each of these changes to one of them does not.
    fn bites(rule: fn(&Tree, &mut Report), faults: &[(&str, &str, &str)]) {
        let files = [
            ("template.yaml", TEMPLATE),
            (RUNBOOK, BOOK),
            (METRICS, LIST),
            ("README.md", README),
        ];
        assert_eq!(errors(rule, &files), [""; 0]);
        for (file, from, to) in faults {
            let changed: Vec<(&str, String)> = files
                .iter()
                .map(|(path, content)| {
                    let content = if path == file {
                        let changed = content.replace(from, to);
                        assert_ne!(changed, *content, "{from} is not in {file}");
                        changed
                    } else {
                        (*content).to_owned()
                    };
                    (*path, content)
                })
                .collect();
            let changed: Vec<(&str, &str)> = changed
                .iter()
                .map(|(path, content)| (*path, content.as_str()))
                .collect();
            assert_ne!(errors(rule, &changed), [""; 0], "{file}: {to}");
        }
    }

    #[test]
    fn a_metric_is_written_shown_and_told_of() {
        bites(
            metrics,
            &[
                (METRICS, "(\"Lost\", ", "(\"Loss\", "),
                (METRICS, "pub const METRICS", "pub const OTHERS"),
                (
                    "template.yaml",
                    "MetricName: Lost\n",
                    "MetricName: Losses\n",
                ),
                (
                    "template.yaml",
                    "\"Leasehold\", \"HeldTime\"",
                    "\"Leasehold\", \"Held\"",
                ),
                (
                    "template.yaml",
                    "[\"Leasehold\", \"QueueDepth\"",
                    "[\"AWS/SQS\", \"QueueDepth\"",
                ),
                ("README.md", "`SweepFreed`", "`SweptFreed`"),
            ],
        );
    }

    #[test]
    fn an_alarm_has_its_paragraph_and_a_paragraph_its_alarm() {
        bites(
            alarms_lead_somewhere,
            &[
                (RUNBOOK, "### Lost\n", "### Loss\n"),
                (RUNBOOK, "## Without an alarm\n", "### Without an alarm\n"),
                (RUNBOOK, "**It is nothing** never.", ""),
                (
                    RUNBOOK,
                    "14 alarms on 20 metrics",
                    "13 alarms on 20 metrics",
                ),
                (
                    "template.yaml",
                    "docs/RUNBOOK.md#lost",
                    "docs/RUNBOOK.md#loss",
                ),
                (
                    "template.yaml",
                    "-lost\n      AlarmDescription",
                    "-gone\n      AlarmDescription",
                ),
                ("template.yaml", "      TreatMissingData: breaching\n", ""),
                (
                    "template.yaml",
                    "      OKActions: !If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]\n",
                    "",
                ),
                ("template.yaml", "  ClocksAlarm:\n", "  ClockAlarm:\n"),
                (
                    "template.yaml",
                    "AWS::CloudWatch::Alarm",
                    "AWS::CloudWatch::CompositeAlarm",
                ),
            ],
        );
    }

    #[test]
    fn the_dashboard_shows_every_alarm_and_draws_it_where_it_begins() {
        bites(
            dashboard,
            &[
                ("template.yaml", "\"${LostAlarm.Arn}\", ", ""),
                (
                    "template.yaml",
                    "\"${LostAlarm.Arn}\"",
                    "\"${LossAlarm.Arn}\"",
                ),
                (
                    "template.yaml",
                    "\"label\": \"alarm lost\", \"value\": 1",
                    "\"label\": \"alarm lost\", \"value\": 2",
                ),
                (
                    "template.yaml",
                    "\"value\": ${ClockMarginMs}",
                    "\"value\": ${GuardMs}",
                ),
                (
                    "template.yaml",
                    "\"label\": \"alarm clocks\"",
                    "\"label\": \"alarm clock\"",
                ),
                ("template.yaml", "\"title\": \"Sweep\", ", ""),
                ("template.yaml", "{\"widgets\": [", "{\"widgets\": [["),
                (
                    "template.yaml",
                    "AWS::CloudWatch::Dashboard",
                    "AWS::CloudWatch::InsightRule",
                ),
            ],
        );
    }
}
