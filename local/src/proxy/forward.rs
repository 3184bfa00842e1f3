//! One connection of the proxy: it reads, counts and forwards requests, and responds or not.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::Wire;
use super::fault::Fault;
use super::units::{self, Units};
use crate::guard;

/// The body of a response, whole or cut in half.
type AnswerBody = Either<Full<Bytes>, Channel<Bytes, std::io::Error>>;

/// How long the first half of a response has to be sent before the connection breaks.
const FLUSH: Duration = Duration::from_millis(10);

/// Why a request gets no response. Hyper then drops the connection, as the fault requires.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("injected: the connection is lost")]
    Lost,
    #[error("the request could not be read")]
    Unreadable(#[from] hyper::Error),
}

pub(super) async fn serve(stream: TcpStream, wire: Arc<Wire>) {
    // Without it, the small writes of a keep-alive connection wait for the peer's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let service = {
        let reset = Arc::clone(&reset);
        service_fn(move |request| handle(request, Arc::clone(&wire), Arc::clone(&reset)))
    };
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // An error is an injected fault or a client that disconnected. Neither needs a log line.
    let _ = Pin::new(&mut connection).await;
    if reset.load(Ordering::Relaxed) {
        // Closing a socket that lingers for zero seconds sends RST instead of FIN.
        let _ = connection.into_parts().io.into_inner().set_zero_linger();
    }
}

async fn handle(
    request: Request<Incoming>,
    wire: Arc<Wire>,
    reset: Arc<AtomicBool>,
) -> Result<Response<AnswerBody>, NoAnswer> {
    let (mut head, body) = request.into_parts();
    if let Some(why) = guard::refusal(head.uri.path(), &head.headers) {
        return Ok(error_response(StatusCode::FORBIDDEN, &guard::refused(why)));
    }
    let body = body.collect().await?.to_bytes();
    let target = head
        .headers
        .get("x-amz-target")
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
        .to_owned();
    let operation = target.rsplit('.').next().unwrap_or("").to_owned();
    wire.learn(&body);
    if let Some(roles) = wire.roles.get()
        && let Err(message) = roles.judge(&head.headers, &target, &body)
    {
        return Ok(denied(&message));
    }
    let (fault, latency) = wire.state().receive(&operation, &body);
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    match fault {
        Some(Fault::LoseRequest) => return Err(NoAnswer::Lost),
        Some(Fault::Hang) => return std::future::pending().await,
        Some(Fault::LateRequest) => {
            tokio::spawn(async move {
                tokio::time::sleep(Fault::LATE).await;
                // Nobody waits for its outcome.
                let _ = forward(head, body, &wire).await;
            });
            return Err(NoAnswer::Lost);
        }
        Some(fault @ (Fault::Throttle | Fault::Conflict | Fault::ServerError | Fault::Denied)) => {
            return refuse(fault, &target, &body);
        }
        _ => {}
    }

    // Outside the lock, because the rewriting function may be slow or panic.
    let rewriting = wire.state().rewriting.clone();
    let other = rewriting.and_then(|rewrite| rewrite(&operation, &body));
    let meant = other.map_or_else(|| body.clone(), Bytes::from);
    let counts_units = wire.counts_units.load(Ordering::Relaxed);
    let asking = counts_units
        .then(|| units::ask(&operation, &meant))
        .flatten();
    let asked = asking.is_some();
    let sent = asking.unwrap_or(meant);
    if sent != body {
        head.headers.remove(CONTENT_LENGTH);
    }
    let answer = match forward(head, sent, &wire).await {
        Ok(answer) => answer,
        Err((status, text)) => return Ok(plain(status, &text)),
    };
    let (head, answered) = answer.into_parts();
    let answered = answered.collect().await?.to_bytes();
    let (bytes, units) = if counts_units {
        let added = if asked { units::added(&answered) } else { 0 };
        (answered.len() - added, Units::of(&operation, &answered))
    } else {
        (answered.len(), Units::default())
    };
    wire.state().counts.answer(&operation, bytes, units);
    wire.learn(&answered);

    match fault {
        Some(Fault::LoseAnswer) => Err(NoAnswer::Lost),
        Some(Fault::ResetAnswer) => {
            reset.store(true, Ordering::Relaxed);
            Err(NoAnswer::Lost)
        }
        Some(Fault::HangAnswer) => std::future::pending().await,
        Some(fault @ Fault::FailAnswer) => refuse(fault, &target, &body),
        Some(Fault::HalfAnswer) => {
            let mut half = Response::from_parts(head, half(&answered));
            // The header has the whole length, so that the client sees that a part is missing.
            half.headers_mut()
                .insert(CONTENT_LENGTH, answered.len().into());
            Ok(half)
        }
        _ => Ok(Response::from_parts(
            head,
            Either::Left(Full::new(answered)),
        )),
    }
}

/// The first half of a body, after which the connection breaks.
fn half(whole: &Bytes) -> AnswerBody {
    let (mut sender, body) = Channel::new(1);
    let first = whole.slice(..whole.len() / 2);
    tokio::spawn(async move {
        let _ = sender.send_data(first).await;
        tokio::time::sleep(FLUSH).await;
        let cut = "injected: the answer was cut in half";
        sender.abort(std::io::Error::other(cut));
    });
    Either::Right(body)
}

/// Forwards a request to the upstream, and returns the response.
async fn forward(
    mut head: Parts,
    body: Bytes,
    wire: &Wire,
) -> Result<Response<Incoming>, (StatusCode, String)> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let Some(upstream) = wire.upstream.get() else {
        let text = "the upstream of the proxy has not started".to_owned();
        return Err((StatusCode::BAD_GATEWAY, text));
    };
    let uri = format!("http://{upstream}{path}").parse::<Uri>();
    head.uri = uri.map_err(|_| {
        let text = "the request's path is not a path".to_owned();
        (StatusCode::BAD_REQUEST, text)
    })?;
    let request = Request::from_parts(head, Full::new(body));
    wire.client.request(request).await.map_err(|error| {
        let text = format!("the upstream of the proxy: {error}");
        (StatusCode::BAD_GATEWAY, text)
    })
}

fn refuse(fault: Fault, target: &str, body: &[u8]) -> Result<Response<AnswerBody>, NoAnswer> {
    let (status, error) = fault.refusal(target, body).ok_or(NoAnswer::Lost)?;
    Ok(error_response(status, &error))
}

fn denied(message: &str) -> Response<AnswerBody> {
    let name = "com.amazon.coral.service#AccessDeniedException";
    let error = json!({"__type": name, "Message": message, "message": message});
    error_response(StatusCode::BAD_REQUEST, &error)
}

/// An error in the form of both services.
fn error_response(status: StatusCode, error: &Value) -> Response<AnswerBody> {
    let mut response = plain(status, &error.to_string());
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-amz-json-1.0"),
    );
    // The service always sends one, and some clients depend on it.
    response
        .headers_mut()
        .insert("x-amzn-requestid", HeaderValue::from_static("INJECTED"));
    response
}

fn plain(status: StatusCode, text: &str) -> Response<AnswerBody> {
    let mut response = Response::new(Either::Left(Full::from(text.to_owned())));
    *response.status_mut() = status;
    response
}
