//! Reads metrics from the functions' output, in CloudWatch's embedded metric format.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::lambda::LambdaHost;

/// One value of one metric, for one set of dimensions.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Datum {
    /// Its namespace: `Leasehold` for the functions.
    pub namespace: String,
    /// Its name.
    pub metric: String,
    /// Its unit, `None` if there is none.
    pub unit: String,
    /// Its dimensions.
    pub dimensions: BTreeMap<String, String>,
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// Its value.
    pub value: f64,
}

impl Datum {
    /// When.
    #[must_use]
    pub fn time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.at)
    }
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "Timestamp")]
    timestamp: u64,
    #[serde(rename = "CloudWatchMetrics")]
    directives: Vec<Directive>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Directive {
    namespace: String,
    dimensions: Vec<Vec<String>>,
    metrics: Vec<Definition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Definition {
    name: String,
    unit: Option<String>,
}

/// The metrics in `lines`, in their order. Other lines are skipped, as CloudWatch does. A line that announces metrics but does
/// not follow the format gives none.
#[must_use]
pub fn read(lines: &str) -> Vec<Datum> {
    lines.lines().filter_map(read_one).flatten().collect()
}

/// The metrics that the functions of a host have written since `began`, in the order of time.
///
/// # Errors
/// [`Error::Io`] when a log cannot be read.
pub fn written(functions: &LambdaHost, began: SystemTime) -> Result<Vec<Datum>, Error> {
    let mut data = Vec::new();
    for function in functions.functions() {
        data.extend(read(&functions.log(&function.logical_id)?));
    }
    // Logs contain earlier runs too.
    data.retain(|datum| datum.time() >= began);
    data.sort_by_key(|datum| datum.at);
    Ok(data)
}

fn read_one(line: &str) -> Option<Vec<Datum>> {
    // Most of a run's many lines are no metrics.
    if !line.contains("\"_aws\"") {
        return None;
    }
    let root: Map<String, Value> = serde_json::from_str(line).ok()?;
    let metadata = Metadata::deserialize(root.get("_aws")?).ok()?;
    let mut data = Vec::new();
    for directive in &metadata.directives {
        for set in &directive.dimensions {
            let dimensions: Option<BTreeMap<_, _>> = set
                .iter()
                .map(|name| Some((name.clone(), root.get(name)?.as_str()?.to_owned())))
                .collect();
            let dimensions = dimensions?;
            for definition in &directive.metrics {
                for value in values(root.get(&definition.name)?)? {
                    data.push(Datum {
                        namespace: directive.namespace.clone(),
                        metric: definition.name.clone(),
                        unit: definition.unit.clone().unwrap_or_else(|| "None".to_owned()),
                        dimensions: dimensions.clone(),
                        at: metadata.timestamp,
                        value,
                    });
                }
            }
        }
    }
    Some(data)
}

/// A number, or a list of up to a hundred.
fn values(value: &Value) -> Option<Vec<f64>> {
    match value {
        Value::Array(values) if values.len() <= 100 => values.iter().map(Value::as_f64).collect(),
        value => Some(vec![value.as_f64()?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"_aws":{"Timestamp":1795230000120,"CloudWatchMetrics":[
        {"Namespace":"Leasehold","Dimensions":[["Table"]],"Metrics":[{"Name":"Grants","Unit":"Count"}]},
        {"Namespace":"Leasehold","Dimensions":[["Table","Operation"]],"Metrics":[{"Name":"Latency","Unit":"Milliseconds"}]}]},
        "Table":"t","Operation":"acquire","Grants":1,"Latency":[5,7.5],"other":"text"}"#;

    #[test]
    fn each_value_is_read_with_its_dimensions() {
        let line = LINE.replace('\n', "");
        let data = read(&format!("INIT_START\n{{\"level\":\"INFO\"}}\n{line}\n"));
        let seen: Vec<_> = data
            .iter()
            .map(|datum| {
                (
                    datum.metric.as_str(),
                    datum.unit.as_str(),
                    datum.dimensions.len(),
                    datum.value,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("Grants", "Count", 1, 1.0),
                ("Latency", "Milliseconds", 2, 5.0),
                ("Latency", "Milliseconds", 2, 7.5)
            ]
        );
        assert_eq!(data[1].dimensions["Operation"], "acquire");
        assert_eq!(
            (data[0].at, data[0].namespace.as_str()),
            (1_795_230_000_120, "Leasehold")
        );
    }

    #[test]
    fn a_line_that_breaks_the_format_gives_nothing() {
        let line = LINE.replace('\n', "");
        for (from, to) in [
            ("\"Grants\":1,", ""),
            ("\"Table\":\"t\",", ""),
            ("\"Table\":\"t\"", "\"Table\":5"),
            ("\"Grants\":1", "\"Grants\":\"1\""),
            ("\"Timestamp\":1795230000120,", ""),
            ("\"Namespace\":\"Leasehold\",", ""),
        ] {
            let broken = line.replacen(from, to, 1);
            assert_ne!(broken, line);
            assert_eq!(read(&broken), [], "{broken}");
        }
    }
}
