//! What the pictures are drawn with: bars along a time axis, self-contained, and readable on light and on dark paper.

use std::fmt::Write;

pub(super) const LEFT: f64 = 140.0;
pub(super) const ROW: f64 = 24.0;
pub(super) const GROUP_HEAD: f64 = 34.0;
pub(super) const BAR: f64 = 12.0;
pub(super) const THIN: f64 = 5.0;
const WIDTH: f64 = 1080.0;
const RIGHT: f64 = 224.0;
const TOP: f64 = 104.0;
/// The height at which the legend stands.
pub(super) const LEGEND: f64 = 66.0;

const STYLE: &str = "
  text { font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1c2430; }
  .paper { fill: #ffffff; } .title { font-size: 17px; font-weight: 600; } .key { font-weight: 600; font-size: 13px; }
  .quiet { fill: #687385; } .middle { text-anchor: middle; }
  .grid { stroke: #e5e9ef; } .lane { fill: #f1f4f8; }
  .waiting { fill: #f2c14e; } .asks { fill: #9a6b00; } .holding { fill: #1f8a70; } .rest { fill: #f3b7b7; } .margin { fill: #fae3e3; }
  .extend { stroke: #ffffff; stroke-width: 2; }
  .bad { stroke: #cc3340; stroke-width: 2.2; fill: none; stroke-linecap: round; } .stop { fill: #cc3340; } .late { stroke: #cc3340; stroke-width: 1.6; stroke-dasharray: 2 4; }
  .takeover { fill: #6d3fc4; stroke: #ffffff; } .replay { fill: #ffffff; stroke: #1565c0; stroke-width: 2.4; }
  @media (prefers-color-scheme: dark) {
    text { fill: #dbe2ea; } .paper { fill: #10151c; } .quiet { fill: #93a0b0; }
    .grid { stroke: #242d38; } .lane { fill: #1a222c; }
    .waiting { fill: #b98a22; } .asks { fill: #ffe3a3; } .holding { fill: #2fae8e; } .rest { fill: #7a3038; } .margin { fill: #3d2227; }
    .extend { stroke: #10151c; } .bad { stroke: #ff7b84; } .stop { fill: #ff7b84; } .late { stroke: #ff7b84; }
    .takeover { fill: #b794f6; stroke: #10151c; } .replay { fill: #10151c; stroke: #64b5f6; }
  }
";

/// A picture under way.
pub(super) struct Picture {
    /// What is drawn so far, without the frame.
    body: String,
    /// Where the next row begins.
    pub(super) y: f64,
    /// What the axis ends with, in seconds.
    seconds: f64,
}

/// What is marked on a bar.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    Takeover,
    Replay,
    Kill,
    Stop,
}

impl Picture {
    /// Empty paper, with this many seconds from left to right.
    pub(super) const fn new(seconds: f64) -> Self {
        Self {
            body: String::new(),
            y: TOP,
            seconds,
        }
    }

    /// Where the axis ends.
    pub(super) const fn end(&self) -> f64 {
        self.seconds
    }

    pub(super) fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * seconds.min(self.seconds) / self.seconds
    }

    pub(super) fn put(&mut self, element: std::fmt::Arguments) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "  {element}");
    }

    pub(super) fn bar(&mut self, class: &str, from: f64, until: f64, middle: f64, height: f64) {
        let (x, y) = (self.x(from), middle - height / 2.0);
        let width = (self.x(until) - x).max(1.0);
        self.put(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height}" rx="1.5"/>"#
        ));
    }

    pub(super) fn mark(&mut self, mark: Mark, seconds: f64, middle: f64) {
        let x = self.x(seconds);
        self.symbol(mark, x, middle);
    }

    pub(super) fn symbol(&mut self, mark: Mark, x: f64, y: f64) {
        match mark {
            Mark::Takeover => self.put(format_args!(
                r#"<path class="takeover" d="M{x:.1} {:.1}l7.5 7.5l-7.5 7.5l-7.5 -7.5z"/>"#,
                y - 7.5
            )),
            Mark::Replay => self.put(format_args!(
                r#"<circle class="replay" cx="{x:.1}" cy="{y:.1}" r="4.6"/>"#
            )),
            Mark::Kill => self.put(format_args!(
                r#"<path class="bad" d="M{:.1} {:.1}l9 9m0 -9l-9 9"/>"#,
                x - 4.5,
                y - 4.5
            )),
            Mark::Stop => self.put(format_args!(
                r#"<rect class="stop" x="{:.1}" y="{:.1}" width="4" height="18" rx="1"/>"#,
                x - 2.0,
                y - 9.0
            )),
        }
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escaped(text);
        self.put(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#
        ));
    }

    /// Writes a label and answers where the next entry begins.
    pub(super) fn label(&mut self, x: f64, y: f64, label: &str) -> f64 {
        self.text(x, y + 4.0, "quiet", label);
        let characters = f64::from(u32::try_from(label.chars().count()).unwrap_or(0));
        x + characters * 6.5 + 18.0
    }

    /// Begins a group of rows under a lane that shows who had its key; answers the middle of the lane.
    pub(super) fn lane(&mut self, key: &str, label: &str) -> f64 {
        let middle = self.y + GROUP_HEAD / 2.0 - 4.0;
        let end = self.x(self.seconds);
        self.text(20.0, middle + 4.0, "key", key);
        self.put(format_args!(
            r#"<rect class="lane" x="{LEFT}" y="{:.1}" width="{:.1}" height="{BAR}" rx="2"/>"#,
            middle - BAR / 2.0,
            end - LEFT
        ));
        self.text(end + 12.0, middle + 4.0, "quiet", label);
        self.y += GROUP_HEAD;
        middle
    }

    /// Begins a row: its name before the bars and what is to say of it behind them; answers its middle.
    pub(super) fn row(&mut self, name: &str, told: &str) -> f64 {
        let middle = self.y + ROW / 2.0;
        self.text(20.0, middle + 4.0, "name", name);
        let end = self.x(self.seconds) + 12.0;
        self.text(end, middle + 4.0, "quiet", told);
        self.y += ROW;
        middle
    }

    /// An entry of the legend; answers where the next one begins.
    pub(super) fn swatch(&mut self, class: &str, height: f64, label: &str, x: f64) -> f64 {
        self.put(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{:.1}" width="22" height="{height}" rx="1.5"/>"#,
            LEGEND - height / 2.0
        ));
        self.label(x + 28.0, LEGEND, label)
    }

    /// An entry of the legend, for a mark; answers where the next one begins.
    pub(super) fn mark_swatch(&mut self, mark: Mark, label: &str, x: f64) -> f64 {
        self.symbol(mark, x + 6.0, LEGEND);
        self.label(x + 19.0, LEGEND, label)
    }

    /// The frame: paper, grid and axis below what was drawn, title and legend above it.
    pub(super) fn finish(mut self, title: &str, legend: impl FnOnce(&mut Self)) -> String {
        let bottom = self.y + 4.0;
        let height = bottom + 48.0;
        let rows = std::mem::take(&mut self.body);
        self.put(format_args!(
            r#"<rect class="paper" width="{WIDTH}" height="{height}"/>"#
        ));
        let step = if self.seconds > 40.0 { 5.0 } else { 2.0 };
        let mut tick = 0.0;
        while tick <= self.seconds {
            let x = self.x(tick);
            self.put(format_args!(
                r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{:.1}" y2="{bottom:.1}"/>"#,
                TOP - 8.0
            ));
            self.text(x, bottom + 18.0, "quiet middle", &format!("{tick}"));
            tick += step;
        }
        let centre = f64::midpoint(LEFT, self.x(self.seconds));
        self.text(centre, bottom + 36.0, "quiet middle", "seconds");
        self.text(20.0, 34.0, "title", title);
        legend(&mut self);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{}\">\n  <style>{STYLE}  </style>\n{}{rows}</svg>\n",
            escaped(title),
            self.body,
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}
