//! Sections that nobody disturbs: acquire, extend, release.

use std::time::{Duration, Instant};

use super::clients::{Lock, Setting};
use super::played::{Marks, Played, millis};
use crate::rounded;
use crate::site::Site;

const KEY: &str = "orders/42";
const WARM_UP: u32 = 5;
/// How often those extend who do it by themselves.
const OFTEN: Duration = Duration::from_millis(200);

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
        extends_every: (extends > 0).then_some(OFTEN),
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

/// Mean times, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Of acquire and release together.
    pub section_ms: f64,
    /// Of what the way of one request is longer.
    pub delay_ms: f64,
}

/// Sections with `latency` on the way of each request.
pub async fn far_away<L: Lock>(
    setting: &Setting,
    latency: Duration,
    rounds: u32,
) -> Result<Took, String> {
    let site = site().await?;
    let mut client = L::enter(&site, setting).await?;
    let mut mean = async |rounds: u32| {
        let began = Instant::now();
        for _ in 0..rounds {
            let held = client.acquire(KEY).await?;
            client.release(held).await?;
        }
        Ok::<_, String>(millis(began.elapsed()) / f64::from(rounds))
    };
    // What is done for the first time takes longer.
    mean(WARM_UP).await?;
    site.set_latency(latency);
    let section_ms = rounded(mean(rounds).await?);
    let began = Instant::now();
    for _ in 0..rounds {
        // As the door does.
        tokio::time::sleep(latency).await;
    }
    Ok(Took {
        section_ms,
        delay_ms: rounded(millis(began.elapsed()) / f64::from(rounds)),
    })
}

/// A database for one scene.
pub(super) async fn site() -> Result<Site, String> {
    Site::start()
        .await
        .map_err(|error| super::clients::told(&error))
}
