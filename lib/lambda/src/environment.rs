//! The environment, and the configuration of the SDK's clients, which Lambda gives in variables only. The SDK's own loader would also look
//! for profiles, instance metadata and roles to assume; that code would be a third of every function.

use aws_config::{
    BehaviorVersion, Region, SdkConfig, environment::EnvironmentVariableCredentialsProvider,
};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::{rt::sleep::TokioSleep, time::SystemTimeSource};
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};
use leasehold::Error;
use tracing_subscriber::filter::LevelFilter;

const FIPS: &str = "AWS_USE_FIPS_ENDPOINT";
const DUAL_STACK: &str = "AWS_USE_DUALSTACK_ENDPOINT";

/// A variable of the process's environment. One that is not Unicode is refused like any other value that does not parse.
#[expect(
    clippy::disallowed_methods,
    reason = "the only module of this crate that reads the ambient environment"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    match std::env::var(name) {
        Ok(value) => Some(value),
        Err(std::env::VarError::NotPresent) => None,
        Err(std::env::VarError::NotUnicode(_)) => Some(String::new()),
    }
}

/// Refuses an endpoint with which every call of the SDK would fail.
pub(crate) fn check_endpoints(lookup: impl Fn(&str) -> Option<String>) -> Result<(), Error> {
    for name in [
        "AWS_ENDPOINT_URL_DYNAMODB",
        "AWS_ENDPOINT_URL_SFN",
        "AWS_ENDPOINT_URL_LAMBDA",
        "AWS_ENDPOINT_URL",
    ] {
        let Some(url) = lookup(name) else {
            continue;
        };
        let rest = url.strip_prefix("http://");
        let rest = rest.or_else(|| url.strip_prefix("https://"));
        let host = rest.and_then(|rest| rest.split('/').next());
        if !host.is_some_and(|host| !host.is_empty() && !host.contains(char::is_whitespace)) {
            let problem = "must be a URL such as https://host:port";
            return Err(Error::misconfigured(name, problem));
        }
    }
    Ok(())
}

/// The level of the log lines. Lambda's own setting counts only where ours is not set: Lambda would drop the lines
/// with metrics too.
pub(crate) fn log_level(lookup: impl Fn(&str) -> Option<String>) -> LevelFilter {
    let level = lookup("LEASE_LOG_LEVEL").or_else(|| lookup("AWS_LAMBDA_LOG_LEVEL"));
    level
        .and_then(|level| level.parse().ok())
        .unwrap_or(LevelFilter::INFO)
}

/// The table's name, also from an ARN, and also if another setting is wrong.
pub(crate) fn table_name(lookup: impl Fn(&str) -> Option<String>) -> Option<String> {
    let table = lookup("LEASE_TABLE")?;
    let name = table.rsplit('/').next().unwrap_or(&table);
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// The configuration in the variables, for all clients of a sandbox.
///
/// # Errors
/// [`Error::Misconfigured`] naming the variable that is missing or does not parse.
pub(crate) fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<SdkConfig, Error> {
    let region = lookup("AWS_REGION").or_else(|| lookup("AWS_DEFAULT_REGION"));
    let Some(region) = region.filter(|region| !region.is_empty()) else {
        return Err(Error::Misconfigured {
            problem: "no Region: set AWS_REGION".to_owned(),
            source: None,
        });
    };
    let credentials = EnvironmentVariableCredentialsProvider::new();
    let mut config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(region))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .service_config(Variables)
        .sleep_impl(TokioSleep::new())
        .time_source(SystemTimeSource::new());
    config.set_use_dual_stack(flag(&lookup, DUAL_STACK)?);
    config.set_use_fips(flag(&lookup, FIPS)?);
    if cfg!(not(feature = "https-client")) {
        config.set_http_client(Some(aws_smithy_http_client::Builder::new().build_http()));
    }
    Ok(config.build())
}

/// Refuses to start if FIPS endpoints are configured and `module`, the cipher library, is not the validated one: a
/// user of the endpoints relies on the library too.
///
/// # Errors
/// [`Error::Misconfigured`], which says what is missing.
pub(crate) fn check_fips(
    lookup: impl Fn(&str) -> Option<String>,
    module: Result<(), &str>,
) -> Result<(), Error> {
    if module.is_ok() || !matches!(flag(lookup, FIPS), Ok(Some(true))) {
        return Ok(());
    }
    Err(Error::misconfigured(
        FIPS,
        "is true, but this function was built without a FIPS-validated module: to build one with it, see FIPS in docs/guides/deploy-and-alarms.md",
    ))
}

/// A variable with the SDK's words for yes and no. The SDK itself would ignore any other value.
fn flag(lookup: impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<bool>, Error> {
    let Some(value) = lookup(name) else {
        return Ok(None);
    };
    match value.to_ascii_lowercase().parse() {
        Ok(flag) => Ok(Some(flag)),
        Err(_) => Err(Error::misconfigured(name, "must be true or false")),
    }
}

/// The settings of one service: `AWS_ENDPOINT_URL_DYNAMODB` before `AWS_ENDPOINT_URL`.
#[derive(Debug)]
struct Variables;

impl LoadServiceConfig for Variables {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let service = key.service_id().to_uppercase().replace(' ', "_");
        variable(&format!("{}_{service}", key.env())).or_else(|| variable(key.env()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        move |name| {
            let pair = pairs.iter().find(|(n, _)| *n == name)?;
            Some(pair.1.to_owned())
        }
    }

    #[test]
    fn both_endpoint_kinds_are_passed() {
        for (value, expected) in [("true", true), ("TRUE", true), ("false", false)] {
            let pairs = [
                ("AWS_REGION", "us-east-1"),
                (DUAL_STACK, value),
                (FIPS, value),
            ];
            let config = read(lookup(&pairs)).expect("valid");
            assert_eq!(config.use_dual_stack(), Some(expected));
            assert_eq!(config.use_fips(), Some(expected));
        }
        let config = read(lookup(&[("AWS_REGION", "us-east-1")])).expect("valid");
        assert_eq!((config.use_dual_stack(), config.use_fips()), (None, None));
    }

    #[test]
    fn a_bad_value_is_named() {
        for name in [DUAL_STACK, FIPS] {
            let read = read(lookup(&[("AWS_REGION", "us-east-1"), (name, "yes")]));
            assert!(read.is_err_and(|error| error.to_string().contains(name)));
        }
        let read = read(lookup(&[("AWS_REGION", "")]));
        assert!(read.is_err_and(|error| error.to_string().contains("AWS_REGION")));
    }

    #[test]
    fn fips_needs_the_module() {
        let asked = || lookup(&[(FIPS, "true")]);
        assert!(check_fips(asked(), Err("not in FIPS mode")).is_err());
        assert!(check_fips(asked(), Ok(())).is_ok());
        for not in ["false", "yes"] {
            assert!(check_fips(lookup(&[(FIPS, not)]), Err("not in FIPS mode")).is_ok());
        }
    }
}
