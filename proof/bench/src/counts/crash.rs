//! The holder vanishes, and another wants the key: what it sends until it has it, and how many leases long that takes.
//!
//! The holder goes through the door aside, the one who waits through the other. In line it is [next door](super::line).

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Builder;

use super::clients::{Direct, DynamodbLease, Lock, Ours, PythonLock, Setting, told};
use super::played::{Marks, Played};
use super::sections::site;
use crate::site::Site;

/// As it stands in the report.
pub const NAME: &str = "crash of the holder";
/// Ours, in its three ways.
pub const POLLED: &str = "leasehold, polling";
/// In line, with the sweep of every second.
pub const SWEPT: &str = "leasehold, in line, swept";
/// In line, with the event that an execution has ended.
pub const REAPED: &str = "leasehold, in line, reaped";

const KEY: &str = "orders/42";

/// Ours, asking again and again.
pub async fn polled(setting: &Setting) -> Result<Played, String> {
    let site = site().await?;
    let holder = Ours::at(&site.config_aside().await, setting.lease).await?;
    let request = holder.request(KEY, "another")?;
    let granted = holder.leases.acquire(request).await;
    let _ = granted.map_err(|error| told(&error))?;
    let client = Ours::enter(&site, setting).await?;
    wait(&site, client, POLLED, setting).await
}

/// Direct calls, asking every second.
pub async fn direct(setting: &Setting) -> Result<Played, String> {
    let site = site().await?;
    let config = site.config_aside().await;
    let mut holder = Direct::at(&config, setting.lease, "another").await?;
    holder.acquire(KEY).await?;
    let client = Direct::enter(&site, setting).await?;
    wait(&site, client, Direct::WHO.told(), setting).await
}

/// `dynamodb-lease`. Its holder lives in a runtime of its own, since it extends as long as that does.
pub async fn dynamodb_lease(setting: &Setting) -> Result<Played, String> {
    let site = site().await?;
    let client = DynamodbLease::enter(&site, setting).await?;
    let (config, door) = (site.config_aside().await, Arc::clone(site.door()));
    let holding = setting.clone();
    let vanished = tokio::task::spawn_blocking(move || {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| told(&error))?;
        let held = runtime.block_on(async {
            let mut holder = DynamodbLease::at(&config, &door, &holding).await?;
            holder.acquire(KEY).await
        });
        // It releases when it is dropped, which who crashes does not come to.
        std::mem::forget(held?);
        runtime.shutdown_background();
        Ok::<_, String>(())
    });
    vanished.await.map_err(|error| told(&error))??;
    wait(&site, client, DynamodbLease::WHO.told(), setting).await
}

/// `python_dynamodb_lock`. Its holder is killed.
pub async fn python_lock(setting: &Setting) -> Result<Played, String> {
    let site = site().await?;
    let mut holder = PythonLock::at(&site.url_aside(), setting, true).await?;
    let client = PythonLock::at(&site.url(), setting, false).await?;
    holder.acquire(KEY).await?;
    drop(holder);
    wait(&site, client, PythonLock::WHO.told(), setting).await
}

async fn wait<L: Lock>(
    site: &Site,
    mut client: L,
    name: &'static str,
    setting: &Setting,
) -> Result<Played, String> {
    let (mut marks, began) = (Marks::begin(site.door().counts()), Instant::now());
    let held = client.acquire(KEY).await?;
    let took = began.elapsed();
    marks.step("acquire", site.door().counts());
    client.release(held).await?;
    let played = Played::once(NAME, name, marks, took);
    Ok(played.under(setting.lease).knowing("its own"))
}
