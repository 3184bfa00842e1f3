//! The clients of one run at work, and the loop that each of them goes through.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Child;
use tokio::task::JoinSet;

use crate::waiting::course::Course;
use crate::waiting::diary::{Diary, What};

/// How long a client rests whose call failed, so that a fault that lasts does not become a storm.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);

/// One who wants the key. What a call fails with is text: it is counted, not handled.
pub trait Client: Send + 'static {
    /// What shows that the key is its own.
    type Held: Send;

    /// Waits until the key is its own, in whatever manner.
    fn acquire(&mut self) -> impl Future<Output = Result<Self::Held, String>> + Send;

    /// Gives the key back.
    fn release(&mut self, held: Self::Held) -> impl Future<Output = Result<(), String>> + Send;
}

/// Clients at work. Dropping it ends them, in the middle of whatever they do.
#[derive(Debug, Default)]
pub struct Crew {
    tasks: JoinSet<()>,
    // Killed when it is dropped: whoever starts one has asked for that.
    child: Option<Child>,
}

impl Crew {
    /// Lets each of the clients ask, hold, release, rest, and ask again, until the crew is dropped.
    pub fn of<C: Client>(clients: Vec<C>, course: &Course, diary: &Arc<Diary>) -> Self {
        let mut crew = Self::default();
        for (number, client) in clients.into_iter().enumerate() {
            crew.tasks
                .spawn(go_round(number, client, *course, Arc::clone(diary)));
        }
        crew
    }

    /// Clients in another process, of which `listening` hears.
    pub fn in_process(child: Child, listening: impl Future<Output = ()> + Send + 'static) -> Self {
        let mut crew = Self {
            child: Some(child),
            ..Self::default()
        };
        crew.tasks.spawn(listening);
        crew
    }

    /// Work that goes on as long as the clients do.
    #[must_use]
    pub fn beside(mut self, work: impl Future<Output = ()> + Send + 'static) -> Self {
        self.tasks.spawn(work);
        self
    }

    /// Ends the clients and waits until they are gone.
    pub async fn end(mut self) {
        self.tasks.shutdown().await;
        if let Some(child) = &mut self.child {
            // Gone already is as good.
            let _ = child.kill().await;
        }
    }
}

async fn go_round<C: Client>(number: usize, mut client: C, course: Course, diary: Arc<Diary>) {
    loop {
        diary.write(number, What::Asked);
        let proof = loop {
            match client.acquire().await {
                Ok(proof) => break proof,
                Err(error) => {
                    diary.write(number, What::Failed(error));
                    tokio::time::sleep(AFTER_A_FAILURE).await;
                }
            }
        };
        diary.write(number, What::Entered);
        tokio::time::sleep(course.hold).await;
        diary.write(number, What::Left);
        if let Err(error) = client.release(proof).await {
            diary.write(number, What::Failed(error));
        }
        if !course.rest.is_zero() {
            tokio::time::sleep(course.rest).await;
        }
    }
}
