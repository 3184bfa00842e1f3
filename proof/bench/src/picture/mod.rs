//! Pictures: self-contained, readable on light and on dark paper.

mod bars;
mod lines;

use std::fmt::Write;

pub use bars::{Bar, Bars};
pub(crate) use lines::{Panel, Scale};

use lines::{HEIGHT, WIDTH};

const MARGIN: f64 = 24.0;
const GAP: f64 = 30.0;
const HEAD: f64 = 84.0;

// A class is the name of a contestant, or of what is done, as it is told.
const STYLE: &str = "
  svg { color: #687385; }
  text { font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1c2430; }
  .paper { fill: #ffffff; } .title { font-size: 17px; font-weight: 600; } .head { font-weight: 600; font-size: 13px; }
  .quiet { fill: #687385; } .middle { text-anchor: middle; } .end { text-anchor: end; } .grid { stroke: #e5e9ef; }
  polyline { fill: none; stroke: currentColor; stroke-width: 2.2; stroke-linejoin: round; }
  circle, .bar { fill: currentColor; }
  .leasehold, .queue, .join, .sweep { color: #1f8a70; }
  .polling, .acquire, .hand-over { color: #1565c0; }
  .dynamodb-lease { color: #c77700; }
  .python-dynamodb-lock, .inspect, .leave { color: #8e44ad; }
  .aws-semaphore, .scan, .confirm { color: #b23b3b; }
  @media (prefers-color-scheme: dark) {
    svg { color: #93a0b0; }
    text { fill: #dbe2ea; } .paper { fill: #10151c; } .quiet { fill: #93a0b0; } .grid { stroke: #242d38; }
    .leasehold, .queue, .join, .sweep { color: #2fae8e; }
    .polling, .acquire, .hand-over { color: #64b5f6; }
    .dynamodb-lease { color: #f2a93c; }
    .python-dynamodb-lock, .inspect, .leave { color: #c58be0; }
    .aws-semaphore, .scan, .confirm { color: #e57373; }
  }
";

/// A picture, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its file is `<name>.svg`.
    pub name: &'static str,
    /// What it shows, for who cannot see it.
    pub title: &'static str,
    /// The file.
    pub svg: String,
}

impl Picture {
    /// A picture of panels, three in a row, each [`WIDTH`] by [`HEIGHT`], below a legend of `names`.
    pub(crate) fn of_panels(
        name: &'static str,
        title: &'static str,
        names: &[&str],
        panels: &[String],
    ) -> Self {
        let columns = panels.len().clamp(1, 3);
        let rows = panels.len().div_ceil(columns);
        let width = 2.0 * MARGIN + number(columns) * (WIDTH + GAP) - GAP;
        let height = HEAD + number(rows) * (HEIGHT + GAP) + MARGIN;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{title}\">\n  <style>{STYLE}  </style>\n  \
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n  \
             <text class=\"title\" x=\"{MARGIN}\" y=\"32\">{title}</text>\n"
        );
        let mut x = MARGIN;
        for name in names {
            let _ = writeln!(
                svg,
                r#"  <circle class="{name}" cx="{:.1}" cy="54" r="4.5"/><text x="{:.1}" y="58">{name}</text>"#,
                x + 5.0,
                x + 15.0
            );
            x += 40.0 + number(name.len()) * 6.6;
        }
        for (index, panel) in panels.iter().enumerate() {
            let (x, y) = (
                MARGIN + number(index % columns) * (WIDTH + GAP),
                HEAD + number(index / columns) * (HEIGHT + GAP),
            );
            let _ = write!(
                svg,
                "  <g transform=\"translate({x:.1} {y:.1})\">\n{panel}  </g>\n"
            );
        }
        Self {
            name,
            title,
            svg: svg + "</svg>\n",
        }
    }
}

fn number(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}
