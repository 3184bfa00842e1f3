//! Hands the handler the event's text, whatever it is. The runtime would parse it first, and
//! would name a Rust type in the error.

use std::task::{Context, Poll};

use lambda_runtime::{
    LambdaInvocation,
    tower::{Layer, Service},
};

/// Not UTF-8, not JSON: no text at all is refused in the same way.
pub(super) fn text(event: &[u8]) -> &str {
    std::str::from_utf8(event).unwrap_or_default()
}

/// Wraps the event's text as a JSON string, which always parses.
pub(super) struct AsText;

impl<S> Layer<S> for AsText {
    type Service = AsTextService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AsTextService(inner)
    }
}

pub(super) struct AsTextService<S>(S);

impl<S: Service<LambdaInvocation>> Service<LambdaInvocation> for AsTextService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut invocation: LambdaInvocation) -> Self::Future {
        let text = text(&invocation.body);
        invocation.body = serde_json::Value::from(text).to_string().into();
        self.0.call(invocation)
    }
}
