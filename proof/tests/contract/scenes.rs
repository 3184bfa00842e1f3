//! The list of what comes of every sample event, on the functions as processes.

use leasehold_local::scenes::{self, Scene};
use tokio::task::JoinSet;

/// Each has a stack of its own.
const AT_ONCE: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_event_is_answered_as_the_list_says() {
    let (mut playing, mut misfits) = (JoinSet::new(), Vec::new());
    for scene in scenes::all().unwrap() {
        if playing.len() == AT_ONCE {
            misfits.extend(playing.join_next().await.unwrap().unwrap());
        }
        playing.spawn(play(scene));
    }
    misfits.extend(playing.join_all().await.into_iter().flatten());
    assert!(misfits.is_empty(), "{}", misfits.join("\n"));
}

async fn play(scene: Scene) -> Option<String> {
    let stage = scene.set().await.expect(&scene.event);
    let answer = stage.invoke().await.unwrap();
    let misfit = scene.judge(&answer, &stage.told())?;
    Some(format!("{}{misfit}\n{answer}", scene.event))
}
