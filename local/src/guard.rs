//! The guard of every listener. What listens on this machine can be reached by any web page in a browser here, also by a name of the
//! page's own that points at 127.0.0.1 (DNS rebinding), and by other users. So a request is answered only if no page sent it, if it is
//! for this machine, and if it has the session token of this start. Signatures are not verified.

use std::net::IpAddr;
use std::sync::LazyLock;

use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

/// The names that no web page can redirect. Addresses are always accepted.
const OWN: [&str; 2] = ["localhost", "host.docker.internal"];

/// 128 random bits.
static TOKEN: LazyLock<String> = LazyLock::new(|| {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).expect("the operating system gives random bytes");
    format!("{:032x}", u128::from_ne_bytes(bits))
});

/// The session token that the local services of this process demand. Every other part of the credentials may be anything; an access
/// key id that is a role's name makes its requests the role's.
#[must_use]
pub fn session_token() -> &'static str {
    &TOKEN
}

/// The first parts of the path of the requests of Lambda's runtimes, which sign nothing.
pub(crate) fn runtime_path() -> String {
    format!("/.rt/{}", session_token())
}

/// Why a request is refused, if it is.
pub(crate) fn refusal(path: &str, headers: &HeaderMap) -> Option<&'static str> {
    if !is_own_host(headers) {
        return Some(
            "this local service answers to an address, to localhost and to host.docker.internal, and to no other name in the Host header",
        );
    }
    // No program but a browser sends these. `none` is a person's own request; `same-site` is a page at another port.
    let site = headers.get("sec-fetch-site");
    if headers.contains_key(ORIGIN)
        || site.is_some_and(|site| site != "none" && site != "same-origin")
    {
        return Some(
            "this local service answers no web page: send no Origin, and no Sec-Fetch-Site",
        );
    }
    let has_token = headers
        .get("x-amz-security-token")
        .is_some_and(|token| token == session_token());
    let is_runtime = || {
        path.strip_prefix(&*runtime_path())
            .is_some_and(|rest| rest.starts_with('/'))
    };
    if !has_token && !is_runtime() {
        return Some(
            "this local service answers only to the session token of its start, in X-Amz-Security-Token: read env.sh again, which has AWS_SESSION_TOKEN",
        );
    }
    None
}

/// Whether a request names this machine, by an address or by one of its names.
fn is_own_host(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let Some(host) = host else {
        // HTTP/1.1 requires the header, and every browser sends it.
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok() || OWN.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// The refusal in the words of a service, which every client shows.
pub(crate) fn refused(why: &str) -> Value {
    json!({"__type": "AccessDeniedException", "message": why})
}

/// Refuses every other request with 403.
pub async fn check(request: Request, next: Next) -> Response {
    match refusal(request.uri().path(), request.headers()) {
        Some(why) => {
            let kind = [(CONTENT_TYPE, "application/x-amz-json-1.0")];
            (StatusCode::FORBIDDEN, kind, refused(why).to_string()).into_response()
        }
        None => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(changed: (&'static str, &str)) -> HeaderMap {
        let own = [
            ("host", "127.0.0.1:8000"),
            ("x-amz-security-token", session_token()),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in own.into_iter().chain([changed]) {
            headers.insert(name, value.parse().expect("a header"));
        }
        headers
    }

    #[test]
    fn addresses_and_own_names_are_answered_and_no_others() {
        for (host, own) in [
            ("127.0.0.1:8000", true),
            ("172.17.0.1:8000", true),
            ("[::1]:8000", true),
            ("localhost", true),
            ("LocalHost:80", true),
            ("host.docker.internal:8000", true),
            ("example.org:8000", false),
            ("127.0.0.1.example.org", false),
            ("localhost.example.org:8000", false),
            ("", false),
        ] {
            let headers = request(("host", host));
            assert_eq!(refusal("/", &headers).is_none(), own, "{host:?}");
        }
        assert!(refusal("/", &HeaderMap::new()).is_some());
    }

    #[test]
    fn what_a_web_page_sends_is_refused() {
        for (name, value, allowed) in [
            ("origin", "https://example.org", false),
            ("origin", "null", false),
            ("origin", "http://127.0.0.1:8000", false),
            ("sec-fetch-site", "cross-site", false),
            ("sec-fetch-site", "same-site", false),
            ("sec-fetch-site", "none", true),
        ] {
            let headers = request((name, value));
            assert_eq!(refusal("/", &headers).is_none(), allowed, "{name}: {value}");
        }
    }

    #[test]
    fn only_the_session_token_of_this_start_is_answered() {
        let own = session_token();
        for (token, allowed) in [
            (own, true),
            ("local", false),
            (&own[1..], false),
            (&*format!("{own}0"), false),
            ("", false),
        ] {
            let headers = request(("x-amz-security-token", token));
            assert_eq!(refusal("/", &headers).is_none(), allowed, "{token}");
        }
    }

    #[test]
    fn a_lambda_runtime_has_the_session_token_in_its_path() {
        let headers = HeaderMap::from_iter([(HOST, "127.0.0.1".parse().expect("a header"))]);
        let path = format!("{}/AcquireFunction-0/2018-06-01", runtime_path());
        assert!(refusal(&path, &headers).is_none());
        let guessed = path.replace(session_token(), "local");
        assert!(refusal(&guessed, &headers).is_some());
        assert!(refusal(&runtime_path(), &headers).is_some());
    }
}
