//! Items that the library did not write are never changed.

use super::{Case, make, s};
use leasehold::{Error, row::Item, store::AttributeValue};

fn n(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// The faults of a held row that is not ours: an attribute, and the value that replaces it, if any. A condition can
/// see each of them. A fraction is not among them: the library notices it only if the write is refused anyway.
fn faults() -> Vec<(&'static str, Option<AttributeValue>)> {
    let number = |text: &str| Some(AttributeValue::N(text.to_owned()));
    vec![
        ("fencing_token", None),
        ("fencing_token", Some(s("7"))),
        ("fencing_token", number("-7")),
        ("fencing_token", number("1e38")),
        ("version", None),
        ("version", Some(n(0))),
        ("request", Some(n(1))),
        ("granted_to", None),
        ("holder", Some(s("another than it was granted to"))),
        ("holder", None),
        ("lease_id", None),
        ("ttl_ms", None),
        ("ttl_ms", Some(n(31_536_000_000))),
        ("acquired_at", Some(n(0))),
        ("expires_at", Some(s("tomorrow"))),
        ("ended", Some(s("released"))),
        ("metadata", Some(s("m"))),
        ("queue", None),
        ("queue", Some(s("l"))),
    ]
}

/// The faults of a free row that is not ours.
fn faults_of_a_free_row() -> Vec<(&'static str, Option<AttributeValue>)> {
    let number = |text: &str| Some(AttributeValue::N(text.to_owned()));
    vec![
        ("fencing_token", None),
        ("fencing_token", number("-7")),
        ("fencing_token", number("1e38")),
        ("version", Some(s("7"))),
        ("version", Some(n(0))),
        ("request", None),
        ("granted_to", None),
        ("granted_to", Some(n(1))),
        ("lease_id", Some(s("left behind"))),
        ("ended", None),
        ("ended", Some(s("somehow"))),
        ("ended", Some(n(1))),
        ("queue", None),
        ("queue", Some(s("l"))),
    ]
}

fn replace(item: &mut Item, name: &str, value: Option<AttributeValue>) {
    item.remove(name);
    item.extend(value.map(|value| (name.to_owned(), value)));
}

#[tokio::test]
async fn unheld_stranger_is_left_alone() {
    for (nth, (name, value)) in faults_of_a_free_row().into_iter().enumerate() {
        let case = Case::new(&format!("stranger/free/{nth}/{name}"));
        let lease = case.lease("a").await;
        case.give_back(&lease).await;
        case.tamper(|item| replace(item, name, value)).await;
        // Twice: if the first call had changed it, the second would fail otherwise.
        for _ in 0..2 {
            let refusals = [
                case.ask("b", "2").await.err(),
                case.leases.release(&lease).await.err(),
                case.leases.inspect(&lease.key).await.err(),
            ];
            for refusal in refusals {
                let Some(Error::Corrupt { reason, .. }) = refusal else {
                    panic!("{nth} {name}: {refusal:?}");
                };
                assert!(!reason.contains("changed"), "{nth} {name}: {reason}");
            }
        }
    }
}

#[tokio::test]
async fn a_stranger_is_left_alone() {
    for (nth, (name, value)) in faults().into_iter().enumerate() {
        let case = Case::new(&format!("stranger/{nth}/{name}"));
        let lease = case.lease("a").await;
        case.tamper(|item| replace(item, name, value)).await;
        for _ in 0..2 {
            refused!(case.ask("b", "2").await, Corrupt);
            refused!(case.extension(&lease).await, Corrupt);
            refused!(case.leases.release(&lease).await, Corrupt);
            refused!(case.leases.inspect(&lease.key).await, Corrupt);
            // Even long after it expired, nobody may take it.
            case.expire();
        }
    }
    let alien = Case::new("stranger/alien");
    alien
        .table
        .put(alien.address.clone(), &make::foreign_item());
    refused!(alien.ask("a", "1").await, Corrupt);
}
