//! Items that the library did not write are never touched.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Bench, Case};
use crate::{
    Error, ExtendOptions,
    row::{Item, n, s},
};

pub(super) async fn all<B: Bench>(bench: &B) {
    a_stranger_is_left_alone(bench).await;
}

type Tamper = (&'static str, fn(&mut Item));

/// What makes a held row somebody else's. Each is one that a condition can see; a fraction is
/// visible only as long as nobody may write the row anyway.
const FAULTS: [Tamper; 16] = [
    ("no token", |i| drop(i.remove("fencing_token"))),
    ("token of text", |i| {
        drop(i.insert("fencing_token".into(), s("7")))
    }),
    ("token below zero", |i| {
        drop(i.insert("fencing_token".into(), AttributeValue::N("-7".into())))
    }),
    ("huge token", |i| {
        drop(i.insert("fencing_token".into(), AttributeValue::N("1e38".into())))
    }),
    ("no version", |i| drop(i.remove("version"))),
    ("version zero", |i| drop(i.insert("version".into(), n(0)))),
    ("request of another type", |i| {
        drop(i.insert("request".into(), n(1)))
    }),
    ("nobody it was granted to", |i| drop(i.remove("granted_to"))),
    ("another holder than it was granted to", |i| {
        drop(i.insert("holder".into(), s("other")))
    }),
    ("no lease_id", |i| drop(i.remove("lease_id"))),
    ("no holder", |i| drop(i.remove("holder"))),
    ("no ttl", |i| drop(i.remove("ttl_ms"))),
    ("ttl of a year", |i| {
        drop(i.insert("ttl_ms".into(), n(31_536_000_000)))
    }),
    ("acquired never", |i| {
        drop(i.insert("acquired_at".into(), n(0)))
    }),
    ("held and ended", |i| {
        drop(i.insert("ended".into(), s("released")))
    }),
    ("metadata of text", |i| {
        drop(i.insert("metadata".into(), s("m")))
    }),
];

async fn a_stranger_is_left_alone<B: Bench>(bench: &B) {
    for (name, tamper) in FAULTS {
        let case = Case::new(bench, &format!("stranger/{name}"));
        let lease = case.lease("a").await;
        case.tamper(tamper).await;
        for _ in 0..2 {
            let refusals = [
                case.ask("b", "2").await.err(),
                case.leases
                    .extend(&lease, ExtendOptions::default())
                    .await
                    .err(),
                case.leases.release(&lease).await.err(),
                case.leases.inspect(&lease.key).await.err(),
            ];
            for refusal in refusals {
                assert!(
                    matches!(refusal, Some(Error::Corrupt { .. })),
                    "{name}: {refusal:?}"
                );
            }
            // Long expired, it is still nobody's to take.
            case.expire();
        }
    }
    let alien = Case::new(bench, "stranger/alien");
    alien
        .bench
        .put(&alien.address, Item::from([("colour".into(), s("blue"))]))
        .await;
    let refusal = alien.ask("a", "1").await.err();
    assert!(
        matches!(refusal, Some(Error::Corrupt { .. })),
        "{refusal:?}"
    );
}
