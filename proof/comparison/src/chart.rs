//! The charts: measures as lines over a number, or as bars side by side.

use std::collections::BTreeSet;

use plotters::prelude::*;

use crate::report::Measure;

/// One colour for each, the same in every chart.
fn colour(name: &str) -> RGBColor {
    match name {
        OURS => RGBColor(20, 90, 160),
        "direct calls" => RGBColor(200, 80, 30),
        "dynamodb-lease" => RGBColor(60, 140, 60),
        "polling" => RGBColor(130, 80, 160),
        "python_dynamodb_lock" => RGBColor(120, 120, 120),
        "started through the key" => RGBColor(90, 160, 220),
        "with-lease" => RGBColor(30, 150, 160),
        "plain Retry" => RGBColor(190, 160, 30),
        "AWS's semaphore" => RGBColor(160, 40, 90),
        "AWS's semaphore, no retry" => RGBColor(220, 130, 170),
        _ => RGBColor(60, 60, 60),
    }
}

const OURS: &str = "Leasehold";
const FONT: &str = "sans-serif";
const WIDTH: u32 = 960;
/// Beside each panel, for the names of its lines, and the least distance of two of them.
const NAMES: u32 = 130;
const NAME: i32 = 14;

/// Several measures of the same, each at a number such as how many wait.
pub(crate) struct Panel<'a> {
    pub(crate) title: &'a str,
    pub(crate) points: Vec<(usize, &'a Measure)>,
}

/// Everybody in these measures, ours first.
fn names<'a>(measures: impl Iterator<Item = &'a Measure>) -> Vec<&'a str> {
    let peers: BTreeSet<&str> = measures
        .flat_map(|measure| measure.peers.keys().map(String::as_str))
        .collect();
    std::iter::once(OURS).chain(peers).collect()
}

fn value(measure: &Measure, name: &str) -> Option<f64> {
    if name == OURS {
        Some(measure.ours)
    } else {
        measure.peers.get(name).copied()
    }
}

fn most<'a>(measures: impl Iterator<Item = &'a Measure>) -> f64 {
    let values = measures.flat_map(|measure| measure.peers.values().copied().chain([measure.ours]));
    values.fold(0.0, f64::max).max(1e-9)
}

/// A chart per panel, side by side, with one line for each client, which has its name at its end. The numbers are set out evenly.
pub(crate) fn lines(numbers: &str, panels: &[Panel]) -> String {
    let mut svg = String::new();
    draw_lines(&mut svg, numbers, panels).unwrap();
    svg
}

fn draw_lines(
    svg: &mut String,
    numbers: &str,
    panels: &[Panel],
) -> Result<(), Box<dyn std::error::Error>> {
    let rows = panels.len().div_ceil(2);
    let height = 300 * u32::try_from(rows)?;
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let everybody = names(
        panels
            .iter()
            .flat_map(|panel| &panel.points)
            .map(|(_, measure)| *measure),
    );
    for (panel, area) in panels.iter().zip(root.split_evenly((rows, 2))) {
        let measures = || panel.points.iter().map(|(_, measure)| *measure);
        let last = panel.points.len().saturating_sub(1);
        #[expect(clippy::cast_precision_loss, reason = "a handful of points")]
        let at = |place: usize| place as f64;
        let mut chart = ChartBuilder::on(&area)
            .caption(panel.title, (FONT, 15))
            .margin(8)
            .margin_right(NAMES)
            .x_label_area_size(34)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..at(last).max(0.1), 0.0..most(measures()) * 1.15)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the place of a point"
        )]
        let number = |place: &f64| {
            let point = panel.points.get(place.round() as usize);
            point.map_or_else(String::new, |(number, _)| number.to_string())
        };
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(panel.points.len())
            .x_label_formatter(&number)
            .x_desc(numbers)
            .draw()?;
        let mut ends = Vec::new();
        for name in &everybody {
            let colour = colour(name);
            let points: Vec<_> = measures()
                .enumerate()
                .filter_map(|(place, measure)| Some((at(place), value(measure, name)?)))
                .collect();
            if let Some(end) = points.last() {
                ends.push((chart.backend_coord(end), *name));
            }
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            chart.draw_series(
                points
                    .into_iter()
                    .map(|point| Circle::new(point, 3, colour.filled())),
            )?;
        }
        for (place, name) in apart(ends) {
            let style = (FONT, 12).into_font().color(&colour(name));
            root.draw(&Text::new(name.to_owned(), place, style))?;
        }
    }
    root.present()?;
    Ok(())
}

/// Where the names of lines are written that end there: beside the end, from the lowest up, and none over another.
fn apart(mut ends: Vec<((i32, i32), &str)>) -> Vec<((i32, i32), &str)> {
    ends.sort_by_key(|((_, y), _)| std::cmp::Reverse(*y));
    let mut lowest = i32::MAX;
    for ((x, y), _) in &mut ends {
        *x += 8;
        *y = (*y - NAME / 2).min(lowest);
        lowest = *y - NAME;
    }
    ends
}

/// Each measure as a group of bars, with the numbers beside them.
pub(crate) fn bars<'a>(measures: impl Iterator<Item = &'a Measure>) -> String {
    let mut svg = String::new();
    draw_bars(&mut svg, &measures.collect::<Vec<_>>()).unwrap();
    svg
}

fn draw_bars(svg: &mut String, groups: &[&Measure]) -> Result<(), Box<dyn std::error::Error>> {
    const BAR: i32 = 18;
    const LEFT: i32 = 230;
    let bars: usize = groups.iter().map(|measure| measure.peers.len() + 2).sum();
    let height = BAR * i32::try_from(bars)? + 16;
    let area = SVGBackend::with_string(svg, (WIDTH, u32::try_from(height)?)).into_drawing_area();
    area.fill(&WHITE)?;
    let all = names(groups.iter().copied());
    let mut y = 8;
    for measure in groups {
        area.draw(&Text::new(
            format!("{} ({})", measure.name, measure.unit),
            (8, y),
            (FONT, 13),
        ))?;
        y += BAR;
        let most = most(std::iter::once(*measure));
        for name in &all {
            let Some(value) = value(measure, name) else {
                continue;
            };
            #[expect(clippy::cast_possible_truncation, reason = "a width in pixels")]
            let width = (value / most * 560.0) as i32;
            area.draw(&Text::new((*name).to_owned(), (24, y + 2), (FONT, 11)))?;
            area.draw(&Rectangle::new(
                [(LEFT, y + 1), (LEFT + width.max(1), y + BAR - 4)],
                colour(name).filled(),
            ))?;
            let label = crate::report::short(value);
            area.draw(&Text::new(label, (LEFT + width + 6, y + 2), (FONT, 11)))?;
            y += BAR;
        }
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_overlap() {
        let placed = apart(vec![((9, 100), "a"), ((9, 100), "b"), ((9, 104), "c")]);
        let heights: Vec<i32> = placed.iter().map(|((_, y), _)| *y).collect();
        assert!(heights.windows(2).all(|pair| pair[0] - pair[1] >= NAME));
    }

    #[test]
    fn names_have_one_colour() {
        let measure = |peer| Measure::new("m", "requests", 1.0).peer(peer, 2.0);
        let [with, without] = [
            vec![measure("polling"), measure("direct calls")],
            vec![measure("polling")],
        ]
        .map(|measures| bars(measures.iter()));
        for svg in [with, without] {
            assert!(svg.contains("#8250A0"), "{svg}");
        }
    }
}
