//! The delivery of one batch of stream records to a function: retries, partial batch responses, halving, dead letters.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::queues::Queues;
use crate::arn;
use crate::lambda::{Invoker, Outcome};
use crate::template::StreamSource;

/// The pause before a retry, doubled each time. The service begins with about a second. Nothing here depends on it.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The outcome of one invocation for the mapping.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    /// The records from this one on must be retried.
    From(usize),
    Failed,
}

/// Records that are retried together.
struct Piece {
    records: Vec<Value>,
    failures: u32,
}

/// Delivers a batch until the function accepts it or it is a dead letter. `None` if the host is gone.
pub(super) async fn deliver(
    source: &StreamSource,
    invoker: &Invoker,
    queues: &Queues,
    records: Vec<Value>,
) -> Option<()> {
    let mut pieces = VecDeque::from([Piece {
        records,
        failures: 0,
    }]);
    while let Some(mut piece) = pieces.pop_front() {
        if piece.records.is_empty() {
            continue;
        }
        let event = json!({"Records": piece.records});
        let invocation = invoker.invoke(event.to_string()).await?;
        match verdict(source, &piece.records, &invocation.outcome) {
            Verdict::Done => continue,
            // Confirmed records are done. The rest is a new batch.
            Verdict::From(first) if first > 0 => {
                piece.records.drain(..first);
                piece.failures = 0;
            }
            // Halving a batch does not count as a retry.
            Verdict::Failed if source.bisect && piece.records.len() > 1 => {
                let half = piece.records.split_off(piece.records.len().div_ceil(2));
                let rest = Piece {
                    records: half,
                    failures: piece.failures,
                };
                pieces.push_front(rest);
                pieces.push_front(piece);
                continue;
            }
            Verdict::From(_) | Verdict::Failed => piece.failures += 1,
        }
        let given_up = if source.retries.is_some_and(|most| piece.failures > most) {
            Some("RetryAttemptsExhausted")
        } else if source
            .record_age
            .is_some_and(|most| age(&piece.records[0]) > most)
        {
            Some("RecordAgeExceeded")
        } else {
            None
        };
        if let Some(condition) = given_up {
            tracing::warn!(
                function = source.function,
                condition,
                "stream records were given up"
            );
            if let Some(queue) = &source.dead_letters {
                let letter = dead_letter(source, condition, &piece, &invocation.request_id);
                queues.send(queue, letter.to_string());
            }
            continue;
        }
        let doubled = FIRST_PAUSE * 2_u32.saturating_pow(piece.failures.min(16));
        tokio::time::sleep(doubled.min(LONGEST_PAUSE)).await;
        pieces.push_front(piece);
    }
    Some(())
}

/// The meaning of the function's response for its batch.
fn verdict(source: &StreamSource, records: &[Value], outcome: &Outcome) -> Verdict {
    let Outcome::Answer(answer) = outcome else {
        return Verdict::Failed;
    };
    if !source.partial {
        return Verdict::Done;
    }
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    match failed_items(&answer) {
        None => Verdict::Failed,
        Some(failed) if failed.is_empty() => Verdict::Done,
        Some(failed) => {
            let is_failed = |record: &Value| {
                let number = record["dynamodb"]["SequenceNumber"].as_str();
                number.is_some_and(|number| failed.contains(&number))
            };
            // An identifier that is not in the batch fails the whole batch.
            let known = records.iter().filter(|record| is_failed(record)).count();
            let first = records.iter().position(is_failed);
            match first {
                Some(first) if known == failed.len() => Verdict::From(first),
                _ => Verdict::Failed,
            }
        }
    }
}

/// The items that a partial batch response names. No list means no items. `None` is a response that cannot be read, which
/// fails the batch.
pub(super) fn failed_items(answer: &Value) -> Option<Vec<&str>> {
    match answer.get("batchItemFailures") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| {
                let name = item["itemIdentifier"].as_str();
                name.filter(|name| !name.is_empty())
            })
            .collect(),
        Some(_) => None,
    }
}

fn age(record: &Value) -> Duration {
    let created = record["dynamodb"]["ApproximateCreationDateTime"].as_f64();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let created = created.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    now.saturating_sub(created.unwrap_or(now))
}

/// The dead letter that Lambda sends: the position of the records, not their content.
fn dead_letter(source: &StreamSource, condition: &str, piece: &Piece, request_id: &str) -> Value {
    let number = |record: Option<&Value>| {
        record.map_or(Value::Null, |record| {
            record["dynamodb"]["SequenceNumber"].clone()
        })
    };
    let instant = |record: Option<&Value>| {
        let seconds =
            record.and_then(|record| record["dynamodb"]["ApproximateCreationDateTime"].as_f64());
        #[expect(clippy::cast_possible_truncation, reason = "an instant in seconds")]
        let at = seconds.and_then(|s| OffsetDateTime::from_unix_timestamp(s as i64).ok());
        at.and_then(|at| at.format(&Rfc3339).ok())
    };
    let (first, last) = (piece.records.first(), piece.records.last());
    json!({
        "requestContext": {
            "requestId": request_id,
            "functionArn": arn::function(&source.function),
            "condition": condition,
            "approximateInvokeCount": piece.failures,
        },
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "version": "1.0",
        "timestamp": OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default(),
        "DDBStreamBatchInfo": {
            "shardId": source.shard_id(),
            "startSequenceNumber": number(first),
            "endSequenceNumber": number(last),
            "approximateArrivalOfFirstRecord": instant(first),
            "approximateArrivalOfLastRecord": instant(last),
            "batchSize": piece.records.len(),
            "streamArn": source.stream_arn,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_answer_names_what_failed_and_says_nothing_else() {
        let failed = |answer: Value| {
            failed_items(&answer).map(|items| items.iter().map(ToString::to_string).collect())
        };
        let none: Option<Vec<String>> = Some(Vec::new());
        for all_done in [
            json!(null),
            json!({}),
            json!({"batchItemFailures": null}),
            json!({"batchItemFailures": []}),
        ] {
            assert_eq!(failed(all_done.clone()), none, "{all_done}");
        }
        let two = json!({"batchItemFailures": [{"itemIdentifier": "1"}, {"itemIdentifier": "2"}]});
        assert_eq!(failed(two), Some(vec!["1".to_owned(), "2".to_owned()]));
        for all_failed in [
            json!({"batchItemFailures": "1"}),
            json!({"batchItemFailures": [{"itemIdentifier": ""}]}),
            json!({"batchItemFailures": [{"identifier": "1"}]}),
        ] {
            assert_eq!(failed(all_failed.clone()), None, "{all_failed}");
        }
    }
}
