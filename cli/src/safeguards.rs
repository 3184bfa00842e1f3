//! What keeps a table from being lost: point-in-time recovery and deletion protection. The template switches both on, a restore neither.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::describe_continuous_backups::DescribeContinuousBackupsError;
use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::types::PointInTimeRecoveryStatus;

/// Whether each is on, or why that could not be read.
pub(crate) struct Safeguards {
    pub(crate) protection: Result<bool, SdkError<DescribeTableError>>,
    pub(crate) recovery: Result<bool, SdkError<DescribeContinuousBackupsError>>,
}

impl Safeguards {
    pub(crate) async fn read(client: &Client, table: &str) -> Self {
        let described = client.describe_table().table_name(table).send().await;
        let protection = described.map(|answer| {
            let table = answer.table;
            table.and_then(|table| table.deletion_protection_enabled) == Some(true)
        });
        let backups = client.describe_continuous_backups().table_name(table);
        let recovery = backups.send().await.map(|answer| {
            let status = answer
                .continuous_backups_description
                .and_then(|found| found.point_in_time_recovery_description)
                .and_then(|found| found.point_in_time_recovery_status);
            status == Some(PointInTimeRecoveryStatus::Enabled)
        });
        Self {
            protection,
            recovery,
        }
    }

    /// Those that are off.
    pub(crate) fn off(&self) -> Vec<String> {
        let protection = matches!(self.protection, Ok(false)).then_some("deletion protection");
        let recovery = matches!(self.recovery, Ok(false)).then_some("point-in-time recovery");
        let off = protection.into_iter().chain(recovery);
        off.map(|what| format!("{what} is off")).collect()
    }
}
