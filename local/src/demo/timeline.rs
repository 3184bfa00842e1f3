//! `timeline.svg`: one bar per execution, grouped by key, in the order of the grants. Self-contained, and
//! readable on light and on dark paper.

use std::fmt::Write;

use super::MARGIN_MS;
use super::plan::KEYS;
use super::record::{Execution, Hold, Record};

const WIDTH: f64 = 1080.0;
const LEFT: f64 = 140.0;
const RIGHT: f64 = 224.0;
const TOP: f64 = 104.0;
const ROW: f64 = 24.0;
const GROUP_HEAD: f64 = 34.0;
const GROUP_GAP: f64 = 18.0;
const BAR: f64 = 12.0;
const THIN: f64 = 5.0;

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

/// The picture of a run.
pub(super) fn draw(record: &Record, passed: bool) -> String {
    let mut picture = Picture::new(record);
    for key in KEYS {
        picture.group(record, key);
    }
    picture.finish(record, passed)
}

struct Picture {
    /// What is drawn so far, without the frame.
    body: String,
    y: f64,
    /// What the axis ends with, in seconds.
    seconds: f64,
}

/// What a bar is made of.
#[derive(Clone, Copy)]
enum Mark {
    Takeover,
    Replay,
    Kill,
    Stop,
}

impl Picture {
    fn new(record: &Record) -> Self {
        let ends = record.executions.iter().filter_map(|one| one.ended);
        let late = record
            .executions
            .iter()
            .flat_map(|one| one.refused_writes.iter().map(|(at, _)| *at));
        let last = ends.chain(late).max().unwrap_or(record.began);
        Self {
            body: String::new(),
            y: TOP,
            seconds: (record.seconds(last) + 0.5).max(1.0),
        }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * seconds.min(self.seconds) / self.seconds
    }

    fn put(&mut self, element: std::fmt::Arguments) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "  {element}");
    }

    fn group(&mut self, record: &Record, key: &str) {
        let mut here: Vec<_> = record
            .executions
            .iter()
            .filter(|execution| execution.key == key)
            .collect();
        here.sort_by_key(|execution| {
            let hold = record.holds_of(&execution.arn).next();
            hold.map_or(u64::MAX, |hold| hold.from)
        });
        let (y, middle) = (self.y, self.y + GROUP_HEAD / 2.0 - 4.0);
        let end = self.x(self.seconds);
        self.text(20.0, middle + 4.0, "key", key);
        self.put(format_args!(
            r#"<rect class="lane" x="{LEFT}" y="{:.1}" width="{:.1}" height="{BAR}" rx="2"/>"#,
            middle - BAR / 2.0,
            end - LEFT
        ));
        self.text(end + 12.0, middle + 4.0, "quiet", "all holders of the key");
        for hold in record.holds.iter().filter(|hold| hold.key == key) {
            let (from, until) = (record.seconds(hold.from), record.seconds(hold.until()));
            self.bar("holding", from, until, middle, BAR);
        }
        self.y = y + GROUP_HEAD;
        for execution in here {
            self.row(record, execution);
        }
        self.y += GROUP_GAP;
    }

    fn row(&mut self, record: &Record, execution: &Execution) {
        let middle = self.y + ROW / 2.0;
        let hold = record.holds_of(&execution.arn).next();
        self.text(20.0, middle + 4.0, "name", &execution.name);
        let end = self.x(self.seconds) + 12.0;
        self.text(
            end,
            middle + 4.0,
            "quiet",
            &outcome(record, execution, hold),
        );

        let seconds = |instant: u64| record.seconds(instant);
        if let Some(asked) = execution.asked {
            let until = hold.map(|hold| hold.from).or(execution.ended);
            self.bar(
                "waiting",
                seconds(asked),
                until.map_or(self.seconds, seconds),
                middle,
                THIN,
            );
        }
        for refused in &execution.refusals {
            let x = self.x(seconds(*refused));
            self.put(format_args!(
                r#"<circle class="asks" cx="{x:.1}" cy="{middle:.1}" r="2"/>"#
            ));
        }
        if let Some(hold) = hold {
            self.hold(record, execution, hold, middle);
        }
        for death in &execution.deaths {
            self.mark(Mark::Kill, seconds(death.at), middle);
        }
        for (at, _) in &execution.refused_writes {
            if let Some(stopped) = execution.stopped {
                let (from, until) = (self.x(seconds(stopped)), self.x(seconds(*at)) - 6.0);
                self.put(format_args!(
                    r#"<line class="late" x1="{from:.1}" x2="{until:.1}" y1="{middle:.1}" y2="{middle:.1}"/>"#
                ));
            }
            self.mark(Mark::Kill, seconds(*at), middle);
        }
        self.y += ROW;
    }

    fn hold(&mut self, record: &Record, execution: &Execution, hold: &Hold, middle: f64) {
        let seconds = |instant: u64| record.seconds(instant);
        let stopped = execution.stopped.filter(|_| hold.released.is_none());
        let until = stopped.unwrap_or_else(|| hold.until());
        self.bar("holding", seconds(hold.from), seconds(until), middle, BAR);
        if let Some(stopped) = stopped {
            let (expires, free) = (hold.expires_at, hold.expires_at + MARGIN_MS);
            self.bar("rest", seconds(stopped), seconds(expires), middle, BAR);
            self.bar("margin", seconds(expires), seconds(free), middle, BAR);
            self.mark(Mark::Stop, seconds(stopped), middle);
        }
        for extend in &hold.extends {
            let (x, half) = (self.x(seconds(*extend)), BAR / 2.0);
            self.put(format_args!(
                r#"<line class="extend" x1="{x:.1}" x2="{x:.1}" y1="{:.1}" y2="{:.1}"/>"#,
                middle - half,
                middle + half
            ));
        }
        let expired = |hold: &Hold| {
            let previous = hold.previous.as_ref();
            previous.is_some_and(|previous| previous.ended == "expired")
        };
        if expired(hold) {
            self.mark(Mark::Takeover, seconds(hold.from), middle);
        }
        if hold.kind == "replayed" {
            self.mark(Mark::Replay, seconds(hold.from), middle);
        }
    }

    fn bar(&mut self, class: &str, from: f64, until: f64, middle: f64, height: f64) {
        let (x, y) = (self.x(from), middle - height / 2.0);
        let width = (self.x(until) - x).max(1.0);
        self.put(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height}" rx="1.5"/>"#
        ));
    }

    fn mark(&mut self, mark: Mark, seconds: f64, middle: f64) {
        let x = self.x(seconds);
        self.symbol(mark, x, middle);
    }

    fn symbol(&mut self, mark: Mark, x: f64, y: f64) {
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

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escaped(text);
        self.put(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#
        ));
    }

    /// The frame: paper, grid and axis below what was drawn, title and legend above it.
    fn finish(mut self, record: &Record, passed: bool) -> String {
        let bottom = self.y - GROUP_GAP + 4.0;
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
        let title = format!(
            "{} executions, {} keys: {}",
            record.executions.len(),
            KEYS.len(),
            if passed {
                "one holder at a time"
            } else {
                "a promise was broken"
            }
        );
        self.text(20.0, 34.0, "title", &title);
        self.legend();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{}\">\n  <style>{STYLE}  </style>\n{}{rows}</svg>\n",
            escaped(&title),
            self.body,
        )
    }

    fn legend(&mut self) {
        let y = 66.0;
        let mut x = 20.0;
        let swatches = [
            ("waiting", THIN, "waits"),
            ("holding", BAR, "holds"),
            ("rest", BAR, "left to expire"),
            ("margin", BAR, "clock margin"),
        ];
        for (class, height, label) in swatches {
            self.put(format_args!(
                r#"<rect class="{class}" x="{x:.1}" y="{:.1}" width="22" height="{height}" rx="1.5"/>"#,
                y - height / 2.0
            ));
            if class == "waiting" {
                self.put(format_args!(
                    r#"<circle class="asks" cx="{:.1}" cy="{y}" r="2"/>"#,
                    x + 11.0
                ));
            }
            x = self.label(x + 28.0, y, label);
        }
        self.put(format_args!(
            r#"<rect class="holding" x="{x:.1}" y="{:.1}" width="22" height="{BAR}" rx="1.5"/><line class="extend" x1="{c:.1}" x2="{c:.1}" y1="{:.1}" y2="{:.1}"/>"#,
            y - BAR / 2.0,
            y - BAR / 2.0,
            y + BAR / 2.0,
            c = x + 11.0
        ));
        x = self.label(x + 28.0, y, "extends");
        for (mark, label) in [
            (Mark::Stop, "stopped"),
            (Mark::Takeover, "takes over"),
            (Mark::Replay, "granted by replay"),
            (Mark::Kill, "killed; late write refused"),
        ] {
            self.symbol(mark, x + 6.0, y);
            x = self.label(x + 19.0, y, label);
        }
    }

    /// Writes a label and answers where the next entry begins.
    fn label(&mut self, x: f64, y: f64, label: &str) -> f64 {
        self.text(x, y + 4.0, "quiet", label);
        let characters = f64::from(u32::try_from(label.chars().count()).unwrap_or(0));
        x + characters * 6.5 + 18.0
    }
}

/// What stands behind a bar.
fn outcome(record: &Record, execution: &Execution, hold: Option<&Hold>) -> String {
    let waited = execution.waited(record).unwrap_or_default();
    let previous = hold.and_then(|hold| hold.previous.as_ref());
    let status = execution.status.to_lowercase();
    let notes: Vec<String> = [
        execution
            .stopped
            .map(|_| match execution.refused_writes.len() {
                0 => "stopped".to_owned(),
                _ => "stopped; late write refused".to_owned(),
            }),
        previous
            .filter(|previous| previous.ended == "expired")
            .map(|previous| format!("takes over from {}", record.name(&previous.holder))),
        hold.filter(|hold| hold.kind == "replayed")
            .map(|_| "killed, same lease by replay".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if execution.status != execution.expected_status {
        return format!("{status}, unexpectedly");
    }
    match notes.as_slice() {
        [] => format!("waited {waited:.1} s"),
        [note, ..] => note.clone(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}
