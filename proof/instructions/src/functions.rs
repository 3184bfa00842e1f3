//! What the functions take: the real binaries, fed by a Runtime API of this program's.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use leasehold::Lease;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Error, TRIES,
    ground::{Ground, TABLE},
    io,
    runtime_api::RuntimeApi,
    tls::{self, Tls},
    valgrind::{self, Counted, Program},
};

/// A function, and what its invocations are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    sample: &'static str,
    about: About,
    /// How many requests an invocation sends.
    requests: u64,
}

/// What makes one invocation different from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// A key of its own.
    Key,
    /// A lease of its own, which is held.
    Lease,
    /// Nothing.
    Same,
}

/// All of them, with a sample event each.
pub const ALL: [Function; 8] = [
    of(
        "acquire",
        include_str!("../../../events/acquire.json"),
        About::Key,
        1,
    ),
    of(
        "extend",
        include_str!("../../../events/extend.json"),
        About::Lease,
        1,
    ),
    of(
        "release",
        include_str!("../../../events/release.json"),
        About::Lease,
        1,
    ),
    of(
        "sweep",
        include_str!("../../../events/sweep.json"),
        About::Same,
        4,
    ),
    of(
        "inspect",
        include_str!("../../../events/inspect.json"),
        About::Key,
        1,
    ),
    of(
        "operate",
        include_str!("../../../events/operate-freeze.json"),
        About::Key,
        2,
    ),
    of(
        "grant",
        include_str!("../../../events/grant.json"),
        About::Same,
        1,
    ),
    of(
        "reap",
        include_str!("../../../events/reap-succeeded.json"),
        About::Same,
        1,
    ),
];

const fn of(name: &'static str, sample: &'static str, about: About, requests: u64) -> Function {
    Function {
        name,
        sample,
        about,
        requests,
    }
}

/// A function's process, per invocation and before the first one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Invoked {
    /// Per invocation, once it is warm.
    pub warm: f64,
    /// From the start of the process to the end after one invocation, over plain HTTP, where one authority is
    /// trusted.
    pub first: u64,
}

/// A process that reaches the table by TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cold {
    /// From the start of the process to its end after one invocation: more than to its first request.
    pub instructions: u64,
    /// The same without an invocation: what falls into the start of a sandbox.
    pub started: u64,
    /// How many authorities it was told to trust.
    pub authorities: usize,
}

/// Counts a function that is served so many invocations, as `binary`.
///
/// # Errors
/// As [`valgrind::count`]; [`Error::Counting`] if an invocation fails; [`Error::TooSlow`].
pub async fn invoked(function: Function, binary: &Path, many: usize) -> Result<Invoked, Error> {
    let (first, all) = tokio::try_join!(
        plain(function, binary, 1),
        plain(function, binary, 1 + many),
    )?;
    Ok(Invoked {
        warm: valgrind::difference(first, all, many),
        first,
    })
}

/// How many leases are held, of whatever many invocations: sweep looks at all of them.
const ROWS: usize = 50;

async fn plain(function: Function, binary: &Path, many: usize) -> Result<u64, Error> {
    let mut failed = None;
    for _ in 0..TRIES {
        let ground = Ground::start().await?;
        let leases = ground.leases(ROWS).await?;
        let served = leases.get(..many).ok_or_else(|| {
            Error::Counting(format!("{many} invocations are more than there are leases"))
        })?;
        let place = tempfile::tempdir().map_err(io("create a temporary directory"))?;
        let trusted = place.path().join("authority.pem");
        tls::write_authority(&trusted)?;
        let table = BTreeMap::from([
            ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), ground.url()),
            // One authority: how many a machine trusts differs, and so would the counts.
            ("SSL_CERT_FILE".to_owned(), trusted.display().to_string()),
        ]);
        let instructions = serve(function, binary, served, table).await;
        if ground.requests() == function.requests * many as u64 {
            return instructions;
        }
        failed = instructions.err().or(failed);
    }
    Err(failed.unwrap_or_else(|| Error::TooSlow(function.name.to_owned())))
}

/// Counts a fresh process that serves one invocation, and one that serves none, with TLS between it and the table.
///
/// # Errors
/// As [`invoked`].
pub async fn cold(function: Function, binary: &Path) -> Result<Cold, Error> {
    let (instructions, authorities) = by_tls(function, binary, 1).await?;
    let (started, _) = by_tls(function, binary, 0).await?;
    Ok(Cold {
        instructions,
        started,
        authorities,
    })
}

/// The instructions, and how many authorities were trusted.
async fn by_tls(function: Function, binary: &Path, many: usize) -> Result<(u64, usize), Error> {
    for _ in 0..TRIES {
        let ground = Ground::start().await?;
        let leases = ground.leases(many).await?;
        let tls = Tls::start(ground.url().replace("http://", "")).await?;
        let place = tempfile::tempdir().map_err(io("create a temporary directory"))?;
        let trusted = place.path().join("authorities.pem");
        let authorities = tls::write_authorities(&trusted)?;
        let table = BTreeMap::from([
            ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), tls.url()),
            ("SSL_CERT_FILE".to_owned(), trusted.display().to_string()),
        ]);
        let instructions = serve(function, binary, &leases, table).await?;
        // Whoever opens none beforehand needs none without an invocation.
        if (many.min(1)..=1).contains(&tls.connections()) {
            return Ok((instructions, authorities));
        }
    }
    Err(Error::TooSlow(function.name.to_owned()))
}

async fn serve(
    function: Function,
    binary: &Path,
    leases: &[Lease],
    table: BTreeMap<String, String>,
) -> Result<u64, Error> {
    let events = leases
        .iter()
        .map(|lease| function.event(lease))
        .collect::<Result<Vec<_>, _>>()?;
    let many = events.len();
    let api = RuntimeApi::start(events).await?;
    let mut environment = surroundings(function.name, &api.address());
    environment.extend(table);
    let counted: Counted = valgrind::count(&Program {
        path: binary.to_owned(),
        arguments: Vec::new(),
        environment,
    })
    .await?;
    let answered = api.answers()?.len();
    if answered == many {
        return Ok(counted.in_any_case());
    }
    let name = function.name;
    Err(Error::Counting(format!(
        "{name} answered {answered} of {many} events"
    )))
}

impl Function {
    fn event(self, lease: &Lease) -> Result<String, Error> {
        let unreadable = |error: serde_json::Error| {
            let name = self.name;
            Error::Counting(format!("the sample event of {name}: {error}"))
        };
        let mut event: Value = serde_json::from_str(self.sample).map_err(unreadable)?;
        match self.about {
            About::Key if self.name == "acquire" => {
                event["key"] = json!(format!("fresh/{}", lease.key.as_str()));
            }
            About::Key => event["key"] = json!(lease.key.as_str()),
            About::Lease => event["lease"] = serde_json::to_value(lease).map_err(unreadable)?,
            About::Same => {}
        }
        Ok(event.to_string())
    }

    /// Where cargo-lambda puts it.
    #[must_use]
    pub fn built(self, built: &Path) -> PathBuf {
        built.join(self.name).join("bootstrap")
    }
}

/// What Lambda tells a function.
fn surroundings(name: &str, runtime_api: &str) -> BTreeMap<String, String> {
    [
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("AWS_SESSION_TOKEN", "local"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("AWS_LAMBDA_FUNCTION_NAME", name),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
        ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/counted"),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "counted"),
        ("AWS_LAMBDA_RUNTIME_API", runtime_api),
        ("LANG", "en_US.UTF-8"),
        ("LEASE_TABLE", TABLE),
        ("TZ", ":UTC"),
        ("_HANDLER", "bootstrap"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_event_is_about_what_it_is_to_be_about() {
        let ground = Ground::start().await.unwrap();
        let leases = ground.leases(2).await.unwrap();
        assert_eq!(ground.requests(), 0, "what is made ready is not counted");
        for function in ALL {
            let events: Vec<Value> = leases
                .iter()
                .map(|lease| serde_json::from_str(&function.event(lease).unwrap()).unwrap())
                .collect();
            let same = events[0] == events[1];
            assert_eq!(same, function.about == About::Same, "{}", function.name);
        }
        let lease = serde_json::to_value(&leases[1]).unwrap();
        let extend: Value = serde_json::from_str(&ALL[1].event(&leases[1]).unwrap()).unwrap();
        assert_eq!(extend["lease"], lease);
        let acquire: Value = serde_json::from_str(&ALL[0].event(&leases[1]).unwrap()).unwrap();
        assert_eq!(acquire["key"], "fresh/orders/0001", "nobody holds it");
    }

    #[test]
    fn all_that_a_machine_trusts_and_ours_are_counted() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("pem");
        tls::write_authority(&file).unwrap();
        let ours = std::fs::read_to_string(&file).unwrap();
        let all = tls::write_authorities(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.ends_with(&ours));
        assert_eq!(text.matches("BEGIN CERTIFICATE").count(), all);
    }
}
