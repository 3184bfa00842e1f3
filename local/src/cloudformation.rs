//! A `CloudFormation` endpoint that lists the resources of a stack.
//!
//! It uses the service's Query protocol: a form in, XML out. One page has all resources.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;

use crate::arn;
use crate::template::ListedResource;

const NAMESPACE: &str = "http://cloudformation.amazonaws.com/doc/2010-05-15/";

pub(crate) fn routes(listed: &[ListedResource]) -> Router {
    let listed: Arc<[ListedResource]> = listed.into();
    Router::new()
        .route("/cloudformation", post(answer))
        .route("/cloudformation/", post(answer))
        .with_state(listed)
}

type Xml = (StatusCode, [(HeaderName, &'static str); 1], String);

async fn answer(
    State(listed): State<Arc<[ListedResource]>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    // Of a service with another protocol.
    if headers.contains_key("x-amz-target") {
        let json = [(header::CONTENT_TYPE, "application/x-amz-json-1.1")];
        let body = r#"{"__type":"UnknownOperationException"}"#;
        return (StatusCode::BAD_REQUEST, json, body).into_response();
    }
    list(&listed, &body).into_response()
}

fn list(listed: &[ListedResource], body: &str) -> Xml {
    let form: BTreeMap<String, String> = form_urlencoded::parse(body.as_bytes())
        .into_owned()
        .collect();
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    if field("Action") != "ListStackResources" {
        let message = format!("The action {} is not valid here", field("Action"));
        return refuse("InvalidAction", &message);
    }
    let asked = field("StackName");
    let members: Vec<_> = listed
        .iter()
        .filter(|one| one.stack == asked || arn::stack(&one.stack) == asked)
        .collect();
    if members.is_empty() {
        let message = format!("Stack with id {asked} does not exist");
        return refuse("ValidationError", &message);
    }
    let mut body = String::new();
    for one in members {
        let _ = write!(
            body,
            "<member><LogicalResourceId>{}</LogicalResourceId><PhysicalResourceId>{}</PhysicalResourceId>\
             <ResourceType>{}</ResourceType><LastUpdatedTimestamp>2026-01-01T00:00:00Z</LastUpdatedTimestamp>\
             <ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>",
            escaped(&one.logical_id),
            escaped(&one.physical_id),
            escaped(&one.kind),
        );
    }
    let body = format!(
        "<ListStackResourcesResponse xmlns=\"{NAMESPACE}\"><ListStackResourcesResult>\
         <StackResourceSummaries>{body}</StackResourceSummaries></ListStackResourcesResult>\
         <ResponseMetadata><RequestId>local</RequestId></ResponseMetadata></ListStackResourcesResponse>"
    );
    xml(StatusCode::OK, body)
}

fn refuse(code: &str, message: &str) -> Xml {
    let body = format!(
        "<ErrorResponse xmlns=\"{NAMESPACE}\"><Error><Type>Sender</Type><Code>{code}</Code>\
         <Message>{}</Message></Error><RequestId>local</RequestId></ErrorResponse>",
        escaped(message)
    );
    xml(StatusCode::BAD_REQUEST, body)
}

fn xml(status: StatusCode, text: String) -> Xml {
    (status, [(header::CONTENT_TYPE, "text/xml")], text)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
