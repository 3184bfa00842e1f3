//! The host names that a local service accepts. A web page can point a name of its own at 127.0.0.1 and send requests there
//! (DNS rebinding). Such a request has that name in its `Host` header.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

/// The names that no web page can redirect. Addresses are always accepted.
const OWN: [&str; 2] = ["localhost", "host.docker.internal"];

/// Whether a request names this machine, by an address or by one of its names.
pub(crate) fn is_own(headers: &HeaderMap) -> bool {
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

/// Refuses a request for any other name with 403.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    if is_own(request.headers()) {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, REFUSAL).into_response()
    }
}

pub(crate) const REFUSAL: &str = "this local service answers to an address, to localhost and to host.docker.internal, and to no other name in the Host header\n";

#[cfg(test)]
mod tests {
    use super::*;

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
            let headers = HeaderMap::from_iter([(HOST, host.parse().expect("a header"))]);
            assert_eq!(is_own(&headers), own, "{host:?}");
        }
        assert!(!is_own(&HeaderMap::new()));
    }
}
