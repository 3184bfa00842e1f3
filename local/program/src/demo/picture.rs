//! `timeline.svg`, with a row for each who wants the key, and `tokens.svg`, with the writes that the resource accepted or refused.

use std::error::Error as StdError;

use leasehold_local::Error;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::record::{Record, Seen};
use super::story::KEY;

const WIDTH: u32 = 1080;
const TOP: i32 = 96;
const BOTTOM: i32 = 48;
const ROW: i32 = 26;
const LEFT: i32 = 130;
const RIGHT: i32 = 240;

const TEXT: RGBColor = RGBColor(28, 36, 48);
const WAITS: RGBColor = RGBColor(242, 193, 78);
const HOLDS: RGBColor = RGBColor(31, 138, 112);
const GRACE: RGBColor = RGBColor(243, 183, 183);
const BROKEN: RGBColor = RGBColor(204, 51, 64);

type Plotted = Result<(), Box<dyn StdError>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Who waited, and who held the key, when.
pub(super) fn timeline(record: &Record<'_>) -> Result<String, Error> {
    let title = format!("One key, {KEY}: one holder at a time, first come, first served");
    let legend = [
        (WAITS, "waits in the queue"),
        (HOLDS, "holds the key"),
        (GRACE, "grace of what was stopped or killed"),
        (BROKEN, "killed, stopped, late write refused"),
    ];
    draw(record, &title, &legend, record.all.len() + 1, |area, x| {
        let inside = stays(record).into_iter();
        let inside: Vec<_> = inside
            .map(|(from, until)| (from, until, 3, HOLDS))
            .collect();
        row(
            area,
            x,
            0,
            ("inside", "as the resource recorded it"),
            &inside,
            &[],
        )?;
        for (nth, one) in record.all.iter().enumerate() {
            let mut bars = Vec::new();
            let end = one.stopped.or(one.ended).unwrap_or(record.began);
            if let Some(asked) = one.asked {
                bars.push((asked, one.holds.unwrap_or(end), 2, WAITS));
            }
            if let Some(from) = one.holds {
                bars.push((end, one.until().unwrap_or(end), 6, GRACE));
                bars.push((from, end, 6, HOLDS));
            }
            let refused = one.refused.as_ref().map(|(at, _)| *at);
            let marks: Vec<_> = [one.killed, one.stopped, refused]
                .into_iter()
                .flatten()
                .collect();
            row(
                area,
                x,
                nth + 1,
                (&one.name, &note(record, one)),
                &bars,
                &marks,
            )?;
        }
        Ok(())
    })
}

/// The writes over time, each at the height of its token: accepted tokens only rise.
pub(super) fn tokens(record: &Record<'_>) -> Result<String, Error> {
    let title = format!("The fencing tokens that the resource of {KEY} accepted: they only rise");
    let legend = [
        (HOLDS, "accepted"),
        (BROKEN, "refused, because a newer token was accepted before"),
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
                .map(|(at, ..)| (at.saturating_sub(40), at + 40, 7, HOLDS))
                .collect();
            let refused: Vec<_> = one.refused.iter().map(|(at, _)| *at).collect();
            let token = one.token.unwrap_or(0).to_string();
            row(area, x, nth, (&token, &one.name), &writes, &refused)?;
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

/// What to say of one behind its row.
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
        } => "stopped; passed over".to_owned(),
        Seen {
            stopped: Some(_), ..
        } => "stopped at work; its grace".to_owned(),
        Seen {
            killed: Some(_), ..
        } => format!("killed asking; waited {:.1} s", waited()),
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
    Ok(svg)
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
        .margin_left(LEFT)
        .margin_right(RIGHT)
        .margin_bottom(BOTTOM - 40)
        .x_label_area_size(40)
        .build_cartesian_2d(0.0..end, 0..length)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .disable_y_axis()
        .x_desc("seconds")
        .draw()?;
    root.draw(&Text::new(title.to_owned(), (20, 16), style(18)))?;
    let mut at = 20;
    for (colour, label) in legend {
        root.draw(&Rectangle::new([(at, 60), (at + 18, 70)], colour.filled()))?;
        root.draw(&Text::new(*label, (at + 24, 58), style(12)))?;
        at += 40 + 7 * i32::try_from(label.len())?;
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
    let middle = TOP + ROW * i32::try_from(nth)? + ROW / 2;
    let behind = i32::try_from(WIDTH)? - RIGHT + 12;
    area.draw(&Text::new(name.to_owned(), (20, middle - 6), style(12)))?;
    area.draw(&Text::new(note.to_owned(), (behind, middle - 6), style(12)))?;
    for (from, until, half, colour) in bars.iter().filter(|(from, until, ..)| from < until) {
        let corners = [(x(*from), middle - half), (x(*until), middle + half)];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
    }
    for at in marks {
        let corners = [(x(*at) - 1, middle - 9), (x(*at) + 1, middle + 9)];
        area.draw(&Rectangle::new(corners, BROKEN.filled()))?;
    }
    Ok(())
}

fn style(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&TEXT)
}
