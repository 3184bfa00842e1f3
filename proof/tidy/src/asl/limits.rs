//! Time limits: every task has one, and those around our functions leave them the time they take.

use super::{machines, our_functions, sites};
use crate::tree::{Report, Tree};
use yaml_serde::Value;

pub fn time_limits(tree: &Tree, report: &mut Report) {
    let ours = our_functions(tree, report);
    let template = tree.get("template.yaml").unwrap_or_default();
    let template: Value = yaml_serde::from_str(template).unwrap_or_default();
    let own_limit = |id: &str| {
        let own = &template["Resources"][id]["Properties"]["Timeout"];
        own.as_f64()
            .or(template["Globals"]["Function"]["Timeout"].as_f64())
    };
    for id in &ours {
        if own_limit(id).is_none() {
            report.error(format!("template.yaml: {id}: no Timeout"));
        }
    }
    let machines = machines(tree, report);
    for site in sites(&machines) {
        let (limit, pulse) = (
            &site.state["TimeoutSeconds"],
            &site.state["HeartbeatSeconds"],
        );
        if site.state["Type"] == "Task" && limit.is_null() {
            // Without one, a callback that never comes is waited for as long as an execution may last.
            report.error(format!("{}: no TimeoutSeconds", site.place));
        }
        if !pulse.is_null() && !is_below(pulse.as_f64(), limit.as_f64()) {
            report.error(format!(
                "{}: HeartbeatSeconds {pulse} is not less than TimeoutSeconds {limit}",
                site.place
            ));
        }
        let own = site
            .called()
            .filter(|called| ours.iter().any(|id| id == called))
            .and_then(own_limit);
        if own.is_some() && limit.is_number() && !is_below(own, limit.as_f64()) {
            report.error(format!(
                "{}: TimeoutSeconds {limit} is not more than the function's own {}",
                site.place,
                own.unwrap_or_default()
            ));
        }
    }
}

fn is_below(less: Option<f64>, more: Option<f64>) -> bool {
    matches!((less, more), (Some(less), Some(more)) if less < more)
}
