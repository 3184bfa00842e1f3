//! `timeline.svg` and `line.svg`: one bar per execution, waiting and then holding.

use std::error::Error as StdError;

use leasehold_local::Error;
use plotters::prelude::*;

use super::cast::{KEYS, QUEUE_KEY, Scenario};
use super::record::{Execution, Record, seconds};
use super::{GRACE_SECONDS, MARGIN_MS};

const WIDTH: u32 = 1080;
const TOP: i32 = 96;
const BOTTOM: i32 = 48;
const ROW: i32 = 24;
const LEFT: i32 = 140;
const RIGHT: i32 = 230;

const TEXT: RGBColor = RGBColor(28, 36, 48);
const WAITING: RGBColor = RGBColor(242, 193, 78);
const HOLDING: RGBColor = RGBColor(31, 138, 112);
const LEFT_BEHIND: RGBColor = RGBColor(243, 183, 183);
const STOPPED: RGBColor = RGBColor(204, 51, 64);
const TAKEN_OVER: RGBColor = RGBColor(109, 63, 196);
const REPLAYED: RGBColor = RGBColor(21, 101, 192);

/// A row: a name, a note, and the marks between them.
#[derive(Default)]
struct Row {
    name: String,
    note: String,
    /// Start, end, half the height, and colour.
    bars: Vec<(u64, u64, i32, RGBColor)>,
    /// Instant and colour.
    marks: Vec<(u64, RGBColor)>,
}

/// The first act: grouped by key, in the order of the grants.
pub(super) fn contention(record: &Record, passed: bool) -> Result<String, Error> {
    let mut rows = Vec::new();
    let mut count = 0;
    for key in KEYS {
        let mut group = of(record, key);
        group.sort_by_key(|one| one.lease.as_ref().map_or(u64::MAX, |hold| hold.from));
        count += group.len();
        rows.push(resource(key, &group));
        rows.extend(group.iter().map(|one| row(record, one)));
    }
    let what = if passed {
        "one holder at a time"
    } else {
        "a promise was broken"
    };
    draw(
        &format!("{count} executions, {} keys: {what}", KEYS.len()),
        &rows,
    )
}

/// The second act: in the order of the queue.
pub(super) fn queue(record: &Record, passed: bool) -> Result<String, Error> {
    let group = of(record, QUEUE_KEY);
    let mut rows = vec![resource(QUEUE_KEY, &group)];
    rows.extend(group.iter().map(|one| row(record, one)));
    let what = if passed {
        "first come, first served"
    } else {
        "a promise was broken"
    };
    draw(
        &format!("{} executions queue for one key: {what}", group.len()),
        &rows,
    )
}

fn of<'a>(record: &'a Record, key: &str) -> Vec<&'a Execution> {
    let all = record.executions.iter();
    all.filter(|one| one.key == key).collect()
}

/// The holders inside, by the resource's own record. Wrapped work writes none, so its lease stands for it, as a thin bar.
fn resource(key: &str, group: &[&Execution]) -> Row {
    let is_wrapped = |one: &&&Execution| one.part == Scenario::Wrapping;
    let wrapped = group.iter().filter(is_wrapped);
    let wrapped = wrapped.filter_map(|one| one.lease.as_ref());
    let wrapped = wrapped.map(|hold| (hold.from, hold.until(), 2, HOLDING));
    let note = match wrapped.clone().next() {
        Some(_) => "inside, by its record; thin: wrapped",
        None => "inside, by the resource's record",
    };
    let stays = group.iter().filter_map(|one| {
        let left = one.left.or(one.stopped).or(one.ended)?;
        Some((one.entered?, left, 6, HOLDING))
    });
    let stays = wrapped.chain(stays);
    Row {
        name: key.to_owned(),
        note: note.to_owned(),
        bars: stays.collect(),
        marks: Vec::new(),
    }
}

fn row(record: &Record, one: &Execution) -> Row {
    let mut row = Row {
        name: one.name.clone(),
        ..Row::default()
    };
    let end = one.stopped.or(one.ended).unwrap_or(0);
    if let Some(asked) = one.asked {
        let until = one.lease.as_ref().map_or(end, |hold| hold.from);
        row.bars.push((asked, until, 2, WAITING));
    }
    if let Some(hold) = &one.lease {
        match one.stopped {
            Some(stopped) => {
                let free = match one.part {
                    Scenario::StoppedHolding => stopped + GRACE_SECONDS * 1000,
                    _ => hold.expires + MARGIN_MS,
                };
                row.bars.push((hold.from, stopped, 6, HOLDING));
                row.bars.push((stopped, free, 6, LEFT_BEHIND));
            }
            None => row.bars.push((hold.from, hold.until(), 6, HOLDING)),
        }
        let extends = hold.extends.iter();
        row.marks.extend(extends.map(|at| (*at, WHITE)));
        if hold.is_takeover() {
            row.marks.push((hold.from, TAKEN_OVER));
        }
        if hold.grant == "replayed" {
            row.marks.push((hold.from, REPLAYED));
        }
    }
    let stops = one.stopped.iter().chain(&one.refused_writes);
    let stops = stops.chain(&one.killed);
    row.marks.extend(stops.map(|at| (*at, STOPPED)));
    row.note = note(record, one);
    row
}

/// The note after a bar.
fn note(record: &Record, one: &Execution) -> String {
    if one.status != one.expected_status {
        return format!("{}, unexpectedly", one.status.to_lowercase());
    }
    let hold = one.lease.as_ref();
    let taken = hold.filter(|hold| hold.is_takeover());
    let previous = taken.and_then(|hold| hold.previous.as_ref());
    match (one.part, previous) {
        (Scenario::Stopped, _) => "stopped; late write refused".to_owned(),
        (Scenario::StoppedWaiting, _) => "stopped; gave up its place".to_owned(),
        (Scenario::StoppedHolding, _) => "stopped; its grace, then sweep".to_owned(),
        (Scenario::Killed, _) => "killed, same lease by replay".to_owned(),
        (_, Some(previous)) => format!("takes over from {}", record.name(&previous.holder)),
        _ => format!("waited {:.1} s", seconds(one.waited().unwrap_or(0))),
    }
}

fn draw(title: &str, rows: &[Row]) -> Result<String, Error> {
    let mut svg = String::new();
    let plotted = plot(&mut svg, title, rows);
    plotted.map_err(|error| Error::call("draw a picture", error))?;
    Ok(svg)
}

fn plot(svg: &mut String, title: &str, rows: &[Row]) -> Result<(), Box<dyn StdError>> {
    let length = ROW * i32::try_from(rows.len())?;
    let height = TOP + length + BOTTOM;
    let root = SVGBackend::with_string(svg, (WIDTH, u32::try_from(height)?)).into_drawing_area();
    root.fill(&WHITE)?;
    let instants = rows.iter().flat_map(|row| {
        let bars = row.bars.iter().flat_map(|bar| [bar.0, bar.1]);
        bars.chain(row.marks.iter().map(|mark| mark.0))
    });
    // The second act comes late in the run.
    let begin = seconds(instants.clone().min().unwrap_or(0)).floor();
    let end = seconds(instants.max().unwrap_or(0)) + 0.5;
    let mut chart = ChartBuilder::on(&root)
        .margin_top(TOP)
        .margin_left(LEFT)
        .margin_right(RIGHT)
        .margin_bottom(BOTTOM - 40)
        .x_label_area_size(40)
        .build_cartesian_2d(begin..end, 0..length)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("seconds")
        .draw()?;
    let x = |at: u64| chart.backend_coord(&(seconds(at), 0)).0;
    let style = |size: u32| ("sans-serif", size).into_font().color(&TEXT);
    root.draw(&Text::new(title.to_owned(), (20, 16), style(18)))?;
    let mut at = 20;
    for (colour, label) in [
        (WAITING, "waits"),
        (HOLDING, "holds (white: extends)"),
        (LEFT_BEHIND, "left behind by who was stopped"),
        (STOPPED, "stopped, killed, write refused"),
        (TAKEN_OVER, "takes over"),
        (REPLAYED, "granted by replay"),
    ] {
        root.draw(&Rectangle::new([(at, 60), (at + 18, 70)], colour.filled()))?;
        root.draw(&Text::new(label, (at + 24, 58), style(12)))?;
        at += 24 + 7 * i32::try_from(label.len())? + 10;
    }
    for (index, row) in rows.iter().enumerate() {
        let middle = TOP + ROW * i32::try_from(index)? + ROW / 2;
        root.draw(&Text::new(row.name.clone(), (20, middle - 6), style(12)))?;
        let behind = i32::try_from(WIDTH)? - RIGHT + 12;
        root.draw(&Text::new(
            row.note.clone(),
            (behind, middle - 6),
            style(12),
        ))?;
        for (from, until, half, colour) in &row.bars {
            let corners = [
                (x(*from), middle - half),
                (x(*until).max(x(*from) + 1), middle + half),
            ];
            root.draw(&Rectangle::new(corners, colour.filled()))?;
        }
        for (at, colour) in &row.marks {
            let corners = [(x(*at) - 1, middle - 8), (x(*at) + 1, middle + 8)];
            root.draw(&Rectangle::new(corners, colour.filled()))?;
        }
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_begins_with_the_second_of_its_first_event() {
        let row = Row {
            bars: vec![(24_300, 31_000, 6, HOLDING)],
            ..Row::default()
        };
        let svg = draw("a late act", &[row]).expect("a picture");
        assert!(
            svg.contains("\n24.0\n") && !svg.contains("\n0.0\n"),
            "{svg}"
        );
    }
}
