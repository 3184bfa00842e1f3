//! As much of Lambda's Runtime API as one process needs that is to serve so many events and then to end: the host of the
//! local stack kills its sandboxes, and a process that is killed under valgrind tells no count.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::{Response, StatusCode},
    routing::{get, post},
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{Error, io};

/// Hands out events, one after the other; who asks for one more is told that it is over.
#[derive(Debug)]
pub(crate) struct RuntimeApi {
    address: SocketAddr,
    told: Arc<Mutex<Told>>,
    serving: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Told {
    events: VecDeque<String>,
    answers: Vec<String>,
    errors: Vec<String>,
}

impl RuntimeApi {
    pub(crate) async fn start(events: Vec<String>) -> Result<Self, Error> {
        let told = Arc::new(Mutex::new(Told {
            events: events.into(),
            ..Told::default()
        }));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(io("bind a port for Lambda's Runtime API"))?;
        let address = listener.local_addr().map_err(io("read the port"))?;
        let base = "/2018-06-01/runtime";
        let routes = Router::new()
            .route(&format!("{base}/invocation/next"), get(next))
            .route(
                &format!("{base}/invocation/{{request}}/response"),
                post(response),
            )
            .route(&format!("{base}/invocation/{{request}}/error"), post(error))
            .route(&format!("{base}/init/error"), post(init_error))
            .with_state(Arc::clone(&told));
        let serving = tokio::spawn(async move {
            // Ends with this value only.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self {
            address,
            told,
            serving,
        })
    }

    /// What a process finds it by.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// The answers, if every event had one and none was an error.
    pub(crate) fn answers(&self) -> Result<Vec<String>, Error> {
        let mut told = lock(&self.told);
        if let Some(error) = told.errors.first() {
            return Err(Error::Counting(format!("an event failed: {error}")));
        }
        if !told.events.is_empty() {
            let left = told.events.len();
            return Err(Error::Counting(format!("{left} events were not asked for")));
        }
        Ok(std::mem::take(&mut told.answers))
    }
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

type Shared = State<Arc<Mutex<Told>>>;

fn lock(told: &Mutex<Told>) -> std::sync::MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn next(State(told): Shared) -> Result<Response<Body>, StatusCode> {
    let event = lock(&told).events.pop_front().ok_or(StatusCode::GONE)?;
    Response::builder()
        .header("content-type", "application/json")
        .header(
            "lambda-runtime-aws-request-id",
            "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
        )
        .header("lambda-runtime-deadline-ms", deadline().to_string())
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

/// A minute from now: under valgrind a second is short.
#[expect(
    clippy::disallowed_methods,
    reason = "a function compares it with the machine's clock"
)]
fn deadline() -> u128 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |now| now.as_millis() + 60_000)
}

async fn response(State(told): Shared, Path(_): Path<String>, body: String) -> StatusCode {
    lock(&told).answers.push(body);
    StatusCode::ACCEPTED
}

async fn error(State(told): Shared, Path(_): Path<String>, body: String) -> StatusCode {
    lock(&told).errors.push(body);
    StatusCode::ACCEPTED
}

async fn init_error(State(told): Shared, body: String) -> StatusCode {
    lock(&told).errors.push(body);
    StatusCode::ACCEPTED
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[allow(clippy::unwrap_used, reason = "a test's own function")]
    async fn ask(api: &RuntimeApi, method: &str, path: &str, body: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(api.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{method} /2018-06-01/runtime/{path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn events_come_in_order_and_after_the_last_it_is_over() {
        let api = RuntimeApi::start(vec!["1".to_owned(), "2".to_owned()])
            .await
            .unwrap();
        for event in ["1", "2"] {
            let told = ask(&api, "GET", "invocation/next", "").await;
            assert!(
                told.starts_with("HTTP/1.1 200") && told.ends_with(event),
                "{told}"
            );
            ask(&api, "POST", "invocation/x/response", event).await;
        }
        assert!(
            ask(&api, "GET", "invocation/next", "")
                .await
                .starts_with("HTTP/1.1 410")
        );
        assert_eq!(api.answers().unwrap(), ["1", "2"]);
    }

    #[tokio::test]
    async fn an_event_that_failed_or_that_nobody_took_is_told() {
        let api = RuntimeApi::start(vec!["1".to_owned()]).await.unwrap();
        let told = api.answers().unwrap_err().to_string();
        assert_eq!(told, "1 events were not asked for");
        ask(&api, "POST", "invocation/x/error", "Lease.Lost").await;
        let told = api.answers().unwrap_err().to_string();
        assert_eq!(told, "an event failed: Lease.Lost");
    }
}
