//! The host's description of a function.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::code::Code;
use crate::arn::{self, REGION};
use crate::guard::session_token;
use crate::installation;

/// A function as the host runs it. The host knows it by its logical id and by its verb.
#[derive(Clone, Debug)]
pub struct Function {
    /// The resource's name in the template: `AcquireFunction`.
    pub logical_id: String,
    /// The binary's name: `acquire`.
    pub verb: String,
    /// What runs.
    pub code: Code,
    /// The variables of the template, in addition to those of every function.
    pub environment: BTreeMap<String, String>,
    /// How long one invocation may take before its sandbox is killed.
    pub timeout: Duration,
    /// What an invocation has here, if that is less.
    pub here: Option<Duration>,
    /// Passed to the function, not enforced.
    pub memory_mb: u32,
    /// How many sandboxes may live at once. Further invocations are throttled.
    pub concurrency: usize,
}

impl Function {
    /// How long an invocation may take here.
    pub(crate) fn stops_after(&self) -> Duration {
        self.here
            .map_or(self.timeout, |here| here.min(self.timeout))
    }

    /// The function's ARN in the local account and Region.
    #[must_use]
    pub fn arn(&self) -> String {
        arn::function(&self.logical_id)
    }

    /// The environment of a sandbox: Lambda's variables, those that point the SDK at this machine, and the template's,
    /// which take precedence. A talkative function logs everything.
    pub(super) fn environment(
        &self,
        runtime_api: &str,
        sandbox: &str,
        talkative: bool,
    ) -> BTreeMap<String, String> {
        // A user's command has the user's environment, and Lambda's beside it.
        let (root, mut all) = match &self.code {
            Code::Binary(binary) => (binary.parent().map(Path::to_owned), BTreeMap::new()),
            Code::Command(_) | Code::Url(_) => (std::env::current_dir().ok(), inherited()),
        };
        let root = root.map_or_else(String::new, |path| path.display().to_string());
        let memory = self.memory_mb.to_string();
        let group = format!("/aws/lambda/{}", self.logical_id);
        let own = [
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("AWS_SESSION_TOKEN", session_token()),
            ("AWS_REGION", REGION),
            ("AWS_DEFAULT_REGION", REGION),
            // Calls to a service without a local endpoint fail at once, and do not reach the network.
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_LAMBDA_FUNCTION_NAME", &self.logical_id),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &memory),
            ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
            ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", &group),
            ("AWS_LAMBDA_LOG_STREAM_NAME", sandbox),
            ("AWS_LAMBDA_RUNTIME_API", runtime_api),
            ("LAMBDA_TASK_ROOT", &root),
            ("LANG", "en_US.UTF-8"),
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("TZ", ":UTC"),
            ("_HANDLER", "bootstrap"),
        ];
        for (name, value) in own {
            // A user's own emulator of other services stays, too.
            if !(["PATH", "AWS_ENDPOINT_URL"].contains(&name) && all.contains_key(name)) {
                all.insert(name.to_owned(), value.to_owned());
            }
        }
        all.extend(self.environment.clone());
        if talkative {
            let levels = [("LEASE_LOG_LEVEL", "TRACE"), ("RUST_LOG", "trace")];
            all.extend(levels.map(|(name, level)| (name.to_owned(), level.to_owned())));
        }
        all
    }
}

/// The environment of this process, for programs of the user's.
fn inherited() -> BTreeMap<String, String> {
    let all = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    all.filter(|(name, _)| {
        !installation::VARIABLES.contains(&name.as_str())
            && !installation::HIDING.contains(&name.as_str())
    })
    .collect()
}

/// The function's name from a caller's reference: a name, a partial or a full ARN, each with or without a
/// qualifier.
pub(super) fn name_of(reference: &str) -> &str {
    let after_function = reference
        .rsplit_once("function:")
        .map_or(reference, |(_, rest)| rest);
    after_function.split(':').next().unwrap_or(after_function)
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn every_function_spelling_names_it() {
        for reference in [
            "acquire",
            "acquire:$LATEST",
            "123456789012:function:acquire",
            "arn:aws:lambda:us-east-1:123456789012:function:acquire",
            "arn:aws:lambda:us-east-1:123456789012:function:acquire:live",
        ] {
            assert_eq!(name_of(reference), "acquire", "{reference}");
        }
    }
}
