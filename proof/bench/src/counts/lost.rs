//! One request goes wrong: its answer is lost after it was applied, or it is refused for capacity.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_local::{Fault, Proxy};

use super::clients::{Act, Lock, Setting};
use super::played::{Marks, Played};
use super::sections::site;

/// How often those extend who do it by themselves: longer than any pause before a second try, so that none falls due
/// meanwhile.
const EXTENDS_EVERY: Duration = Duration::from_millis(1200);

/// How often it is tried, and until when: who waits for a whole lease is not asked twice.
#[derive(Clone, Copy, Debug)]
pub struct Tries {
    /// At most so often.
    pub most: usize,
    /// Not again after this.
    pub until: Duration,
}

/// The name of a scene in which `fault` happens to one request.
#[must_use]
pub fn name(act: Act, fault: Fault) -> String {
    let act = act.told();
    match fault {
        Fault::Throttle => format!("throttled once: {act}"),
        _ => format!("lost answer: {act}"),
    }
}

/// What is sent, and how long it takes, until a client knows where it stands whose `act` met `fault`.
pub async fn settled<L: Lock>(
    setting: &Setting,
    act: Act,
    fault: Fault,
    tries: Tries,
) -> Result<Played, String> {
    let setting = Setting {
        extends_every: (act == Act::Extend).then_some(EXTENDS_EVERY),
        ..setting.clone()
    };
    let site = site().await?;
    let mut client = L::enter(&site, &setting).await?;
    let held = client.acquire("warm").await?;
    client.release(held).await?;
    let (began, mut played) = (Instant::now(), Vec::new());
    while played.is_empty() || (played.len() < tries.most && began.elapsed() < tries.until) {
        let key = format!("orders/{}", played.len());
        played.push(once(&mut client, site.door(), &key, act, fault).await?);
    }
    let settled = Played::of_tries(played).ok_or("nothing was tried")?;
    Ok(settled.under(setting.lease))
}

async fn once<L: Lock>(
    client: &mut L,
    door: &Arc<Proxy>,
    key: &str,
    act: Act,
    fault: Fault,
) -> Result<Played, String> {
    let held = match act {
        Act::Acquire => None,
        Act::Extend | Act::Release => Some(client.acquire(key).await?),
    };
    let mut marks = Marks::begin(door.counts());
    door.inject(fault, L::WHO.writes(act), 1);
    let happening = tokio::spawn(until_it_has_happened(Arc::clone(door)));
    let mut began = Instant::now();
    let (told, held) = match (act, held) {
        (Act::Extend, Some(mut held)) => {
            let told = client.extend(&mut held).await.map(|()| "extended");
            (told, Some(held))
        }
        (Act::Release, Some(held)) => (client.release(held).await.map(|()| "released"), None),
        (_, _) => match client.acquire(key).await {
            Ok(held) => (Ok("its own"), Some(held)),
            Err(error) => (Err(error), None),
        },
    };
    let ended = Instant::now();
    marks.step(act.told(), door.counts());
    let happened = happening
        .await
        .map_err(|error| super::clients::told(&error))?;
    if L::EXTENDS_BY_ITSELF && act == Act::Extend {
        began = happened;
    }
    if let Some(held) = held {
        // What was lost cannot be given back; that is no part of the scene.
        let _ = client.release(held).await;
    }
    let took = ended.saturating_duration_since(began);
    let played = Played::once(name(act, fault), L::WHO.told(), marks, took);
    Ok(match told {
        Ok(told) => played.knowing(told),
        Err(error) => played.knowing(error),
    })
}

async fn until_it_has_happened(door: Arc<Proxy>) -> Instant {
    while door.pending_faults() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Instant::now()
}
