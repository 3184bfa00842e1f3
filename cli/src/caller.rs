//! The caller that STS names for the credentials. `--who` is only what the operator claims.

use std::time::Duration;

use leasehold::Caller;

use crate::connect::TableClient;
use crate::environment;

/// Time limit for STS. After it, the act goes on without the caller.
const ASKING: Duration = Duration::from_secs(2);

/// The ARN, if STS answers in time. With a DynamoDB endpoint of its own the table may not be AWS's, and its credentials must not
/// be sent to AWS: STS is then called only if its endpoint is set too.
pub(crate) async fn of(table_client: &TableClient) -> Option<Caller> {
    let elsewhere = table_client.config.endpoint_url().is_some()
        || environment::text("AWS_ENDPOINT_URL_DYNAMODB").is_some();
    let given = ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"];
    if elsewhere && !given.iter().any(|name| environment::text(name).is_some()) {
        return None;
    }
    let sts = aws_sdk_sts::Client::new(&table_client.config);
    let asked = tokio::time::timeout(ASKING, sts.get_caller_identity().send()).await;
    Caller::new(asked.ok()?.ok()?.arn()?).ok()
}
