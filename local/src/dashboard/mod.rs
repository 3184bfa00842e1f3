//! `leasehold-local dashboard`: what `make dashboard` runs. Draws the widgets of the template's dashboard from the metrics
//! that the demo's functions wrote.

mod body;
mod chart;
mod series;
mod sheet;

use std::path::{Path, PathBuf};

use clap::Args;
use leasehold_local::metrics::Datum;
use leasehold_local::{Error, Options};

use crate::demo;
use body::{Body, Kind, Widget};
use series::Data;
use sheet::{Place, Sheet};

/// What a line of the alarms' widget is high.
const ALARM_ROW: f64 = 22.0;

/// Draws the template's dashboard from the metrics of a demo.
#[derive(Debug, Args)]
pub(crate) struct Dashboard {
    /// Where metrics.json is, and dashboard.svg goes [default: target/demo]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// Reads the template and the metrics, and writes the picture.
pub(crate) fn run(dashboard: Dashboard) -> Result<(), Error> {
    let options = demo::options(&Options::default().root.join("target/demo"));
    let out = dashboard
        .out
        .unwrap_or_else(|| options.root.join("target/demo"));
    let metrics = out.join("metrics.json");
    let text = std::fs::read_to_string(&metrics).map_err(|source| Error::Io {
        what: format!("read {}, which make demo writes", metrics.display()),
        source,
    })?;
    let data: Vec<Datum> = serde_json::from_str(&text).map_err(|error| wrong(&metrics, &error))?;
    let picture = picture(&options.dashboard()?, data).map_err(|told| wrong(&metrics, &told))?;
    let file = out.join("dashboard.svg");
    std::fs::write(&file, picture).map_err(|source| Error::Io {
        what: format!("write {}", file.display()),
        source,
    })?;
    println!("{}", file.display());
    Ok(())
}

fn wrong(file: &Path, told: &dyn std::fmt::Display) -> Error {
    Error::Call {
        what: format!("draw a dashboard from {}", file.display()),
        message: told.to_string(),
    }
}

/// The picture of a dashboard's body with these data.
fn picture(body: &str, data: Vec<Datum>) -> Result<String, String> {
    let body: Body =
        serde_json::from_str(body).map_err(|error| format!("DashboardBody: {error}"))?;
    let data = Data::new(data);
    let mut sheet = Sheet::default();
    for widget in &body.widgets {
        let place = sheet.place(widget.x, widget.y, widget.width, widget.height);
        match widget.kind {
            Kind::Text => heading(&mut sheet, place, &widget.properties.markdown),
            Kind::Alarm => alarms(&mut sheet, place, widget),
            Kind::Metric => chart::draw(&mut sheet, place, &widget.properties, &data)?,
        }
    }
    let told = format!(
        "Drawn from the {} metrics of one demo of {:.0} seconds on one machine, not from AWS. The number in a legend is the value over the whole demo.",
        data.len(),
        data.seconds
    );
    let how = "Counts are sums of the minutes before, as alarms compare them: on a demo this short they only rise. A dashed line is where an alarm begins.";
    Ok(sheet.finish("Leasehold: the dashboard of template.yaml", &[&told, how]))
}

fn heading(sheet: &mut Sheet, place: Place, markdown: &str) {
    let mut lines = markdown.lines();
    let title = lines.next().unwrap_or_default().trim_start_matches('#');
    sheet.text(place.x + 2.0, place.y + 30.0, "section", title.trim());
    for (line, y) in lines.zip([48.0, 64.0]) {
        sheet.text(place.x + 2.0, place.y + y, "quiet", line);
    }
}

/// The alarms by name, in two columns. Only `CloudWatch` knows how they are.
fn alarms(sheet: &mut Sheet, place: Place, widget: &Widget) {
    sheet.rectangle("card", place);
    let properties = &widget.properties;
    sheet.text(place.x + 12.0, place.y + 21.0, "name", &properties.title);
    sheet.text(
        place.x + 12.0,
        place.y + 36.0,
        "quiet",
        "CloudWatch alone knows how they are",
    );
    let rows = properties.alarms.len().div_ceil(2);
    for (nth, arn) in properties.alarms.iter().enumerate() {
        let name = arn.rsplit(':').next().unwrap_or(arn);
        let name = name.split_once('-').map_or(name, |(_, own)| own);
        let row = f64::from(u32::try_from(nth % rows).unwrap_or(0));
        let x = place.x + 12.0 + if nth < rows { 0.0 } else { place.width / 2.0 };
        let y = place.y + 60.0 + row * ALARM_ROW;
        sheet.put(format_args!(
            r#"<circle class="d4" cx="{:.1}" cy="{:.1}" r="4"/>"#,
            x + 4.0,
            y - 4.0
        ));
        sheet.text(x + 15.0, y, "", name);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn template() -> String {
        demo::options(Path::new("nowhere")).dashboard().unwrap()
    }

    fn lost(at: u64) -> Datum {
        Datum {
            namespace: "Leasehold".to_owned(),
            metric: "Lost".to_owned(),
            unit: "Count".to_owned(),
            dimensions: BTreeMap::from([("Table".to_owned(), "LeaseTable".to_owned())]),
            at,
            value: 1.0,
        }
    }

    #[test]
    fn every_widget_of_the_template_is_in_the_picture() {
        let body = template();
        let drawn = picture(&body, vec![lost(1_000), lost(31_000)]).unwrap();
        let body: Body = serde_json::from_str(&body).unwrap();
        let mut away = 0;
        for widget in &body.widgets {
            let properties = &widget.properties;
            assert!(drawn.contains(&properties.title), "{}", properties.title);
            let lines = properties.lines().iter();
            assert!(
                lines
                    .map(|line| &line.label)
                    .all(|label| drawn.contains(label))
            );
            let ours = |name: &body::Metric| !matches!(&name.what, body::What::Written { namespace, .. } if namespace.starts_with("AWS/"));
            let metrics = properties.metrics().unwrap();
            away += usize::from(!metrics.is_empty() && !metrics.iter().any(ours));
        }
        assert_eq!(drawn.matches("AWS alone measures this").count(), away);
        assert!(away > 0 && drawn.contains(">lost 2<"), "{drawn}");
        assert!(drawn.contains(">sweep-silent<"), "{drawn}");
    }

    #[test]
    fn the_lines_of_alarms_are_those_of_the_demos_parameters() {
        assert!(template().contains(r#"{"label": "alarm clocks", "value": 500}"#));
    }

    #[test]
    fn a_picture_of_nothing_is_still_one() {
        let drawn = picture(&template(), Vec::new()).unwrap();
        assert!(drawn.contains("none in this demo") && !drawn.contains("NaN"));
    }
}
