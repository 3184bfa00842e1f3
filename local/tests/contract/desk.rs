//! Step Functions, as far as our functions call it: a desk that writes down what is told to whom.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use leasehold_local::Options;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Clone, Default)]
pub struct Desk(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    told: Vec<Told>,
    /// Nobody waits with these.
    over: HashSet<String>,
    running: HashSet<String>,
    /// Everything is answered with this error of the service.
    out_of_order: Option<&'static str>,
}

/// One call that arrived: the operation, and what was sent.
pub struct Told {
    pub operation: String,
    pub body: Value,
}

impl Told {
    /// The text that ends a task well.
    pub fn output(&self) -> &str {
        assert_eq!(self.operation, "SendTaskSuccess");
        self.body["output"].as_str().unwrap()
    }
}

impl Desk {
    /// Opens it, and has every function call it.
    pub async fn open(options: &mut Options) -> Self {
        let desk = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/", post(answer))
            .with_state(desk.clone());
        tokio::spawn(axum::serve(listener, router).into_future());
        let everywhere = options.environment.entry("*".to_owned()).or_default();
        everywhere.insert("AWS_ENDPOINT_URL_SFN".to_owned(), Some(url));
        desk
    }

    /// What was told since this was last asked.
    pub fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.0.lock().unwrap().told)
    }

    /// The one who was told since.
    pub fn one(&self) -> Told {
        let mut told = self.told();
        assert_eq!(told.len(), 1);
        told.remove(0)
    }

    pub fn hang_up(&self, token: &str) {
        self.0.lock().unwrap().over.insert(token.to_owned());
    }

    pub fn run(&self, execution: &str) {
        self.0.lock().unwrap().running.insert(execution.to_owned());
    }

    pub fn out_of_order(&self, error: Option<&'static str>) {
        self.0.lock().unwrap().out_of_order = error;
    }
}

async fn answer(
    State(desk): State<Desk>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let target = headers["x-amz-target"].to_str().unwrap();
    let operation = target.strip_prefix("AWSStepFunctions.").unwrap().to_owned();
    let body: Value = serde_json::from_str(&body).unwrap();
    let mut book = desk.0.lock().unwrap();
    let refused = |status, name: &str| (status, json!({"__type": name, "message": "as asked"}));
    let (status, answer) = if let Some(error) = book.out_of_order {
        refused(StatusCode::INTERNAL_SERVER_ERROR, error)
    } else if operation == "DescribeExecution" {
        let arn = &body["executionArn"];
        if book.running.contains(arn.as_str().unwrap()) {
            let described = json!({
                "executionArn": arn,
                "stateMachineArn": arn,
                "startDate": 1_795_226_400,
                "status": "RUNNING",
            });
            (StatusCode::OK, described)
        } else {
            refused(StatusCode::BAD_REQUEST, "ExecutionDoesNotExist")
        }
    } else if book.over.contains(body["taskToken"].as_str().unwrap()) {
        refused(StatusCode::BAD_REQUEST, "TaskTimedOut")
    } else {
        book.told.push(Told { operation, body });
        (StatusCode::OK, json!({}))
    };
    (status, answer.to_string())
}
