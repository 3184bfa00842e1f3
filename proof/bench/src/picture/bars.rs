//! A panel of bars, one below the other, each ten times the last where the scale says so: for figures that differ by much.

use std::fmt::Write;

use super::lines::{HEIGHT, WIDTH};

const TOP: f64 = 28.0;
const THICKEST: f64 = 20.0;
/// From one bar to the next.
const FARTHEST: f64 = 56.0;
/// What the name and the figure of a bar need.
const TEXT: f64 = 16.0;
/// What the shortest bar is long, so that it is seen.
const LEAST: f64 = 3.0;

/// One bar.
pub struct Bar<'a> {
    /// Whose it is: the class that colours it.
    pub class: &'a str,
    /// What is written above it.
    pub label: String,
    /// How long it is.
    pub value: f64,
    /// The figure as it is written, with its unit.
    pub told: String,
}

/// Bars with a heading.
pub struct Bars<'a> {
    /// The heading.
    pub title: &'a str,
    /// From top to bottom.
    pub bars: Vec<Bar<'a>>,
}

impl Bars<'_> {
    /// Draws it with its upper left corner at the origin. Lengths are by value, the longest fills the panel.
    #[must_use]
    pub fn draw(&self) -> String {
        let mut svg = String::new();
        let mut put = |element: std::fmt::Arguments| {
            // Writing to a String cannot fail.
            let _ = writeln!(svg, "    {element}");
        };
        put(format_args!(
            r#"<text class="head" x="0" y="14">{}</text>"#,
            self.title
        ));
        let longest = self.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        let step = ((HEIGHT - TOP) / super::number(self.bars.len().max(1))).min(FARTHEST);
        let thick = (step - TEXT - 6.0).clamp(4.0, THICKEST);
        for (index, bar) in self.bars.iter().enumerate() {
            let y = TOP + super::number(index) * step;
            let length = if longest > 0.0 {
                (WIDTH * bar.value / longest).max(LEAST)
            } else {
                LEAST
            };
            put(format_args!(
                r#"<text x="0" y="{:.1}">{}</text>"#,
                y + 12.0,
                bar.label
            ));
            put(format_args!(
                r#"<text class="end" x="{WIDTH}" y="{:.1}">{}</text>"#,
                y + 12.0,
                bar.told
            ));
            put(format_args!(
                r#"<rect class="bar {}" x="0" y="{:.1}" width="{length:.1}" height="{thick:.1}" rx="2"/>"#,
                bar.class,
                y + TEXT
            ));
        }
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_fills_the_panel_and_nothing_is_seen_too() {
        let bar = |class, value: f64| Bar {
            class,
            label: class.to_owned(),
            value,
            told: format!("{value} requests"),
        };
        let bars = vec![bar("leasehold", 2.0), bar("other", 8.0), bar("none", 0.0)];
        let drawn = Bars { title: "t", bars }.draw();
        for part in [
            "width=\"85.0\"",
            "width=\"340.0\"",
            "width=\"3.0\"",
            ">8 requests<",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
    }
}
