//! The charts: measures as lines over a number, or as bars side by side.

use std::collections::BTreeSet;

use plotters::prelude::*;

use crate::report::Measure;

/// Ours first, then the others.
const COLOURS: [RGBColor; 7] = [
    RGBColor(20, 90, 160),
    RGBColor(200, 80, 30),
    RGBColor(60, 140, 60),
    RGBColor(130, 80, 160),
    RGBColor(120, 120, 120),
    RGBColor(190, 160, 30),
    RGBColor(30, 150, 160),
];
const OURS: &str = "Leasehold";
const FONT: &str = "sans-serif";
const WIDTH: u32 = 960;
const LEGEND: u32 = 30;

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

/// A chart per panel, side by side, with one line for each client, and one legend above them all, where it covers nothing. The
/// numbers are set out evenly.
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
    let height = LEGEND + 300 * u32::try_from(rows)?;
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let (legend, area) = area.split_vertically(LEGEND);
    let everybody = names(
        panels
            .iter()
            .flat_map(|panel| &panel.points)
            .map(|(_, measure)| *measure),
    );
    let colours = || everybody.iter().zip(COLOURS);
    for (place, (name, colour)) in (0_i32..).zip(colours()) {
        let x = 20 + 180 * place;
        legend.draw(&Rectangle::new([(x, 15), (x + 14, 17)], colour.filled()))?;
        legend.draw(&Text::new((*name).to_owned(), (x + 20, 10), (FONT, 12)))?;
    }
    for (panel, area) in panels.iter().zip(area.split_evenly((rows, 2))) {
        let measures = || panel.points.iter().map(|(_, measure)| *measure);
        let last = panel.points.len().saturating_sub(1);
        #[expect(clippy::cast_precision_loss, reason = "a handful of points")]
        let at = |place: usize| place as f64;
        let mut chart = ChartBuilder::on(&area)
            .caption(panel.title, (FONT, 15))
            .margin(8)
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
        for (name, colour) in colours() {
            let points: Vec<_> = measures()
                .enumerate()
                .filter_map(|(place, measure)| Some((at(place), value(measure, name)?)))
                .collect();
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            chart.draw_series(
                points
                    .into_iter()
                    .map(|point| Circle::new(point, 3, colour.filled())),
            )?;
        }
    }
    area.present()?;
    Ok(())
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
        for (name, colour) in all.iter().zip(COLOURS) {
            let Some(value) = value(measure, name) else {
                continue;
            };
            #[expect(clippy::cast_possible_truncation, reason = "a width in pixels")]
            let width = (value / most * 560.0) as i32;
            area.draw(&Text::new((*name).to_owned(), (24, y + 2), (FONT, 11)))?;
            area.draw(&Rectangle::new(
                [(LEFT, y + 1), (LEFT + width.max(1), y + BAR - 4)],
                colour.filled(),
            ))?;
            let label = crate::report::short(value);
            area.draw(&Text::new(label, (LEFT + width + 6, y + 2), (FONT, 11)))?;
            y += BAR;
        }
    }
    area.present()?;
    Ok(())
}
