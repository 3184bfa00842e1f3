//! Step Functions as far as those in line need it: whoever waits with a task token is told once.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use leasehold_local::ExecutionState;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::Error;

/// What a task token is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// What acquire would have answered.
    Success(Value),
    /// The error's name.
    Failure(String),
}

/// The desk.
#[derive(Clone, Default)]
pub struct Desk(Arc<Mutex<HashMap<String, Option<oneshot::Sender<Word>>>>>);

impl Desk {
    /// Opens it on 127.0.0.1.
    ///
    /// # Errors
    /// [`Error::Start`] when no port can be bound.
    pub async fn open() -> Result<(Self, SocketAddr), Error> {
        let failed = |error: std::io::Error| Error::Start(error.to_string());
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let desk = Self::default();
        let router = Router::new()
            .route("/", post(answer))
            .with_state(desk.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok((desk, address))
    }

    /// Waits with this token. Whoever stops listening has hung up.
    #[must_use]
    pub fn wait(&self, token: &str) -> oneshot::Receiver<Word> {
        let (sender, receiver) = oneshot::channel();
        self.all().insert(token.to_owned(), Some(sender));
        receiver
    }

    /// Forgets all tokens.
    pub fn clear(&self) {
        self.all().clear();
    }

    fn tell(&self, token: &str, word: Word) -> Result<(), &'static str> {
        let mut all = self.all();
        let Some(waiting) = all.get_mut(token) else {
            return Err("InvalidToken");
        };
        match waiting.take().map(|waiting| waiting.send(word)) {
            Some(Ok(())) => Ok(()),
            _ => Err("TaskTimedOut"),
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Option<oneshot::Sender<Word>>>> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(
    State(desk): State<Desk>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let target = headers.get("x-amz-target").and_then(|t| t.to_str().ok());
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    let token = body["taskToken"].as_str().unwrap_or_default();
    let operation = target.and_then(|target| target.strip_prefix("AWSStepFunctions."));
    // It is asked for executions that are over only.
    let over = leasehold_local::execution(operation.unwrap_or_default(), &body, |_| {
        ExecutionState::Succeeded
    });
    if let Some(over) = over {
        return (StatusCode::OK, over.to_string());
    }
    let told = match target {
        Some("AWSStepFunctions.SendTaskSuccess") => {
            let output = body["output"].as_str().unwrap_or_default();
            let output = serde_json::from_str(output).unwrap_or_default();
            desk.tell(token, Word::Success(output))
        }
        Some("AWSStepFunctions.SendTaskFailure") => {
            let name = body["error"].as_str().unwrap_or_default();
            desk.tell(token, Word::Failure(name.to_owned()))
        }
        _ => Err("ExecutionDoesNotExist"),
    };
    match told {
        Ok(()) => (StatusCode::OK, "{}".to_owned()),
        Err(name) => {
            let error = json!({"__type": name, "message": "nobody waits with it"});
            (StatusCode::BAD_REQUEST, error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Desk, Word};

    #[test]
    fn a_token_is_told_once_and_only_while_somebody_waits() {
        let desk = Desk::default();
        let word = Word::Failure("Lease.QueueTimeout".to_owned());
        assert_eq!(desk.tell("a", word.clone()), Err("InvalidToken"));
        let mut waits = desk.wait("a");
        assert_eq!(desk.tell("a", word.clone()), Ok(()));
        assert_eq!(waits.try_recv(), Ok(word.clone()));
        assert_eq!(desk.tell("a", word.clone()), Err("TaskTimedOut"));
        drop(desk.wait("b"));
        assert_eq!(desk.tell("b", word), Err("TaskTimedOut"));
    }
}
