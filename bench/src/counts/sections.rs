//! Sections that nobody disturbs: acquire, extend, release.

use std::time::{Duration, Instant};

use super::clients::{Lock, Setting};
use super::played::{Marks, Played, millis};
use crate::rounded;
use crate::site::Site;

const KEY: &str = "orders/42";

/// The name of a section with so many extends.
#[must_use]
pub fn name(extends: u32) -> String {
    match extends {
        0 => "section".to_owned(),
        1 => "section with 1 extend".to_owned(),
        more => format!("section with {more} extends"),
    }
}

/// A section with so many extends. The key was held before, so that all is as it is from the second time on.
pub async fn section<L: Lock>(setting: &Setting, extends: u32) -> Result<Played, String> {
    let setting = Setting {
        extends: extends > 0,
        ..setting.clone()
    };
    let site = site().await?;
    let mut client = L::enter(&site, &setting).await?;
    let held = client.acquire(KEY).await?;
    client.release(held).await?;

    let counts = || site.door().counts();
    let (mut marks, began) = (Marks::begin(counts()), Instant::now());
    let mut held = client.acquire(KEY).await?;
    marks.step("acquire", counts());
    for _ in 0..extends {
        client.extend(&mut held).await?;
        marks.step("extend", counts());
    }
    client.release(held).await?;
    marks.step("release", counts());
    let played = Played::once(name(extends), L::WHO.told(), marks, began.elapsed());
    Ok(played.knowing("released"))
}

/// So many keys at once, by who can do it only one after the other.
pub async fn one_by_one<L: Lock>(setting: &Setting, keys: usize) -> Result<Played, String> {
    let site = site().await?;
    let mut client = L::enter(&site, setting).await?;
    let counts = || site.door().counts();
    let (mut marks, began) = (Marks::begin(counts()), Instant::now());
    let mut held = Vec::with_capacity(keys);
    for key in 0..keys {
        held.push(client.acquire(&format!("accounts/{key}")).await?);
    }
    marks.step("acquire", counts());
    for held in held {
        client.release(held).await?;
    }
    marks.step("release", counts());
    let scene = format!("{keys} keys at once");
    let played = Played::once(scene, L::WHO.told(), marks, began.elapsed());
    Ok(played.knowing("one after the other: half of them may be held when one is not to be had"))
}

/// The mean time of acquire and release with `latency` on the way of each request, in milliseconds.
pub async fn far_away<L: Lock>(
    setting: &Setting,
    latency: Duration,
    rounds: u32,
) -> Result<f64, String> {
    let site = site().await?;
    let mut client = L::enter(&site, setting).await?;
    let held = client.acquire(KEY).await?;
    client.release(held).await?;
    site.set_latency(latency);
    let began = Instant::now();
    for _ in 0..rounds {
        let held = client.acquire(KEY).await?;
        client.release(held).await?;
    }
    Ok(rounded(millis(began.elapsed()) / f64::from(rounds)))
}

/// A database for one scene.
pub(super) async fn site() -> Result<Site, String> {
    Site::start()
        .await
        .map_err(|error| super::clients::told(&error))
}
