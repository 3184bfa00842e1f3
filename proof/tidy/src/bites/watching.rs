//! Faults in what watches a deployment, and in what the examples show.

use super::{
    Faults,
    Seed::{Change, Lose},
};

const TEMPLATE: &str = "template.yaml";
const RUNBOOK: &str = "docs/RUNBOOK.md";

pub const FAULTS: &[(&str, Faults)] = &[
    (
        "differences that examples show are those between their files",
        &[
            (
                Change(
                    "examples/adopting/after/take-payment.asl.json",
                    "\"ttl_seconds\": 60",
                    "\"ttl_seconds\": 61",
                ),
                "is not the difference between",
            ),
            (
                Change(
                    "examples/adopting/README.md",
                    "+          \"wait_seconds\": 600,\n",
                    "",
                ),
                "is not the difference between",
            ),
            (
                Lose("examples/adopting/README.md"),
                "no README.md shows a difference",
            ),
        ],
    ),
    (
        "every metric is written, shown and told of",
        &[
            (
                Change(TEMPLATE, "MetricName: TakeOvers", "MetricName: Takeovers"),
                "nobody writes Takeovers",
            ),
            (
                Change("README.md", "`SweepExamined`", "`SweepSeen`"),
                "nothing is said of the metric SweepExamined",
            ),
            (
                Change("lib/src/metrics.rs", "\"QueueDepth\"", "\"LineDepth\""),
                "the dashboard does not show LineDepth",
            ),
        ],
    ),
    (
        "every alarm has its paragraph in the runbook, and every paragraph its alarm",
        &[
            (
                Change(
                    TEMPLATE,
                    "docs/RUNBOOK.md#corrupt",
                    "docs/RUNBOOK.md#corrupted",
                ),
                "does not lead to its paragraph",
            ),
            (
                Change(RUNBOOK, "\n### Corrupt\n", "\n### Corrupted\n"),
                "no paragraph corrupt",
            ),
            (
                Change(TEMPLATE, "      TreatMissingData: notBreaching\n", ""),
                "says nothing of missing data",
            ),
        ],
    ),
    (
        "the dashboard shows every alarm, and draws it where it begins",
        &[
            (
                Change(TEMPLATE, "\"${LostAlarm.Arn}\"", "\"${CorruptAlarm.Arn}\""),
                "the dashboard does not show LostAlarm",
            ),
            (
                Change(
                    TEMPLATE,
                    "      Threshold: 60000\n",
                    "      Threshold: 60001\n",
                ),
                "which is not where it begins",
            ),
        ],
    ),
];
