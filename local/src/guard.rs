//! What guards every listener of a stack: the session token of its start. Signatures are not verified.

use std::sync::LazyLock;

use leasehold_net::{Guard, Place, Site};

/// 128 random bits.
static TOKEN: LazyLock<String> = LazyLock::new(|| {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).expect("the operating system gives random bytes");
    format!("{:032x}", u128::from_ne_bytes(bits))
});

/// Where SDKs and the AWS CLI put a session token.
const SIGNED: Place = Place::Header("x-amz-security-token");

/// Where Lambda's runtimes, which sign nothing, are told to go.
const RUNTIMES: &str = "/.rt/";

/// The session token that the local services of this process demand. Every other part of the credentials may be anything; an access
/// key id that is a role's name makes its requests the role's.
#[must_use]
pub fn session_token() -> &'static str {
    &TOKEN
}

/// The first parts of the path of the requests of Lambda's runtimes.
pub(crate) fn runtime_path() -> String {
    format!("{RUNTIMES}{}", session_token())
}

/// The guard of a service that SDKs call.
#[must_use]
pub fn guard() -> Guard {
    Guard {
        hosts: &["localhost", "host.docker.internal"],
        site: Site::NoPage,
        secret: session_token().to_owned(),
        places: vec![SIGNED],
        advice: "the session token of its start, in X-Amz-Security-Token: read env.sh again, which has AWS_SESSION_TOKEN",
    }
}

/// The guard of Lambda, which also serves the runtimes of its functions.
pub(crate) fn guard_of_lambda() -> Guard {
    Guard {
        places: vec![SIGNED, Place::Path(RUNTIMES.into())],
        ..guard()
    }
}
