//! The paper that the widgets are drawn on: readable on light and on dark.

use std::fmt::Write;

/// A column and a row of the dashboard's grid.
pub(super) const COLUMN: f64 = 52.0;
pub(super) const ROW: f64 = 38.0;
const COLUMNS: f64 = 24.0;
const MARGIN: f64 = 16.0;
/// Where the grid begins.
const TOP: f64 = 88.0;

const STYLE: &str = "
  text { font: 11px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1c2430; }
  .paper { fill: #f4f6f9; } .card { fill: #ffffff; stroke: #dde3ea; }
  .title { font-size: 19px; font-weight: 600; } .section { font-size: 16px; font-weight: 600; } .name { font-size: 13px; font-weight: 600; }
  .quiet { fill: #5f6b7c; } .right { text-anchor: end; } .middle { text-anchor: middle; }
  .grid { stroke: #e8ecf1; } .axis { stroke: #b6c0cc; }
  .limit { stroke: #c62f3c; stroke-width: 1.4; stroke-dasharray: 5 4; } .limitname { fill: #b3202d; }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round; } .thin { stroke-width: 1; stroke-opacity: 0.55; }
  .s0 { stroke: #1f6feb; } .s1 { stroke: #c26a00; } .s2 { stroke: #1f8a70; } .s3 { stroke: #a336a8; } .s4 { stroke: #6b7785; } .s5 { stroke: #8d6b1f; }
  .d0 { fill: #1f6feb; } .d1 { fill: #c26a00; } .d2 { fill: #1f8a70; } .d3 { fill: #a336a8; } .d4 { fill: #6b7785; } .d5 { fill: #8d6b1f; }
  .away { fill: #eef1f5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #dbe2ea; } .paper { fill: #0d1117; } .card { fill: #151b23; stroke: #2a333f; }
    .quiet { fill: #98a5b5; } .grid { stroke: #232c37; } .axis { stroke: #4a5664; }
    .limit { stroke: #ff7b84; } .limitname { fill: #ff949c; }
    .s0 { stroke: #6cb0ff; } .s1 { stroke: #f0a44b; } .s2 { stroke: #46c8a5; } .s3 { stroke: #d98be0; } .s4 { stroke: #a3b1c2; } .s5 { stroke: #d9bb6c; }
    .d0 { fill: #6cb0ff; } .d1 { fill: #f0a44b; } .d2 { fill: #46c8a5; } .d3 { fill: #d98be0; } .d4 { fill: #a3b1c2; } .d5 { fill: #d9bb6c; }
    .away { fill: #1c242e; }
  }
";

/// How many colours there are.
pub(super) const COLOURS: usize = 6;

/// A picture under way.
#[derive(Default)]
pub(super) struct Sheet {
    body: String,
    bottom: f64,
}

/// Where a widget is, in pixels.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Sheet {
    /// The place of what stands on the grid.
    pub(super) fn place(&mut self, x: f64, y: f64, width: f64, height: f64) -> Place {
        self.bottom = self.bottom.max(TOP + (y + height) * ROW);
        Place {
            x: MARGIN + x * COLUMN + 4.0,
            y: TOP + y * ROW + 4.0,
            width: width * COLUMN - 8.0,
            height: height * ROW - 8.0,
        }
    }

    pub(super) fn put(&mut self, element: std::fmt::Arguments) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "  {element}");
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escaped(text);
        self.put(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#
        ));
    }

    pub(super) fn rule(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.put(format_args!(
            r#"<line class="{class}" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn rectangle(&mut self, class: &str, place: Place) {
        self.put(format_args!(
            r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" rx="5"/>"#,
            place.x, place.y, place.width, place.height
        ));
    }

    /// The picture as a file, with its title and what is to be said of it.
    pub(super) fn finish(self, title: &str, told: &[&str]) -> String {
        let (width, height) = (2.0 * MARGIN + COLUMNS * COLUMN, self.bottom + MARGIN);
        let mut head = Self::default();
        head.put(format_args!(
            r#"<rect class="paper" width="{width}" height="{height}"/>"#
        ));
        head.text(MARGIN + 4.0, 32.0, "title", title);
        let mut y = 52.0;
        for line in told {
            head.text(MARGIN + 4.0, y, "quiet", line);
            y += 17.0;
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{}\">\n  <style>{STYLE}  </style>\n{}{}</svg>\n",
            escaped(title),
            head.body,
            self.body,
        )
    }
}

/// About how wide a text is.
pub(super) fn width(text: &str) -> f64 {
    let characters = u32::try_from(text.chars().count()).unwrap_or(0);
    f64::from(characters) * 5.7
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}
