//! The connection to the table: profile, Region, endpoint and credentials, found as the AWS CLI finds them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{
    Credentials,
    provider::{ProvideCredentials, SharedCredentialsProvider, error::CredentialsError, future},
};
use clap::Args;
use leasehold::{
    Clock as _, Connection, DynamoDb, Environment, Leases, Settings, StartRules, SystemClock,
    Timestamp,
};

use crate::exit::{Code, Failure, in_full};
use crate::{clock_warning, environment};

/// Timeout for finding credentials. It is long because a credential process may ask a person.
const FINDING: Duration = Duration::from_secs(60);

/// The options that locate the table.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Where the table is")]
pub(crate) struct TableArgs {
    /// Name or ARN of the table [default: `LEASE_TABLE`]
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Profile of the AWS CLI's files [default: `AWS_PROFILE`]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Region [default: `AWS_REGION`, or the profile's]
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// Endpoint of DynamoDB [default: the Region's]
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint_url: Option<String>,
}

/// A connection to the table.
pub(crate) struct TableClient {
    pub(crate) leases: Leases<DynamoDb>,
    pub(crate) starts: StartRules,
    pub(crate) settings: Settings,
    pub(crate) config: SdkConfig,
    pub(crate) table: String,
    pub(crate) credentials: Arc<CachedCredentials>,
}

impl TableArgs {
    /// Finds the table's name, Region, endpoint and credentials. Sends no request to the table.
    pub(crate) async fn connect(&self) -> Result<TableClient, Failure> {
        let environment = self.environment()?;
        clock_warning::listen(environment.settings.clock_margin);
        let (config, credentials) = self.sign_in().await?;
        let store = DynamoDb::new(Connection::client(&config), environment.table.clone());
        let leases =
            Leases::new(store, environment.settings).with_executions(environment.executions);
        Ok(TableClient {
            leases: if environment.owns_rules {
                leases
            } else {
                leases.with_table_rules()
            },
            starts: environment.starts,
            settings: environment.settings,
            config,
            table: environment.table,
            credentials,
        })
    }

    /// The same options again, for a command that a person copies.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        let options = [
            ("--table", &self.table),
            ("--profile", &self.profile),
            ("--region", &self.region),
            ("--endpoint-url", &self.endpoint_url),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some([name, value.as_deref()?]));
        given.flatten()
    }

    /// Finds Region and credentials, for any service.
    pub(crate) async fn sign_in(&self) -> Result<(SdkConfig, Arc<CachedCredentials>), Failure> {
        let config = self.config().await?;
        let credentials = Arc::new(CachedCredentials::of(&config).await?);
        let provider: Arc<dyn ProvideCredentials> = Arc::clone(&credentials) as _;
        let config = config
            .into_builder()
            .credentials_provider(SharedCredentialsProvider::new(provider))
            .build();
        Ok((config, credentials))
    }

    /// Reads the functions' environment variables. `--table` takes precedence over `LEASE_TABLE`.
    fn environment(&self) -> Result<Environment, Failure> {
        let lookup = |name: &str| match (name, &self.table) {
            ("LEASE_TABLE", Some(table)) => Some(table.clone()),
            // Everybody who has the right to start it may start it, unless there is a list.
            ("LEASE_STARTS", _) => environment::text(name).or_else(|| Some("*".to_owned())),
            _ => environment::text(name),
        };
        if lookup("LEASE_TABLE").is_none() {
            let failure = Failure::new(Code::UNREACHABLE, "no table is named");
            return Err(failure.advice("use --table NAME, or set LEASE_TABLE"));
        }
        let read = Environment::from(lookup);
        read.map_err(|error| Failure::new(Code::UNREACHABLE, in_full(&error)))
    }

    async fn config(&self) -> Result<SdkConfig, Failure> {
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12());
        if let Some(profile) = &self.profile {
            // `--profile` takes precedence over the environment, whose credentials may belong to another account.
            let surroundings = ProviderConfig::with_default_region().await;
            let credentials = ProfileFileCredentialsProvider::builder()
                .profile_name(profile)
                .configure(&surroundings)
                .build();
            loader = loader
                .profile_name(profile)
                .credentials_provider(credentials);
        }
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(url) = &self.endpoint_url {
            if !url.starts_with("http://") && !url.starts_with("https://") {
                let problem = "--endpoint-url: must be a URL such as https://host:port";
                return Err(Failure::usage(problem));
            }
            loader = loader.endpoint_url(url);
        }
        if cfg!(not(feature = "https-client")) {
            loader = loader.http_client(aws_smithy_http_client::Builder::new().build_http());
        }
        let config = loader.load().await;
        if config
            .region()
            .is_none_or(|region| region.as_ref().is_empty())
        {
            let failure = Failure::new(
                Code::UNREACHABLE,
                "no Region: no option names one, and none is configured",
            );
            let advice = "use --region, or set AWS_REGION, or add a region to the profile";
            return Err(failure.advice(advice));
        }
        Ok(config)
    }
}

/// Credentials, found before the first request and kept while they are valid. The library limits a request to a second and a
/// half, and single sign-on or a credential process may take longer.
#[derive(Debug)]
pub(crate) struct CachedCredentials {
    source: SharedCredentialsProvider,
    last: Mutex<Credentials>,
}

impl CachedCredentials {
    /// Credentials with less time left than this are refreshed.
    const SPARE: Duration = Duration::from_mins(5);

    async fn of(config: &SdkConfig) -> Result<Self, Failure> {
        let source = config.credentials_provider();
        let source = source.ok_or_else(|| unfound(&CredentialsError::not_loaded_no_source()))?;
        let last = tokio::time::timeout(FINDING, source.provide_credentials()).await;
        let last = last.unwrap_or_else(|_| Err(CredentialsError::provider_timed_out(FINDING)));
        Ok(Self {
            last: Mutex::new(last.map_err(|error| unfound(&error))?),
            source,
        })
    }

    /// Looks for new credentials if the old ones expire soon. If none are found, the old ones stay in use.
    pub(crate) async fn refresh_if_expiring(&self) {
        let _ = self.provide().await;
    }

    async fn provide(&self) -> Result<Credentials, CredentialsError> {
        let last = self.last();
        if outlasts(&last, SystemClock.now().plus(Self::SPARE)) {
            return Ok(last);
        }
        match self.source.provide_credentials().await {
            Ok(next) => {
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = next.clone();
                Ok(next)
            }
            Err(_) if outlasts(&last, SystemClock.now()) => Ok(last),
            Err(error) => Err(error),
        }
    }

    fn last(&self) -> Credentials {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

impl ProvideCredentials for CachedCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.provide())
    }
}

fn outlasts(credentials: &Credentials, at: Timestamp) -> bool {
    let millis = |expiry: std::time::SystemTime| {
        let since = expiry.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    };
    let expiry = credentials.expiry().map(millis);
    expiry.is_none_or(|expiry| expiry > at.as_millis())
}

fn unfound(error: &CredentialsError) -> Failure {
    // The error has one line per provider.
    let text = in_full(error);
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let what = format!("no AWS credentials could be loaded: {}", lines.join("; "));
    let advice = "sign in (`aws sso login`, `aws configure`), choose a --profile, or set AWS_ACCESS_KEY_ID and \
                AWS_SECRET_ACCESS_KEY";
    Failure::new(Code::UNREACHABLE, what).advice(advice)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Gives credentials that end at an instant, and counts how often it is asked; it fails when it has none.
    #[derive(Debug)]
    struct Source {
        asked: AtomicU64,
        ends: Mutex<Option<Timestamp>>,
    }

    fn ending(at: Timestamp) -> Credentials {
        let expiry = UNIX_EPOCH + Duration::from_millis(at.as_millis());
        Credentials::new("id", "secret", None, Some(expiry), "test")
    }

    impl ProvideCredentials for Source {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let ends = *self.ends.lock().expect("nobody panics");
            let found = ends.map(ending);
            let found = found.ok_or_else(|| CredentialsError::not_loaded("none any more"));
            future::ProvideCredentials::ready(found)
        }
    }

    #[tokio::test]
    async fn credentials_are_renewed_in_time() {
        let now = SystemClock.now();
        let (soon, later) = (Duration::from_mins(1), Duration::from_hours(1));
        let source = Arc::new(Source {
            asked: AtomicU64::new(0),
            ends: Mutex::new(Some(now.plus(soon))),
        });
        let provider: Arc<dyn ProvideCredentials> = Arc::clone(&source) as _;
        let kept = CachedCredentials {
            source: SharedCredentialsProvider::new(provider),
            last: Mutex::new(ending(now.plus(later))),
        };
        let asked = || source.asked.load(Ordering::SeqCst);
        let expiry = async || kept.provide().await.map(|found| found.expiry());
        assert_eq!(expiry().await.ok(), Some(ending(now.plus(later)).expiry()));
        assert_eq!(asked(), 0, "an hour is long enough");
        *kept.last.lock().expect("nobody panics") = ending(now.plus(soon));
        *source.ends.lock().expect("nobody panics") = None;
        assert_eq!(expiry().await.ok(), Some(ending(now.plus(soon)).expiry()));
        assert_eq!(asked(), 1, "the old ones go on while they last");
        *source.ends.lock().expect("nobody panics") = Some(now.plus(later));
        kept.refresh_if_expiring().await;
        assert_eq!(asked(), 2);
        assert_eq!(expiry().await.ok(), Some(ending(now.plus(later)).expiry()));
        assert_eq!(asked(), 2);
        *kept.last.lock().expect("nobody panics") = ending(now.minus(soon));
        *source.ends.lock().expect("nobody panics") = None;
        assert!(expiry().await.is_err(), "those that have ended are none");
    }
}
