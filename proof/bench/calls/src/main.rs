//! `calls <library|sdk> <acquire|extend|release> <leases> <calls>`: makes so many calls, one after the other, each about one of
//! the leases in the file, which are held, or for acquire were. `TABLE_URL` tells where the table `leases` is. Two runs with the
//! same file and different calls differ by what the calls take.

mod expressions;
mod raw_sdk;
mod wire;

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_types::SdkConfig;
use leasehold::{
    Acquire, Clock as _, Connection, DynamoDb, ExtendOptions, Holder, Key, Lease, Leases,
    RequestId, Settings, SystemClock, Ttl,
};

type Failed = Box<dyn std::error::Error>;

const HOLDER: &str = "arn:aws:states:us-east-1:123456789012:execution:deploy:7f3c";
const TTL: Duration = Duration::from_mins(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [by, operation, file, calls] = &arguments[..] else {
        return Err("calls <library|sdk> <acquire|extend|release> <leases> <calls>".into());
    };
    let leases: Vec<Lease> = serde_json::from_slice(&std::fs::read(file)?)?;
    let called = leases
        .get(..calls.parse()?)
        .ok_or("more calls than leases")?;
    let ambient = wire::config(wire::url()?, None);
    call(by, operation, &ambient, called).await
}

async fn call(
    by: &str,
    operation: &str,
    ambient: &SdkConfig,
    called: &[Lease],
) -> Result<(), Failed> {
    match by {
        "library" => {
            let store = DynamoDb::new(Connection::client(ambient), expressions::TABLE);
            library(&Leases::new(store, Settings::default()), operation, called).await
        }
        "sdk" => {
            let client = wire::patient(&raw_sdk::client(ambient));
            sdk(&client, operation, called).await
        }
        _ => Err("neither library nor sdk".into()),
    }
}

async fn library(
    leases: &Leases<DynamoDb>,
    operation: &str,
    called: &[Lease],
) -> Result<(), Failed> {
    for (row, lease) in called.iter().enumerate() {
        match operation {
            "acquire" => {
                let granted = leases.acquire(again(row, &lease.key)?).await?.granted()?;
                assert_ne!(granted.lease.fencing_token, lease.fencing_token);
            }
            "extend" => {
                let extended = leases.extend(lease, ExtendOptions::default()).await?;
                assert_eq!(extended.into_lease().fencing_token, lease.fencing_token);
            }
            "release" => {
                let _ = leases.release(lease).await?;
            }
            _ => return Err("no such operation".into()),
        }
    }
    Ok(())
}

async fn sdk(client: &Client, operation: &str, called: &[Lease]) -> Result<(), Failed> {
    for (row, lease) in called.iter().enumerate() {
        let now = SystemClock.now().as_millis();
        let token = lease.fencing_token.get();
        let proof = (lease.key.as_str(), lease.lease_id.expose(), token);
        match operation {
            "acquire" => {
                let id = format!("{row:032x}");
                let grant = raw_sdk::Grant {
                    key: lease.key.as_str(),
                    holder: HOLDER,
                    request: (row as u128).to_be_bytes(),
                    lease_id: &id,
                    now,
                    ttl_ms: 300_000,
                };
                assert_ne!(raw_sdk::acquire(client, &grant).await?, token);
            }
            "extend" => {
                let before = raw_sdk::extend(client, proof, now, 300_000).await?;
                assert_eq!(before, lease.expires_at.as_millis());
            }
            "release" => {
                let before = raw_sdk::release(client, proof, now).await?;
                assert_eq!(before, lease.expires_at.as_millis());
            }
            _ => return Err("no such operation".into()),
        }
    }
    Ok(())
}

fn again(row: usize, key: &Key) -> Result<Acquire, Failed> {
    let id = RequestId::new(format!("Acquire/2026-11-21T03:00:00.{row:03}Z"))?;
    let acquire = Acquire::new(key.clone(), Holder::new(HOLDER)?, Ttl::new(TTL)?);
    Ok(acquire.request_id(id))
}

#[cfg(test)]
mod equivalence;
