//! As much of Lambda's Runtime API as one process needs that is to serve so many events and then to end: the host of the
//! local stack kills its sandboxes, and a process that is killed under valgrind tells no count.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Hands out events, one after the other; a call for one more learns that there are none.
pub(super) struct RuntimeApi {
    address: SocketAddr,
    served: Arc<Mutex<Served>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Served {
    events: VecDeque<String>,
    answers: usize,
    errors: Vec<String>,
}

type Shared = Arc<Mutex<Served>>;

fn lock(served: &Shared) -> MutexGuard<'_, Served> {
    // Nothing panics while it holds the lock.
    served.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RuntimeApi {
    pub(super) async fn start(events: Vec<String>) -> Self {
        let served = Arc::new(Mutex::new(Served {
            events: events.into(),
            ..Served::default()
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answered = async |State(served): State<Shared>| {
            lock(&served).answers += 1;
            StatusCode::ACCEPTED
        };
        let erred = async |State(served): State<Shared>, body: String| {
            lock(&served).errors.push(body);
            StatusCode::ACCEPTED
        };
        let base = "/2018-06-01/runtime";
        let routes = Router::new()
            .route(&format!("{base}/invocation/next"), get(next))
            .route(
                &format!("{base}/invocation/{{request}}/response"),
                post(answered),
            )
            .route(&format!("{base}/invocation/{{request}}/error"), post(erred))
            .route(&format!("{base}/init/error"), post(erred))
            .with_state(Arc::clone(&served));
        let serving = tokio::spawn(async move {
            // Ends with this value only.
            let _ = axum::serve(listener, routes).await;
        });
        Self {
            address,
            served,
            serving,
        }
    }

    /// What a process finds it by.
    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    /// How many answers there were, if no event failed.
    pub(super) fn answers(&self) -> Result<usize, String> {
        let served = lock(&self.served);
        match served.errors.first() {
            None => Ok(served.answers),
            Some(error) => Err(format!("an event failed: {error}")),
        }
    }
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn next(State(served): State<Shared>) -> Result<Response<Body>, StatusCode> {
    let event = lock(&served).events.pop_front().ok_or(StatusCode::GONE)?;
    // A minute from now: under valgrind a second is short.
    let deadline = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |now| now.as_millis() + 60_000);
    Response::builder()
        .header("content-type", "application/json")
        .header(
            "lambda-runtime-aws-request-id",
            "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
        )
        .header("lambda-runtime-deadline-ms", deadline.to_string())
        .header(
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:us-east-1:123456789012:function:counted",
        )
        .header(
            "lambda-runtime-trace-id",
            "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0",
        )
        .body(Body::from(event))
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
