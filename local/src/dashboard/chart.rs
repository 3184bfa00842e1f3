//! One widget of metrics: axes, lines, where alarms begin, and a legend with what each line comes to.

use super::body::{Line, Metric, Properties, What};
use super::series::{Data, NAMESPACE, Series};
use super::sheet::{COLOURS, Place, Sheet, width};

const HEAD: f64 = 52.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 16.0;
const LEGEND_ROW: f64 = 16.0;

/// Draws the widget.
///
/// # Errors
/// A sentence on what of it is not understood here.
pub(super) fn draw(
    sheet: &mut Sheet,
    place: Place,
    properties: &Properties,
    data: &Data,
) -> Result<(), String> {
    sheet.rectangle("card", place);
    sheet.text(place.x + 12.0, place.y + 21.0, "name", &properties.title);
    let metrics = properties.metrics()?;
    let series = data.of(&metrics, properties.period)?;
    if series.is_empty() {
        only_aws(sheet, place, &metrics, properties.lines());
        return Ok(());
    }
    let mut axis = properties.axis().to_owned();
    if series.iter().all(|one| one.overall.is_none()) {
        axis.push_str(": none in this demo");
    }
    sheet.text(place.x + 12.0, place.y + 36.0, "quiet", &axis);
    let rows = legend(sheet, place, &series);
    let plot = Place {
        x: place.x + LEFT,
        y: place.y + HEAD,
        width: place.width - LEFT - RIGHT,
        height: place.height - HEAD - rows * LEGEND_ROW - 34.0,
    };
    let frame = Frame::new(sheet, plot, &series, properties.lines(), data.seconds);
    for (nth, one) in series.iter().enumerate() {
        frame.line(sheet, nth % COLOURS, one);
    }
    for line in properties.lines() {
        let y = frame.y(line.value);
        sheet.rule("limit", (plot.x, y), (plot.x + plot.width, y));
        let end = plot.x + plot.width - 3.0;
        sheet.text(end, y - 4.0, "limitname right", &line.label);
    }
    Ok(())
}

/// Says whose metrics they are, for lack of them.
fn only_aws(sheet: &mut Sheet, place: Place, metrics: &[Metric], lines: &[Line]) {
    let inner = Place {
        x: place.x + 12.0,
        y: place.y + 34.0,
        width: place.width - 24.0,
        height: place.height - 46.0,
    };
    sheet.rectangle("away", inner);
    let middle = inner.x + inner.width / 2.0;
    let mut names: Vec<String> = Vec::new();
    for metric in metrics {
        if let What::Written {
            namespace, name, ..
        } = &metric.what
            && namespace != NAMESPACE
        {
            let full = format!("{namespace} {name}");
            if !names.contains(&full) {
                names.push(full);
            }
        }
    }
    let mut y =
        inner.y + inner.height / 2.0 - 8.0 * f64::from(u32::try_from(names.len()).unwrap_or(0));
    sheet.text(middle, y, "middle", "AWS alone measures this:");
    for name in names {
        y += 16.0;
        sheet.text(middle, y, "quiet middle", &name);
    }
    for line in lines {
        y += 16.0;
        let told = format!("{} at {}", line.label, number(line.value));
        sheet.text(middle, y, "limitname middle", &told);
    }
}

/// The legend at the bottom; answers how many rows it took.
fn legend(sheet: &mut Sheet, place: Place, series: &[Series]) -> f64 {
    let mut rows: Vec<Vec<(usize, String)>> = vec![Vec::new()];
    let mut used = 0.0;
    for (nth, one) in series.iter().enumerate() {
        let value = one.overall.map_or_else(|| "–".to_owned(), number);
        let label = format!("{} {value}", one.label);
        let wide = width(&label) + 30.0;
        if used + wide > place.width - 20.0 && used > 0.0 {
            rows.push(Vec::new());
            used = 0.0;
        }
        used += wide;
        if let Some(row) = rows.last_mut() {
            row.push((nth, label));
        }
    }
    let count = f64::from(u32::try_from(rows.len()).unwrap_or(1));
    let mut y = place.y + place.height - 12.0 - (count - 1.0) * LEGEND_ROW;
    for row in rows {
        let mut x = place.x + 12.0;
        for (nth, label) in row {
            sheet.put(format_args!(
                r#"<rect class="d{}" x="{x:.1}" y="{:.1}" width="12" height="4" rx="2"/>"#,
                nth % COLOURS,
                y - 6.0
            ));
            sheet.text(x + 17.0, y, "quiet", &label);
            x += width(&label) + 30.0;
        }
        y += LEGEND_ROW;
    }
    count
}

/// The plot with its axes drawn.
struct Frame {
    plot: Place,
    top: f64,
    seconds: f64,
}

impl Frame {
    fn new(
        sheet: &mut Sheet,
        plot: Place,
        series: &[Series],
        lines: &[Line],
        seconds: f64,
    ) -> Self {
        let values = series.iter().flat_map(|one| &one.points).map(|(_, v)| *v);
        let largest = values
            .chain(lines.iter().map(|line| line.value))
            .fold(0.0, f64::max);
        let step = step(largest / 3.0);
        let top = (largest * 1.12 / step).ceil().max(1.0) * step;
        let frame = Self { plot, top, seconds };
        let mut value = 0.0;
        while value <= top {
            let y = frame.y(value);
            let class = if value == 0.0 { "axis" } else { "grid" };
            sheet.rule(class, (plot.x, y), (plot.x + plot.width, y));
            sheet.text(plot.x - 6.0, y + 4.0, "quiet right", &number(value));
            value += step;
        }
        let tick = step_of_time(seconds);
        let mut at = 0.0;
        while at <= seconds {
            let x = frame.x(at);
            let unit = if at == 0.0 { " s" } else { "" };
            let label = format!("{}{unit}", number(at));
            sheet.text(x, plot.y + plot.height + 15.0, "quiet middle", &label);
            at += tick;
        }
        frame
    }

    fn x(&self, seconds: f64) -> f64 {
        self.plot.x + self.plot.width * seconds / self.seconds
    }

    fn y(&self, value: f64) -> f64 {
        self.plot.y + self.plot.height * (1.0 - value / self.top)
    }

    fn line(&self, sheet: &mut Sheet, colour: usize, series: &Series) {
        let mut path = String::new();
        let mut before: Option<f64> = None;
        for (at, value) in &series.points {
            let (x, y) = (self.x(*at), self.y(*value));
            match before {
                None => path.push_str(&format_point('M', x, y)),
                Some(level) => {
                    if series.steps {
                        path.push_str(&format_point('L', x, level));
                    }
                    path.push_str(&format_point('L', x, y));
                }
            }
            before = Some(y);
        }
        if !path.is_empty() {
            let thin = if series.steps { "" } else { " thin" };
            sheet.put(format_args!(
                r#"<path class="line s{colour}{thin}" d="{path}"/>"#
            ));
        }
        if !series.steps {
            for (at, value) in &series.points {
                sheet.put(format_args!(
                    r#"<circle class="d{colour}" cx="{:.1}" cy="{:.1}" r="3"/>"#,
                    self.x(*at),
                    self.y(*value)
                ));
            }
        }
    }
}

fn format_point(how: char, x: f64, y: f64) -> String {
    format!("{how}{x:.1} {y:.1}")
}

/// A round step of at least this size.
fn step(at_least: f64) -> f64 {
    let mut scale = 1.0;
    loop {
        for round in [1.0, 2.0, 5.0] {
            if round * scale >= at_least {
                return round * scale;
            }
        }
        scale *= 10.0;
    }
}

fn step_of_time(seconds: f64) -> f64 {
    step(seconds / 6.0)
}

/// With thin spaces between thousands, and a decimal only where it matters.
fn number(value: f64) -> String {
    let text = if value >= 10.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    };
    let (whole, rest) = text
        .split_once('.')
        .map_or((text.as_str(), ""), |(w, r)| (w, r));
    let mut grouped = String::new();
    for (nth, digit) in whole.chars().enumerate() {
        if nth > 0 && (whole.len() - nth).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    if rest.is_empty() {
        grouped
    } else {
        format!("{grouped}.{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        let steps = [0.0, 0.4, 1.1, 3.0, 17.0, 60_000.0].map(|least| number(step(least)));
        assert_eq!(steps, ["1", "1", "2", "5", "20", "100\u{202f}000"]);
    }

    #[test]
    fn numbers_can_be_read() {
        assert_eq!(
            [0.0, 3.26, 12.6, 1234.0, 60_000.0].map(number),
            ["0", "3.3", "13", "1\u{202f}234", "60\u{202f}000"]
        );
    }
}
