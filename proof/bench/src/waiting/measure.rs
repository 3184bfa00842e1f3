//! From the diary of a run to its figures. Nothing here reads a clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ratio;
use crate::waiting::diary::{Event, What};

/// What is measured lies between these two instants, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it opens.
    pub from: u64,
    /// When it closes.
    pub until: u64,
}

/// What the clients lived through within a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// How often the key was given back.
    pub cycles: u64,
    /// Part of the window in which a client was inside, from knowing that the key is its own to giving it back.
    pub utilisation: f64,
    /// The waits.
    pub waits: Waits,
    /// How often the key passed on, be it to the same client.
    pub handovers: u64,
    /// How often it passed to another client than the one who gave it back.
    pub to_another: u64,
    /// Mean time from giving the key back to knowing that it is one's own.
    pub between: Duration,
    /// How often a client entered while another one was inside, in the whole run. It has to be zero.
    pub overlaps: u64,
    /// What failed in the whole run, and how often.
    pub errors: BTreeMap<String, u64>,
}

/// How long clients waited who entered within the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The mean of them all.
    pub mean: Duration,
    /// The longest, also of those who waited still when the window closed.
    pub longest: Duration,
    /// The longest is such a one: it is at least this long.
    pub goes_on: bool,
}

impl Waits {
    /// How many times the mean the longest is.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.mean.is_zero() {
            return 0.0;
        }
        self.longest.as_secs_f64() / self.mean.as_secs_f64()
    }
}

/// A client inside.
struct Hold {
    client: usize,
    asked: u64,
    from: u64,
    /// Without an end the client was inside still when the run ended.
    until: Option<u64>,
}

/// Measures what lies within the window; overlaps and errors count wherever they lie.
#[must_use]
pub fn measure(events: &[Event], window: Window) -> Measured {
    let (holds, waiting) = holds(events);
    let within = |at: u64| (window.from..window.until).contains(&at);
    let ended = |hold: &&Hold| hold.until.is_some_and(within);
    let held = holds.iter().map(|hold| {
        let until = hold.until.unwrap_or(window.until).min(window.until);
        until.saturating_sub(hold.from.max(window.from))
    });

    let pairs: Vec<_> = holds
        .windows(2)
        .filter_map(|pair| match pair {
            [before, after] if within(after.from) => Some((before, after)),
            _ => None,
        })
        .collect();
    let handovers = count(pairs.iter());
    let between = pairs.iter().map(|(before, after)| {
        after
            .from
            .saturating_sub(before.until.unwrap_or(after.from))
    });
    let mut errors = BTreeMap::new();
    for event in events {
        if let What::Failed(error) = &event.what {
            *errors.entry(error.clone()).or_default() += 1;
        }
    }
    Measured {
        cycles: count(holds.iter().filter(ended)),
        utilisation: ratio(held.sum(), window.until.saturating_sub(window.from)),
        waits: waits(&holds, &waiting, window),
        handovers,
        to_another: count(pairs.iter().filter(|(a, b)| a.client != b.client)),
        between: mean(between.sum(), handovers),
        overlaps: overlaps(&holds),
        errors,
    }
}

/// The holds in the order in which they began, and when those asked who got nothing.
fn holds(events: &[Event]) -> (Vec<Hold>, Vec<u64>) {
    let mut events: Vec<&Event> = events.iter().collect();
    // Stable, so that what one client does at one instant stays in order.
    events.sort_by_key(|event| event.at);
    let mut asked = BTreeMap::new();
    let mut inside: BTreeMap<usize, usize> = BTreeMap::new();
    let mut holds: Vec<Hold> = Vec::new();
    for event in events {
        let client = event.client;
        match event.what {
            What::Asked => {
                asked.insert(client, event.at);
            }
            What::Entered => {
                inside.insert(client, holds.len());
                holds.push(Hold {
                    client,
                    asked: asked.remove(&client).unwrap_or(event.at),
                    from: event.at,
                    until: None,
                });
            }
            What::Left => {
                if let Some(hold) = inside.remove(&client).and_then(|i| holds.get_mut(i)) {
                    hold.until = Some(event.at);
                }
            }
            What::Failed(_) => {}
        }
    }
    (holds, asked.into_values().collect())
}

fn waits(holds: &[Hold], waiting: &[u64], window: Window) -> Waits {
    let ended: Vec<u64> = holds
        .iter()
        .filter(|hold| (window.from..window.until).contains(&hold.from))
        .map(|hold| hold.from - hold.asked)
        .collect();
    // Who entered after the window waited in it as well as those who never did.
    let later = holds.iter().filter(|hold| hold.from >= window.until);
    let open = waiting.iter().copied().chain(later.map(|hold| hold.asked));
    let open = open.map(|asked| window.until.saturating_sub(asked)).max();
    let longest = ended.iter().copied().max().unwrap_or(0);
    let goes_on = open.is_some_and(|open| open > longest);
    Waits {
        mean: mean(ended.iter().sum(), count(ended.iter())),
        longest: Duration::from_nanos(longest.max(open.unwrap_or(0))),
        goes_on,
    }
}

fn overlaps(holds: &[Hold]) -> u64 {
    let mut last_out = 0;
    let mut overlaps = 0;
    for hold in holds {
        overlaps += u64::from(hold.from < last_out);
        last_out = last_out.max(hold.until.unwrap_or(u64::MAX));
    }
    overlaps
}

fn mean(sum: u64, of: u64) -> Duration {
    Duration::from_nanos(sum.checked_div(of).unwrap_or(0))
}

fn count(of: impl Iterator) -> u64 {
    u64::try_from(of.count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
