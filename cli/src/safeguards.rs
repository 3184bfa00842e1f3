//! Settings of a table that matter only after another fault. The template switches them on, and a restore leaves them out.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::describe_continuous_backups::DescribeContinuousBackupsError;
use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::types::PointInTimeRecoveryStatus;

pub(crate) const NO_RECOVERY: &str = "point-in-time recovery is off";
pub(crate) const NO_PROTECTION: &str = "deletion protection is off";

/// Whether the table can be restored to any second of the last weeks.
pub(crate) async fn has_recovery(
    client: &Client,
    table: &str,
) -> Result<bool, SdkError<DescribeContinuousBackupsError>> {
    let described = client.describe_continuous_backups().table_name(table);
    let described = described.send().await?.continuous_backups_description;
    let recovery = described.and_then(|found| found.point_in_time_recovery_description);
    let status = recovery.and_then(|found| found.point_in_time_recovery_status);
    Ok(status == Some(PointInTimeRecoveryStatus::Enabled))
}

/// Whether the table is protected from deletion.
pub(crate) async fn is_protected(
    client: &Client,
    table: &str,
) -> Result<bool, SdkError<DescribeTableError>> {
    let described = client.describe_table().table_name(table).send().await?;
    let protected = described
        .table
        .and_then(|found| found.deletion_protection_enabled);
    Ok(protected == Some(true))
}
