//! What a response came to, as its JSON says it; the rules count what no response says.

use leasehold::{Counter, metrics::Metric};
use serde_json::{Map, Value};

/// An outcome in a word, the token of the lease, and what to count.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) outcome: String,
    pub(crate) fencing_token: Option<Counter>,
    pub(crate) grant: Option<Grant>,
    pub(crate) counts: Vec<(Metric, u64)>,
}

impl Summary {
    /// What this response came to.
    pub(crate) fn of(response: &Value) -> Self {
        let outcome = word_of(response);
        let token = &response["lease"]["fencing_token"];
        // Of a held key the lease is somebody else's.
        let token = token.as_u64().filter(|_| outcome != "held");
        Self {
            outcome: outcome.to_owned(),
            fencing_token: token.and_then(Counter::new),
            grant: Grant::of(response),
            counts: counts_of(outcome, response),
        }
    }
}

/// What the line of a grant says of it, for a history of its key.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) kind: String,
    pub(crate) acquired_at: Option<String>,
    /// Of several keys: the token of each, a JSON object.
    pub(crate) tokens: Option<String>,
    /// The grant before, if it did not end as released.
    pub(crate) after: Option<After>,
}

/// A grant that ended without a release.
#[derive(Debug)]
pub(crate) struct After {
    pub(crate) holder: String,
    pub(crate) fencing_token: Option<u64>,
    pub(crate) ended: String,
}

impl Grant {
    /// None if nothing was granted.
    fn of(response: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let previous = &response["previous"];
        let ended = text(&previous["ended"]).filter(|ended| ended != "released");
        Some(Self {
            kind: text(&response["grant"])?,
            // Several keys are granted in one write.
            acquired_at: text(&response["lease"]["acquired_at"])
                .or_else(|| text(&response["leases"][0]["acquired_at"])),
            tokens: response["leases"].as_array().map(|leases| {
                let each = leases.iter();
                let each = each.filter_map(|lease| {
                    Some((text(&lease["key"])?, lease["fencing_token"].clone()))
                });
                Value::Object(each.collect::<Map<_, _>>()).to_string()
            }),
            after: ended.map(|ended| After {
                holder: text(&previous["holder"]).unwrap_or_default(),
                fencing_token: previous["fencing_token"].as_u64(),
                ended,
            }),
        })
    }
}

fn word_of(response: &Value) -> &str {
    let failures = response["batchItemFailures"].as_array();
    match (response["outcome"].as_str(), failures) {
        (Some(word), _) => word,
        (None, Some(failures)) if failures.is_empty() => "done",
        (None, Some(_)) => "done_in_part",
        (None, None) => "listed",
    }
}

fn counts_of(outcome: &str, response: &Value) -> Vec<(Metric, u64)> {
    let number = |name| response[name].as_u64().unwrap_or_default();
    let once = |metric| vec![(metric, 1)];
    match outcome {
        // The grant of a waiter is counted where it is made, and its response says nothing of it: the lease went to its task token.
        "acquired" => match response["grant"].as_str() {
            Some("new") => once(Metric::Grants),
            Some("replayed" | "reentered") => once(Metric::Replays),
            Some("takeover") => once(Metric::TakeOvers),
            _ => Vec::new(),
        },
        "held" => once(Metric::Refusals),
        "revived" => once(Metric::Revived),
        "lost" => once(Metric::Lost),
        "swept" => {
            let corrupt = number("skipped_corrupt");
            let corrupt = (corrupt > 0).then_some((Metric::Corrupt, corrupt));
            let swept = [
                (Metric::Sweeps, 1),
                (Metric::SweepExamined, number("examined")),
                (Metric::SweepFreed, number("freed")),
            ];
            swept.into_iter().chain(corrupt).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use aws_lambda_events::event::sqs::SqsBatchResponse;

    use leasehold::{
        Acquire, ExtendOptions, Holder, Key, LeasePage, Leases, ManualClock, Memory, Queued,
        Reaped, RequestId, Settings, Swept, Timestamp, Ttl,
    };
    use serde::Serialize;

    use super::*;
    use crate::Handled;

    fn summary(response: &impl Serialize) -> Summary {
        Summary::of(&serde_json::to_value(response).expect("JSON"))
    }

    fn told(response: &impl Serialize) -> (String, Vec<(&'static str, u64)>) {
        let Summary {
            outcome, counts, ..
        } = summary(response);
        let counts = counts.into_iter();
        let counts = counts.map(|(metric, n)| (metric.name(), n));
        (outcome, counts.collect())
    }

    #[tokio::test]
    async fn responses_count_by_outcome() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let leases =
            Leases::new(Memory::new(), Settings::default()).with_clock(Arc::clone(&clock) as _);
        let minute = Duration::from_mins(1);
        let wanted = |who: &str| {
            let (key, holder) = (Key::new("k"), Holder::new(who));
            let ttl = Ttl::new(minute).expect("valid");
            let wanted = Acquire::new(key.expect("valid"), holder.expect("valid"), ttl);
            wanted.request_id(RequestId::new(who).expect("valid"))
        };
        let acquire = async |who: &str| leases.acquire(wanted(who)).await.expect("an answer");
        let acquired = acquire("a").await;
        assert_eq!(
            told(&acquired),
            ("acquired".to_owned(), vec![("Grants", 1)])
        );
        assert_eq!(
            told(&acquire("a").await),
            ("acquired".to_owned(), vec![("Replays", 1)])
        );
        assert_eq!(
            told(&acquire("b").await),
            ("held".to_owned(), vec![("Refusals", 1)])
        );
        let lease = acquired.granted().expect("a grant").lease;
        let token = Some(lease.fencing_token);
        let extend = async || {
            let extended = leases.extend(&lease, ExtendOptions::default()).await;
            extended.expect("an answer")
        };
        assert_eq!(told(&extend().await), ("extended".to_owned(), vec![]));
        clock.advance(minute);
        let revived = extend().await;
        assert_eq!(told(&revived), ("revived".to_owned(), vec![("Revived", 1)]));
        assert_eq!(summary(&revived).fencing_token, token);
        clock.advance(minute * 2);
        assert_eq!(
            told(&acquire("b").await),
            ("acquired".to_owned(), vec![("TakeOvers", 1)])
        );
        let shown = leases.inspect(&lease.key).await.expect("an answer");
        assert!(summary(&shown).fencing_token > token);
        assert_eq!(told(&shown), ("found".to_owned(), vec![]));
        let released = leases.release(&lease).await.expect("an answer");
        assert_eq!(told(&released), ("lost".to_owned(), vec![("Lost", 1)]));
    }

    /// The grant of a waiter is counted where it is made, and not again.
    #[test]
    fn uncounted_responses_have_a_word() {
        let batch = |failed: &[&str]| {
            let mut batch = SqsBatchResponse::default();
            for id in failed {
                batch.add_failure(*id);
            }
            Handled::<Reaped>::Batch(batch)
        };
        assert_eq!(told(&Queued::Acquired), ("acquired".to_owned(), vec![]));
        assert_eq!(
            told(&Queued::Queued { ticket: 5 }),
            ("queued".to_owned(), vec![])
        );
        assert_eq!(told(&LeasePage::default()), ("listed".to_owned(), vec![]));
        assert_eq!(told(&batch(&[])), ("done".to_owned(), vec![]));
        assert_eq!(told(&batch(&["1"])), ("done_in_part".to_owned(), vec![]));
        let done = Handled::Done(Reaped::Running);
        assert_eq!(told(&done), ("running".to_owned(), vec![]));
    }

    #[test]
    fn sweep_counts_corrupt_items_if_any() {
        let swept = |examined, freed, skipped_corrupt| Swept {
            examined,
            freed,
            skipped_corrupt,
            ..Swept::default()
        };
        let sweeps = |examined, freed| {
            vec![
                ("Sweeps", 1),
                ("SweepExamined", examined),
                ("SweepFreed", freed),
            ]
        };
        assert_eq!(told(&swept(7, 2, 0)), ("swept".to_owned(), sweeps(7, 2)));
        let corrupt = [sweeps(3, 0), vec![("Corrupt", 3)]].concat();
        assert_eq!(told(&swept(3, 0, 3)), ("swept".to_owned(), corrupt));
    }
}
