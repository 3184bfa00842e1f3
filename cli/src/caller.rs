//! Whose credentials sign, as STS tells it: what an operator says of himself is only his word.

use std::time::Duration;

use leasehold::Caller;

use crate::connect::Reached;
use crate::environment;

/// How long it may take. An act does not wait for it any longer.
const ASKING: Duration = Duration::from_secs(2);

/// The ARN, if STS tells it in time. It is not asked about a table that is somewhere else than in the Region, whose credentials
/// are no business of AWS's, unless its own endpoint is given as well.
pub(crate) async fn of(reached: &Reached) -> Option<Caller> {
    let elsewhere = reached.config.endpoint_url().is_some()
        || environment::text("AWS_ENDPOINT_URL_DYNAMODB").is_some();
    let given = ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"];
    if elsewhere && !given.iter().any(|name| environment::text(name).is_some()) {
        return None;
    }
    let sts = aws_sdk_sts::Client::new(&reached.config);
    let asked = tokio::time::timeout(ASKING, sts.get_caller_identity().send()).await;
    Caller::new(asked.ok()?.ok()?.arn()?).ok()
}
