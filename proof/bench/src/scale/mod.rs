//! What leases cost in a large table, in deep lines, with many permits, many at once, and under load from many processes.
//!
//! Requests, bytes and units are counted at the socket of an embedded database behind the counting proxy; the leases' clock
//! stands still meanwhile, so that every run counts the same. [`rows`], [`lines`], [`permits`], [`several`] and [`load`]
//! are what is gone through, each on a [`field`] of its own; [`figures`] are what comes of it.

mod chart;
pub mod cost;
pub mod field;
pub mod figures;
pub mod keeps_up;
pub mod lines;
pub mod load;
pub mod permits;
pub mod rows;
pub mod several;
mod told;

use serde_json::json;

use crate::error::io;
use crate::parts::{Found, Ground};
use crate::{Error, tell};
use figures::Figures;
use load::Load;
use rows::InUse;

/// One measurement after the other.
pub(crate) async fn measure(ground: &Ground) -> Result<Found, Error> {
    let quick = ground.quick;
    let mut found = Figures::default();
    let rows: &[u64] = if quick {
        &[1, 10_000]
    } else {
        &[1, 10_000, 1_000_000]
    };
    for rows in rows {
        tell(&format!(
            "{rows} free rows, a thousand held, a thousand waiting"
        ));
        found
            .rows
            .push(rows::measure(*rows, InUse::THOUSAND).await?);
    }
    let depths: &[u64] = if quick {
        &[1, 6, 7, 8, 32, 128]
    } else {
        &[1, 6, 7, 8, 32, 128, 512]
    };
    tell(&format!("lines of {depths:?}"));
    found.lines = lines::measure(depths).await?;
    tell("a sweep behind those who were served");
    for lines in [1, 8] {
        let served = if quick { 200 } else { 1000 };
        let far = std::time::Duration::from_millis(5);
        found
            .keeps_up
            .push(keeps_up::measure(lines, served, far).await?);
    }
    tell("permits, several keys");
    found.permits = permits::measure(&[2, 10, 100]).await?;
    found.several = several::measure(&[1, 2, 10, 50, 100]).await?;
    let program = std::env::current_exe().map_err(io("find this program"))?;
    let loads = Load::all(quick);
    let all = loads.len();
    for (number, load) in loads.into_iter().enumerate() {
        tell(&format!(
            "load {} of {all}: {}, {} processes",
            number + 1,
            load.name.as_peer(),
            load.processes
        ));
        found.loads.push(load::run(&program, load).await?);
    }
    Ok(Found {
        title: "What grows with a table, a line, a semaphore and a set",
        told: found.told(),
        measures: found.measures(),
        pictures: found.draw(),
        raw: json!(found),
    })
}
