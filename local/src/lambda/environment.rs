//! The environment of a sandbox: what Lambda sets, what points the SDK at this machine, and nothing of ours.

use std::collections::BTreeMap;

use super::function::{Function, REGION};

/// What every sandbox of the function finds in its environment; the template's variables win. A
/// talkative one logs all it can.
pub(super) fn of(
    function: &Function,
    runtime_api: &str,
    sandbox: &str,
    talkative: bool,
) -> BTreeMap<String, String> {
    let root = function
        .binary
        .parent()
        .map_or_else(String::new, |path| path.display().to_string());
    let memory = function.memory_mb.to_string();
    let group = format!("/aws/lambda/{}", function.logical_id);
    let own = [
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("AWS_SESSION_TOKEN", "local"),
        ("AWS_REGION", REGION),
        ("AWS_DEFAULT_REGION", REGION),
        // Any service without a local endpoint fails here at once instead of being asked for on the network.
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_LAMBDA_FUNCTION_NAME", &function.logical_id),
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
    let mut all: BTreeMap<String, String> = own
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    if talkative {
        let levels = [("AWS_LAMBDA_LOG_LEVEL", "TRACE"), ("RUST_LOG", "trace")];
        all.extend(levels.map(|(name, level)| (name.to_owned(), level.to_owned())));
    }
    all.extend(function.environment.clone());
    all
}
