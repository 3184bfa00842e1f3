//! The functions' logs of a stack in an account, by a query of `CloudWatch` Logs Insights.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_cloudwatchlogs::Client;
use aws_sdk_cloudwatchlogs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_cloudwatchlogs::operation::get_query_results::GetQueryResultsOutput;
use aws_sdk_cloudwatchlogs::types::QueryStatus;
use leasehold::{Clock as _, SystemClock, Timestamp};
use leasehold_asl::plain;

use super::{Lines, ROWS, grants};
use crate::exit::{Code, Failure};
use crate::signals::{self, Signals};

/// The functions whose lines tell of grants and their ends. An extend ends a lease that has expired while others wait.
const FUNCTIONS: [&str; 7] = [
    "acquire", "release", "start", "sweep", "reap", "operate", "extend",
];
/// Timeout of a query.
const LIMIT: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// The lines of the stack's functions that tell of grants of `key`.
pub(super) async fn lines(
    config: &SdkConfig,
    stack: &str,
    key: &str,
    (since, until): (Timestamp, Timestamp),
) -> Result<Lines, Failure> {
    let client = Client::new(config);
    let mut signals = signals::listen()?;
    let groups = FUNCTIONS.map(|function| format!("/aws/lambda/{stack}-{function}"));
    let started = client
        .start_query()
        .set_log_group_names(Some(groups.to_vec()))
        .start_time(seconds(since.as_millis() / 1000))
        .end_time(seconds(until.as_seconds_rounded_up()))
        .query_string(query(key))
        .limit(i32::try_from(ROWS).unwrap_or(i32::MAX))
        .send()
        .await;
    let started = started.map_err(|error| refused("logs:StartQuery", stack, &error))?;
    let id = started.query_id().unwrap_or_default();
    let ended = tokio::select! {
        ended = results(&client, stack, id) => ended,
        () = SystemClock.sleep(LIMIT) => Err(too_long()),
        failure = interrupted(&mut signals) => Err(failure),
    };
    if ended.is_err() {
        // It would go on, and be paid for. If this fails, it ends by itself within the hour.
        let _ = client.stop_query().query_id(id).send().await;
    }
    ended
}

async fn interrupted(signals: &mut Signals) -> Failure {
    let signal = signals.next().await;
    Failure::new(Code::of_signal(signal.as_raw()), "the query was stopped")
}

fn too_long() -> Failure {
    let problem = format!("the query took longer than {} s", LIMIT.as_secs());
    Failure::new(Code::UNREACHABLE, problem).advice("give a shorter --since")
}

async fn results(client: &Client, stack: &str, id: &str) -> Result<Lines, Failure> {
    loop {
        let answer = client.get_query_results().query_id(id).send().await;
        let answer = answer.map_err(|error| refused("logs:GetQueryResults", stack, &error))?;
        match answer.status() {
            Some(QueryStatus::Complete) => return Ok(lines_of(&answer)),
            Some(QueryStatus::Running | QueryStatus::Scheduled) | None => {}
            Some(other) => {
                let problem = format!("the query ended as {}", plain(other.as_str()));
                return Err(Failure::new(Code::UNREACHABLE, problem).advice("try again"));
            }
        }
        SystemClock.sleep(BETWEEN_LOOKS).await;
    }
}

fn lines_of(answer: &GetQueryResultsOutput) -> Lines {
    let fields = answer.results().iter().flatten();
    let messages = fields.filter(|field| field.field() == Some("@message"));
    let lines: Vec<_> = messages
        .filter_map(|field| field.value().map(str::to_owned))
        .collect();
    Lines {
        is_cut: lines.len() >= ROWS,
        lines,
    }
}

/// The newest lines that tell of grants of `key`, alone or among several.
fn query(key: &str) -> String {
    let list = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        words.join(", ")
    };
    let among = serde_json::to_string(key).unwrap_or_default() + ":";
    format!(
        "fields @message\n| filter key = {} or strcontains(tokens, {})\n| filter (message = \"answered\" and outcome in [{}]) or message in [{}]\n| sort @timestamp desc",
        quoted(key),
        quoted(&among),
        list(&grants::OUTCOMES),
        list(&grants::MESSAGES),
    )
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn seconds(since_epoch: u64) -> i64 {
    i64::try_from(since_epoch).unwrap_or(i64::MAX)
}

/// The failure, naming the action and the stack's logs.
fn refused<E: ProvideErrorMetadata, R>(
    action: &str,
    stack: &str,
    error: &SdkError<E, R>,
) -> Failure {
    let SdkError::ServiceError(error) = error else {
        let failure = Failure::new(Code::UNREACHABLE, "CloudWatch Logs does not answer");
        return failure.advice("check the network, --region and AWS_ENDPOINT_URL_CLOUDWATCH_LOGS");
    };
    let error = error.err();
    let code = error.code().unwrap_or("an error without a name");
    match code {
        "AccessDeniedException"
        | "AccessDenied"
        | "UnrecognizedClientException"
        | "ExpiredTokenException" => {
            let failure = Failure::new(
                Code::UNREACHABLE,
                format!("your credentials may not {action}"),
            );
            failure.advice(format!(
                "this command needs logs:StartQuery on the log groups /aws/lambda/{stack}-*, and logs:GetQueryResults and logs:StopQuery"
            ))
        }
        "ResourceNotFoundException" => {
            let problem = format!("there are no log groups /aws/lambda/{stack}-acquire and so on");
            Failure::new(Code::UNREACHABLE, problem).advice("check --stack, --region and --profile")
        }
        "LimitExceededException" | "ThrottlingException" => {
            let problem = format!("{action}: {code}: too many queries run in this account");
            Failure::new(Code::HELD, problem).advice("try again later")
        }
        _ => {
            let message = error.message().unwrap_or_default();
            Failure::new(
                Code::UNREACHABLE,
                plain(&format!("{action}: {code}: {message}")),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_quotes_the_key() {
        let query = query("a\"b\\c");
        assert!(query.contains(r#"key = "a\"b\\c""#), "{query}");
        assert!(
            query.contains(r#"strcontains(tokens, "\"a\\\"b\\\\c\":")"#),
            "{query}"
        );
    }
}
