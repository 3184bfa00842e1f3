//! One panel of the picture: a line per contestant over a few steps.

use std::fmt::Write;

pub(crate) const WIDTH: f64 = 340.0;
pub(crate) const HEIGHT: f64 = 250.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 42.0;

/// How values become heights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From 1 upwards, each step ten times the last. What is below 1 lies on the floor.
    TenTimes,
    /// From 0 to 1, shown in per cent.
    Percent,
}

/// What is drawn.
pub(crate) struct Panel<'a> {
    pub(crate) title: &'a str,
    /// What the steps are.
    pub(crate) below: &'a str,
    pub(crate) steps: Vec<String>,
    pub(crate) scale: Scale,
    /// A value per step; one that is missing leaves a gap.
    pub(crate) series: Vec<(&'a str, Vec<Option<f64>>)>,
}

impl Panel<'_> {
    /// Draws it with its upper left corner at the origin.
    pub(crate) fn draw(&self) -> String {
        let mut svg = String::new();
        let mut put = |element: std::fmt::Arguments| {
            // Writing to a String cannot fail.
            let _ = writeln!(svg, "    {element}");
        };
        put(format_args!(
            r#"<text class="head" x="0" y="14">{}</text>"#,
            self.title
        ));
        let top = self.top();
        for (value, label) in self.ticks() {
            let y = y(self.height(value, top));
            put(format_args!(
                r#"<line class="grid" x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/>"#,
                WIDTH - RIGHT
            ));
            put(format_args!(
                r#"<text class="quiet end" x="{:.1}" y="{:.1}">{label}</text>"#,
                LEFT - 8.0,
                y + 4.0
            ));
        }
        for (index, step) in self.steps.iter().enumerate() {
            put(format_args!(
                r#"<text class="quiet middle" x="{:.1}" y="{:.1}">{step}</text>"#,
                self.x(index),
                HEIGHT - BOTTOM + 18.0
            ));
        }
        put(format_args!(
            r#"<text class="quiet middle" x="{:.1}" y="{:.1}">{}</text>"#,
            f64::midpoint(LEFT, WIDTH - RIGHT),
            HEIGHT - BOTTOM + 35.0,
            self.below
        ));
        for (name, values) in &self.series {
            let points: Vec<(f64, f64)> = values
                .iter()
                .enumerate()
                .filter_map(|(index, value)| {
                    value.map(|value| (self.x(index), y(self.height(value, top))))
                })
                .collect();
            let line: Vec<String> = points
                .iter()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            put(format_args!(
                r#"<polyline class="{name}" points="{}"/>"#,
                line.join(" ")
            ));
            for (x, y) in points {
                put(format_args!(
                    r#"<circle class="{name}" cx="{x:.1}" cy="{y:.1}" r="3.6"/>"#
                ));
            }
        }
        svg
    }

    fn x(&self, index: usize) -> f64 {
        let place = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        let (from, until) = (LEFT + 22.0, WIDTH - RIGHT - 22.0);
        from + (until - from) * place(index) / place(self.steps.len().saturating_sub(1).max(1))
    }

    /// How high a value lies, from 0 at the floor to 1.
    fn height(&self, value: f64, top: f64) -> f64 {
        match self.scale {
            Scale::TenTimes => value.max(1.0).log10() / top,
            Scale::Percent => value.clamp(0.0, 1.0),
        }
    }

    /// With tenfold steps, how many of them there are.
    fn top(&self) -> f64 {
        let values = self.series.iter().flat_map(|(_, values)| values);
        let largest = values.flatten().copied().fold(1.0, f64::max);
        largest.log10().ceil().max(1.0)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Percent => [0.0, 0.25, 0.5, 0.75, 1.0]
                .map(|part| (part, format!("{:.0} %", part * 100.0)))
                .into(),
            Scale::TenTimes => std::iter::successors(Some(1.0), |value| Some(value * 10.0))
                .take_while(|value: &f64| value.log10() <= self.top() + 0.01)
                .map(|value| (value, format!("{value:.0}")))
                .collect(),
        }
    }
}

fn y(height: f64) -> f64 {
    HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * height
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(scale: Scale, values: &[Option<f64>]) -> String {
        let steps = values.iter().map(|_| "n".to_owned()).collect();
        let series = vec![("polling", values.to_vec())];
        let (title, below) = ("title", "below");
        Panel {
            title,
            below,
            steps,
            scale,
            series,
        }
        .draw()
    }

    #[test]
    fn the_floor_is_one_and_the_largest_fits_in() {
        let drawn = panel(Scale::TenTimes, &[Some(0.5), None, Some(1000.0)]);
        assert!(
            drawn.contains(r#"points="68.0,208.0 304.0,40.0""#),
            "{drawn}"
        );
        assert_eq!(drawn.matches("class=\"grid\"").count(), 4, "{drawn}");
    }

    #[test]
    fn a_part_is_shown_in_per_cent() {
        let drawn = panel(Scale::Percent, &[Some(0.5), Some(1.0)]);
        assert!(
            drawn.contains(r#"points="68.0,124.0 304.0,40.0""#),
            "{drawn}"
        );
        assert!(drawn.contains(">75 %<"), "{drawn}");
    }
}
