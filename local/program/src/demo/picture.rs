//! `timeline.svg`, with a row for each who wants the key, and `tokens.svg`, with the writes that the resource accepted or refused.

use std::fmt::Write as _;

use super::record::{Record, Seen};
use super::setting::{KEY, MARGIN_MS};

// README shows it, also on a phone, where it is half as wide: hence few points and large letters.
const WIDTH: usize = 720;
const TOP: usize = 126;
const BOTTOM: usize = 60;
/// A row: its words, and its bars below them.
const ROW: usize = 54;
const SIDE: usize = 16;
/// Where the note of a row begins, and how wide a letter is at most.
const NOTE: usize = 136;
const LETTER: usize = 10;

/// The colours of the console's pages, in cli/src/console/style.css.
const STYLE: &str = "
text { font-family: sans-serif; fill: #1b1f24; }
line { stroke: #1b1f24; opacity: 0.2; }
.page { fill: #ffffff; } .waits { fill: #d29922; } .holds { fill: #0a5fb4; } .grace { fill: #8250df; } .broken { fill: #b3261e; } .nobody { fill: #6e7781; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  line { stroke: #e6edf3; }
  .page { fill: #0f1318; } .waits { fill: #e3b341; } .holds { fill: #58a6ff; } .grace { fill: #bc8cff; } .broken { fill: #ff8b82; } .nobody { fill: #8b949e; }
}
";
// The classes of the marks.
const WAITS: &str = "waits";
const HOLDS: &str = "holds";
const GRACE: &str = "grace";
const BROKEN: &str = "broken";
const NOBODY: &str = "nobody";

/// A bar: from when to when, half its height, and its class.
type Bar = (u64, u64, usize, &'static str);

/// Who waited, and who held the key, when.
pub(super) fn timeline(record: &Record<'_>) -> String {
    let title = format!("One key, {KEY}: one holder at a time, in order of arrival");
    let legend = [
        (WAITS, "waits"),
        (HOLDS, "holds the key"),
        (GRACE, "grace period: a function may still run"),
        (NOBODY, "nobody may hold it"),
        (BROKEN, "killed, stopped or refused"),
    ];
    let mut picture = Picture::of(record);
    let inside = stays(record).into_iter();
    let inside: Vec<_> = inside
        .map(|(from, until)| (from, until, 5, HOLDS))
        .collect();
    picture.row(
        ("inside", "as the protected resource recorded it"),
        &inside,
        &[],
    );
    for one in &record.all {
        let mut bars = Vec::new();
        let end = one.stopped.or(one.ended).unwrap_or(record.began);
        if let Some(asked) = one.asked {
            bars.push((asked, one.holds.unwrap_or(end), 4, WAITS));
        }
        if let Some(from) = one.holds {
            bars.push((end, one.until().unwrap_or(end), 8, GRACE));
            bars.push((from, end, 8, HOLDS));
        }
        let refused = one.refused.as_ref().map(|(at, _)| *at);
        let broken = [one.killed, one.stopped, refused].into_iter().flatten();
        let broken: Vec<_> = broken.collect();
        picture.row((&one.name, &note(record, one)), &bars, &broken);
        if let Some((from, until)) = dead_time(record, one) {
            let seconds = record.seconds(record.began + until - from);
            let margin = record.seconds(record.began + MARGIN_MS);
            let words = format!(
                "for {seconds:.1} s: clock margin of {margin} s, then until the next sweep"
            );
            picture.row(("nobody", &words), &[(from, until, 8, NOBODY)], &[]);
        }
    }
    picture.drawn(&title, &legend)
}

/// The writes over time, each in the row of its holder, the newest on top: accepted tokens only rise.
pub(super) fn tokens(record: &Record<'_>) -> String {
    let title = format!("{KEY}: the fencing tokens of accepted writes only rise");
    let legend = [
        (HOLDS, "accepted"),
        (BROKEN, "refused: a newer token was accepted before"),
    ];
    let mut holders: Vec<_> = record
        .all
        .iter()
        .filter(|one| one.token.is_some())
        .collect();
    // The newest on top.
    holders.sort_by_key(|one| std::cmp::Reverse(one.token));
    let mut picture = Picture::of(record);
    for one in holders {
        let writes = record.writes.iter();
        let writes = writes.filter(|(_, token, _)| Some(*token) == one.token);
        let writes: Vec<_> = writes
            .map(|(at, ..)| (at.saturating_sub(60), at + 60, 8, HOLDS))
            .collect();
        let refused: Vec<_> = one.refused.iter().map(|(at, _)| *at).collect();
        let token = one.token.unwrap_or(0).to_string();
        picture.row((&one.name, &token), &writes, &refused);
    }
    picture.drawn(&title, &legend)
}

/// From when to when somebody was inside, by the resource's own record. Who left too late was refused, and left with the lease.
fn stays(record: &Record<'_>) -> Vec<(u64, u64)> {
    let mut stays = Vec::new();
    for (from, token, _) in record.writes.iter().filter(|(.., enters)| *enters) {
        let left = record
            .writes
            .iter()
            .find(|(_, of, enters)| of == token && !enters);
        let one = record.all.iter().find(|one| one.token == Some(*token));
        let until = left.map(|(at, ..)| *at).or(one.and_then(|one| one.ended));
        stays.push((*from, until.unwrap_or(*from)));
    }
    stays
}

/// From the deadline of the process, which hangs, to the next grant. Nobody may have the key before the clock margin has passed,
/// and nobody does before the next sweep.
fn dead_time(record: &Record<'_>, one: &Seen) -> Option<(u64, u64)> {
    one.refused.as_ref()?;
    let deadline = one.ended?;
    let grants = record.all.iter().filter_map(|other| other.holds);
    let next = grants.filter(|at| *at > deadline).min()?;
    Some((deadline, next))
}

/// What to say of one above its bars.
fn note(record: &Record<'_>, one: &Seen) -> String {
    let waited = || match (one.asked, one.holds) {
        (Some(asked), Some(holds)) => record.seconds(record.began + holds.saturating_sub(asked)),
        _ => 0.0,
    };
    match one {
        Seen {
            refused: Some(_), ..
        } => "hangs; its late write is refused".to_owned(),
        Seen {
            stopped: Some(_),
            holds: None,
            ..
        } => "stopped while waiting; passed over".to_owned(),
        Seen {
            stopped: Some(_), ..
        } => "stopped at work: grace period".to_owned(),
        Seen {
            killed: Some(_), ..
        } => format!("function killed, retried; waited {:.1} s", waited()),
        _ => format!("waited {:.1} s", waited()),
    }
}

/// A picture with rows over an axis of seconds.
struct Picture<'a> {
    record: &'a Record<'a>,
    /// The end of the axis.
    seconds: f64,
    rows: usize,
    marks: String,
}

impl<'a> Picture<'a> {
    fn of(record: &'a Record<'a>) -> Self {
        let ends = record.all.iter().filter_map(Seen::until);
        Self {
            record,
            seconds: record.seconds(ends.max().unwrap_or(record.began)) + 0.5,
            rows: 0,
            marks: String::new(),
        }
    }

    /// Adds a row: its name and note, its bars, and marks where something broke.
    fn row(&mut self, (name, note): (&str, &str), bars: &[Bar], broken: &[u64]) {
        let top = TOP + ROW * self.rows;
        self.rows += 1;
        self.text((SIDE, top + 22), 20, "start", name);
        self.text((NOTE, top + 22), 20, "start", note);
        for (from, until, half, class) in bars.iter().filter(|(from, until, ..)| from < until) {
            let (left, right) = (self.x(*from), self.x(*until));
            self.bar((left, top + 38 - half), (right - left, 2 * half), class);
        }
        for at in broken {
            let left = self.x(*at).saturating_sub(2);
            self.bar((left, top + 27), (4, 22), BROKEN);
        }
    }

    /// The whole picture, with a title and a legend.
    fn drawn(mut self, title: &str, legend: &[(&'static str, &str)]) -> String {
        let axis = TOP + ROW * self.rows;
        let mut second = 0_u32;
        while f64::from(second) < self.seconds {
            let x = self.place(f64::from(second));
            let _ = writeln!(
                self.marks,
                r#"<line x1="{x}" y1="{TOP}" x2="{x}" y2="{axis}"/>"#
            );
            self.text((x, axis + 24), 18, "middle", &second.to_string());
            second += 2;
        }
        self.text((WIDTH / 2, axis + 50), 18, "middle", "seconds");
        self.text((SIDE, 34), 24, "start", title);
        let (mut at, mut line) = (SIDE, 52);
        for (class, label) in legend {
            let width = 26 + LETTER * label.len();
            if at + width > WIDTH {
                (at, line) = (SIDE, line + 28);
            }
            self.bar((at, line + 2), (18, 14), class);
            self.text((at + 25, line + 15), 18, "start", label);
            at += width + 8;
        }
        let (height, marks) = (axis + BOTTOM, self.marks);
        format!(
            r#"<svg width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" xmlns="http://www.w3.org/2000/svg">
<style>{STYLE}</style>
<rect class="page" width="{WIDTH}" height="{height}"/>
{marks}</svg>
"#
        )
    }

    fn bar(&mut self, (x, y): (usize, usize), (width, height): (usize, usize), class: &str) {
        let _ = writeln!(
            self.marks,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#
        );
    }

    fn text(&mut self, (x, y): (usize, usize), size: u8, anchor: &str, words: &str) {
        let _ = writeln!(
            self.marks,
            r#"<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}">{words}</text>"#
        );
    }

    fn x(&self, at: u64) -> usize {
        self.place(self.record.seconds(at))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "within the picture"
    )]
    fn place(&self, seconds: f64) -> usize {
        SIDE + (seconds / self.seconds * (WIDTH - 2 * SIDE) as f64) as usize
    }
}
