//! `calls <library|sdk> <acquire|extend|release> <leases> <calls>`: makes so many calls, one after the other, each about one of
//! the leases in the file, which are held, or for acquire were. `TABLE_URL` tells where the table `leases` is. Two runs with the
//! same file and different calls differ by what the calls take.

mod raw_sdk;
mod wire;

use std::time::Duration;

use leasehold::{
    Acquire, Connection, DynamoDb, ExtendOptions, Holder, Key, Lease, Leases, RequestId, Settings,
    Ttl,
};

type Failed = Box<dyn std::error::Error>;

const TABLE: &str = "leases";
const HOLDER: &str = "arn:aws:states:us-east-1:123456789012:execution:deploy:7f3c";
const TTL: Duration = Duration::from_mins(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [by, operation, file, calls] = &arguments[..] else {
        return Err("calls <library|sdk> <acquire|extend|release> <leases> <calls>".into());
    };
    let leases: Vec<Lease> = serde_json::from_slice(&std::fs::read(file)?)?;
    let calls: usize = calls.parse()?;
    let called = leases.get(..calls).ok_or("more calls than leases")?;
    let ambient = wire::config(wire::url()?);
    match by.as_str() {
        "library" => {
            let store = DynamoDb::new(Connection::client(&ambient), TABLE);
            let leases = Leases::new(store, Settings::default());
            for (row, lease) in called.iter().enumerate() {
                let token = library(&leases, operation, row, lease).await?;
                assert_eq!(token == lease.fencing_token.get(), operation != "acquire");
            }
        }
        "sdk" => {
            // Of all leases, so that two runs do the same before the calls.
            let kept = raw_sdk::Recorder::default();
            let store = DynamoDb::new(kept.client(&ambient), TABLE);
            let recorded = Leases::new(store, Settings::default());
            for (row, lease) in leases.iter().enumerate() {
                // It fails, since nothing is sent.
                let _ = library(&recorded, operation, row, lease).await;
            }
            let client = wire::patient(&raw_sdk::client(&ambient));
            let requests = kept.requests(&client)?;
            assert_eq!(requests.len(), leases.len(), "a request for each call");
            for (request, lease) in requests.iter().zip(called) {
                let token = raw_sdk::send(&client, request).await?;
                assert_eq!(token == lease.fencing_token.get(), operation != "acquire");
            }
        }
        _ => return Err("neither library nor sdk".into()),
    }
    Ok(())
}

/// One call. Answers the fencing token.
async fn library(
    leases: &Leases<DynamoDb>,
    operation: &str,
    row: usize,
    lease: &Lease,
) -> Result<u64, Failed> {
    let token = match operation {
        "acquire" => {
            let granted = leases.acquire(again(row, &lease.key)?).await?.granted()?;
            granted.lease.fencing_token
        }
        "extend" => {
            let extended = leases.extend(lease, ExtendOptions::default()).await?;
            extended.into_lease().fencing_token
        }
        "release" => {
            let _ = leases.release(lease).await?;
            lease.fencing_token
        }
        _ => return Err("no such operation".into()),
    };
    Ok(token.get())
}

fn again(row: usize, key: &Key) -> Result<Acquire, Failed> {
    let id = RequestId::new(format!("Acquire/2026-11-21T03:00:00.{row:03}Z"))?;
    let acquire = Acquire::new(key.clone(), Holder::new(HOLDER)?, Ttl::new(TTL)?);
    Ok(acquire.request_id(id))
}
