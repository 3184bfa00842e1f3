//! The guard of a listener. What listens on this machine can be reached by any web page in a browser here, also by a name of the page's
//! own that points at 127.0.0.1 (DNS rebinding), and by other users. So a request is answered only if it is for this machine, if no
//! foreign page sent it, and if it shows the secret of this start.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::http::header::{CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};

/// Which requests a service answers.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The names in the Host header that no web page can redirect. Addresses are always accepted.
    pub hosts: &'static [&'static str],
    /// Which web pages are answered.
    pub site: Site,
    /// What every request has to show.
    pub secret: String,
    /// Where a request may show it; one place is enough.
    pub places: Vec<Place>,
    /// What to tell who does not show it.
    pub advice: &'static str,
}

/// Which web pages a service answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// None: it is for programs.
    NoPage,
    /// Its own.
    SameOrigin,
}

/// Where a request shows the secret.
#[derive(Clone, Debug)]
pub enum Place {
    /// In the header of this name.
    Header(&'static str),
    /// In the path, as the part between this beginning and the next slash: for programs that sign nothing.
    Path(Cow<'static, str>),
    /// In the cookie of this name.
    Cookie(&'static str),
}

impl Guard {
    /// Why a request is refused, if it is. Its body is not needed.
    fn refusal(&self, path: &str, headers: &HeaderMap) -> Option<String> {
        if !self.is_own_host(headers) {
            let names = self.hosts.join(", ");
            return Some(format!(
                "this local service answers to an address, {names}, and to no other name in the Host header"
            ));
        }
        if !self.site.allows(headers) {
            return Some(match self.site {
                Site::NoPage => {
                    "this local service answers no web page: send no Origin, and no Sec-Fetch-Site"
                }
                Site::SameOrigin => "this local service answers no web page but its own",
            }
            .to_owned());
        }
        let is_shown = self
            .places
            .iter()
            .any(|place| place.shows(path, headers) == Some(&self.secret));
        (!is_shown).then(|| format!("this local service answers only to {}", self.advice))
    }

    /// The response to a request that is refused: a text for people, or in the words of AWS's services, which every client shows.
    pub(crate) fn refuse(&self, path: &str, headers: &HeaderMap) -> Option<Response> {
        let why = self.refusal(path, headers)?;
        if self.site == Site::SameOrigin {
            return Some((StatusCode::FORBIDDEN, why).into_response());
        }
        let kind = [(CONTENT_TYPE, "application/x-amz-json-1.0")];
        let body = format!("{{\"__type\":\"AccessDeniedException\",\"message\":{why:?}}}");
        Some((StatusCode::FORBIDDEN, kind, body).into_response())
    }

    /// Whether a request names this machine, by an address or by one of its names.
    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        // HTTP/1.1 requires the header, and every browser sends it.
        let Some(host) = text(headers, HOST.as_str()) else {
            return false;
        };
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let address = name.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

impl Site {
    /// No program but a browser sends these headers. `none` is a person's own request; `same-site` is a page at another port.
    fn allows(self, headers: &HeaderMap) -> bool {
        let site = headers.get("sec-fetch-site");
        let own_site = site.is_none_or(|site| site == "none" || site == "same-origin");
        own_site
            && match (self, headers.get(ORIGIN)) {
                (_, None) => true,
                (Self::NoPage, Some(_)) => false,
                (Self::SameOrigin, Some(origin)) => {
                    let own = text(headers, HOST.as_str()).map(|host| format!("http://{host}"));
                    own.is_some_and(|own| origin == own.as_str())
                }
            }
    }
}

impl Place {
    fn shows<'a>(&self, path: &'a str, headers: &'a HeaderMap) -> Option<&'a str> {
        match self {
            Self::Header(name) => text(headers, name),
            Self::Path(beginning) => Some(path.strip_prefix(&**beginning)?.split_once('/')?.0),
            Self::Cookie(name) => {
                let mut cookies = text(headers, COOKIE.as_str())?.split("; ");
                cookies.find_map(|cookie| cookie.strip_prefix(name)?.strip_prefix('='))
            }
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [Place; 3] = [
        Place::Header("x-secret"),
        Place::Path(Cow::Borrowed("/.own/")),
        Place::Cookie("secret"),
    ];

    fn guard(site: Site, places: &[Place]) -> Guard {
        Guard {
            hosts: &["localhost", "host.docker.internal"],
            site,
            secret: "sesame".to_owned(),
            places: places.to_vec(),
            advice: "its secret",
        }
    }

    fn request(changed: (&'static str, &str)) -> HeaderMap {
        let own = [("host", "127.0.0.1:8000"), ("x-secret", "sesame")];
        let mut headers = HeaderMap::new();
        for (name, value) in own.into_iter().chain([changed]) {
            headers.insert(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn foreign_hosts_are_refused() {
        let guard = guard(Site::NoPage, &PLACES[..1]);
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
            assert_eq!(guard.refusal("/", &headers).is_none(), own, "{host:?}");
        }
        assert!(guard.refusal("/", &HeaderMap::new()).is_some());
    }

    #[test]
    fn foreign_pages_are_refused() {
        for (name, value, by_programs, by_own_page) in [
            ("origin", "https://example.org", false, false),
            ("origin", "null", false, false),
            ("origin", "http://127.0.0.1:8000", false, true),
            ("origin", "http://127.0.0.1:8001", false, false),
            ("sec-fetch-site", "cross-site", false, false),
            ("sec-fetch-site", "same-site", false, false),
            ("sec-fetch-site", "same-origin", true, true),
            ("sec-fetch-site", "none", true, true),
        ] {
            let headers = request((name, value));
            for (site, allowed) in [(Site::NoPage, by_programs), (Site::SameOrigin, by_own_page)] {
                let refusal = guard(site, &PLACES).refusal("/", &headers);
                assert_eq!(refusal.is_none(), allowed, "{site:?} {name}: {value}");
            }
        }
    }

    #[test]
    fn secret_counts_in_allowed_places() {
        let host = ("host", "localhost");
        let nowhere = ("x-other", "sesame");
        for (path, header, places) in [
            ("/", ("x-secret", "sesame"), &PLACES[..1]),
            ("/.own/sesame/a", nowhere, &PLACES[1..2]),
            ("/", ("cookie", "a=b; secret=sesame; c=d"), &PLACES[2..]),
        ] {
            let shown = |path: &str, header: (&'static str, &str), places: &[Place]| {
                let mut headers = HeaderMap::new();
                for (name, value) in [host, header] {
                    headers.insert(name, value.parse().unwrap());
                }
                guard(Site::NoPage, places)
                    .refusal(path, &headers)
                    .is_none()
            };
            assert!(shown(path, header, places), "{path} {header:?}");
            assert!(shown(path, header, &PLACES), "{path} {header:?}");
            for wrong in ["sesam", "sesames", ""] {
                let (name, value) = header;
                let (path, value) = (
                    path.replace("sesame", wrong),
                    value.replace("sesame", wrong),
                );
                assert!(!shown(&path, (name, &value), &PLACES), "{path} {value}");
            }
        }
        let elsewhere = guard(Site::NoPage, &PLACES[1..]).refusal("/", &request(host));
        assert!(
            elsewhere.is_some(),
            "a header, where only others are allowed"
        );
    }
}
