//! `timeline.svg`, with a row for each who wants the key, and `tokens.svg`, with the writes that the resource accepted or refused.

use std::error::Error as StdError;

use leasehold_local::Error;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::record::{Record, Seen};
use super::setting::{KEY, MARGIN_MS};

// README shows it, also on a phone, where it is half as wide: hence few points and large letters.
const WIDTH: u32 = 720;
const TOP: i32 = 126;
const BOTTOM: i32 = 60;
/// A row: its words, and its bars below them.
const ROW: i32 = 54;
const SIDE: i32 = 16;
/// Where the note of a row begins, and how wide a letter is at most.
const NOTE: i32 = 136;
const LETTER: i32 = 10;

// The colours of the console's pages, in cli/src/console/style.css.
const TEXT: RGBColor = RGBColor(27, 31, 36);
const WAITS: RGBColor = RGBColor(210, 153, 34);
const HOLDS: RGBColor = RGBColor(10, 95, 180);
const GRACE: RGBColor = RGBColor(130, 80, 223);
const BROKEN: RGBColor = RGBColor(179, 38, 30);
const NOBODY: RGBColor = RGBColor(110, 119, 129);

/// Where the reader prefers dark pages: a rule of style overrides the colours that the marks have.
const DARK: &str = r##"<style>
@media (prefers-color-scheme: dark) {
  [fill="#FFFFFF"] { fill: #0f1318; }
  [fill="#1B1F24"] { fill: #e6edf3; }
  [stroke="#000000"] { stroke: #e6edf3; }
  [fill="#D29922"] { fill: #e3b341; }
  [fill="#0A5FB4"] { fill: #58a6ff; }
  [fill="#8250DF"] { fill: #bc8cff; }
  [fill="#B3261E"] { fill: #ff8b82; }
  [fill="#6E7781"] { fill: #8b949e; }
}
</style>
"##;

type Plotted = Result<(), Box<dyn StdError>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Who waited, and who held the key, when.
pub(super) fn timeline(record: &Record<'_>) -> Result<String, Error> {
    let title = format!("One key, {KEY}: one holder at a time, in order of arrival");
    let legend = [
        (WAITS, "waits"),
        (HOLDS, "holds the key"),
        (GRACE, "grace period: a function may still run"),
        (NOBODY, "nobody may hold it"),
        (BROKEN, "killed, stopped or refused"),
    ];
    let dead = record.all.iter().filter_map(|one| dead_time(record, one));
    let rows = 1 + record.all.len() + dead.count();
    draw(record, &title, &legend, rows, |area, x| {
        let inside = stays(record).into_iter();
        let inside: Vec<_> = inside
            .map(|(from, until)| (from, until, 5, HOLDS))
            .collect();
        row(
            area,
            x,
            0,
            ("inside", "as the protected resource recorded it"),
            &inside,
            &[],
        )?;
        let mut nth = 1;
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
            let marks: Vec<_> = [one.killed, one.stopped, refused]
                .into_iter()
                .flatten()
                .collect();
            row(area, x, nth, (&one.name, &note(record, one)), &bars, &marks)?;
            nth += 1;
            if let Some((from, until)) = dead_time(record, one) {
                let seconds = record.seconds(record.began + until - from);
                let margin = record.seconds(record.began + MARGIN_MS);
                let words = format!(
                    "for {seconds:.1} s: clock margin of {margin} s, then until the next sweep"
                );
                row(
                    area,
                    x,
                    nth,
                    ("nobody", &words),
                    &[(from, until, 8, NOBODY)],
                    &[],
                )?;
                nth += 1;
            }
        }
        Ok(())
    })
}

/// The writes over time, each in the row of its holder, the newest on top: accepted tokens only rise.
pub(super) fn tokens(record: &Record<'_>) -> Result<String, Error> {
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
    draw(record, &title, &legend, holders.len(), |area, x| {
        for (nth, one) in holders.iter().enumerate() {
            let writes = record
                .writes
                .iter()
                .filter(|(_, token, _)| Some(*token) == one.token);
            let writes: Vec<_> = writes
                .map(|(at, ..)| (at.saturating_sub(60), at + 60, 8, HOLDS))
                .collect();
            let refused: Vec<_> = one.refused.iter().map(|(at, _)| *at).collect();
            let token = one.token.unwrap_or(0).to_string();
            row(area, x, nth, (&one.name, &token), &writes, &refused)?;
        }
        Ok(())
    })
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

/// A picture with a title, a legend, an axis of seconds and so many rows, which `rows` draws.
fn draw(
    record: &Record<'_>,
    title: &str,
    legend: &[(RGBColor, &str)],
    count: usize,
    rows: impl Fn(&Area<'_>, &dyn Fn(u64) -> i32) -> Plotted,
) -> Result<String, Error> {
    let mut svg = String::new();
    let plotted = plot(&mut svg, record, title, legend, count, rows);
    plotted.map_err(|error| Error::call("draw a picture", error))?;
    Ok(svg.replacen(">\n", &format!(">\n{DARK}"), 1))
}

fn plot(
    svg: &mut String,
    record: &Record<'_>,
    title: &str,
    legend: &[(RGBColor, &str)],
    count: usize,
    rows: impl Fn(&Area<'_>, &dyn Fn(u64) -> i32) -> Plotted,
) -> Plotted {
    let length = ROW * i32::try_from(count)?;
    let height = u32::try_from(TOP + length + BOTTOM)?;
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let ends = record.all.iter().filter_map(Seen::until);
    let end = record.seconds(ends.max().unwrap_or(record.began)) + 0.5;
    let mut chart = ChartBuilder::on(&root)
        .margin_top(TOP)
        .margin_left(SIDE)
        .margin_right(SIDE)
        .margin_bottom(BOTTOM - 52)
        .x_label_area_size(52)
        .build_cartesian_2d(0.0..end, 0..length)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|seconds| format!("{seconds:.0}"))
        .x_desc("seconds")
        .label_style(style(18))
        .axis_desc_style(style(18))
        .draw()?;
    root.draw(&Text::new(title.to_owned(), (SIDE, 14), style(24)))?;
    let (mut at, mut line) = (SIDE, 52);
    for (colour, label) in legend {
        let width = 26 + LETTER * i32::try_from(label.len())?;
        if at + width > i32::try_from(WIDTH)? {
            (at, line) = (SIDE, line + 28);
        }
        let corners = [(at, line + 2), (at + 18, line + 16)];
        root.draw(&Rectangle::new(corners, colour.filled()))?;
        root.draw(&Text::new(*label, (at + 25, line), style(18)))?;
        at += width + 8;
    }
    rows(&root, &|at| chart.backend_coord(&(record.seconds(at), 0)).0)?;
    root.present()?;
    Ok(())
}

/// A row: its name and note, its bars (from, until, half the height, colour), and marks where something broke.
fn row(
    area: &Area<'_>,
    x: &dyn Fn(u64) -> i32,
    nth: usize,
    (name, note): (&str, &str),
    bars: &[(u64, u64, i32, RGBColor)],
    marks: &[u64],
) -> Plotted {
    let top = TOP + ROW * i32::try_from(nth)?;
    let middle = top + 38;
    area.draw(&Text::new(name.to_owned(), (SIDE, top + 6), style(20)))?;
    area.draw(&Text::new(note.to_owned(), (NOTE, top + 6), style(20)))?;
    for (from, until, half, colour) in bars.iter().filter(|(from, until, ..)| from < until) {
        let corners = [(x(*from), middle - half), (x(*until), middle + half)];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
    }
    for at in marks {
        let corners = [(x(*at) - 2, middle - 11), (x(*at) + 2, middle + 11)];
        area.draw(&Rectangle::new(corners, BROKEN.filled()))?;
    }
    Ok(())
}

/// A size as SVG has it: plotters makes letters smaller than it is asked for.
fn style(size: u32) -> TextStyle<'static> {
    ("sans-serif", f64::from(size) * 1.24)
        .into_font()
        .color(&TEXT)
}
