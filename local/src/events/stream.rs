//! Delivers records from a table's stream to a function, as an event source mapping does.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use dynoxide::Database;
use dynoxide::actions::get_records::GetRecordsRequest;
use dynoxide::actions::get_shard_iterator::GetShardIteratorRequest;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::batch;
use super::queues::Queues;
use crate::arn::REGION;
use crate::error::Error;
use crate::lambda::Invoker;
use crate::task::OwnedTask;
use crate::template::StreamSource;

/// The polling period. A hand-over through the stream is late by up to this time.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Starts reading a stream for a function, from its present end on. Records of one partition key stay in order.
/// Records of different keys are spread over the mapping's parallel lanes.
pub(super) fn start(
    source: StreamSource,
    database: Database,
    invoker: Invoker,
    queues: &Arc<Queues>,
) -> Result<Vec<OwnedTask>, Error> {
    let source = Arc::new(source);
    let invoker = Arc::new(invoker);
    let mut tasks = Vec::new();
    let mut lanes = Vec::new();
    for _ in 0..source.lanes {
        let (lane, records) = mpsc::unbounded_channel();
        lanes.push(lane);
        tasks.push(OwnedTask::spawn(run_lane(
            Arc::clone(&source),
            Arc::clone(&invoker),
            Arc::clone(queues),
            records,
        )));
    }
    let mut place = end_of(&database, &source)?;
    tasks.push(OwnedTask::spawn(async move {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let records = match read(&mut place, &database, &source) {
                Ok(records) => records,
                Err(error) => {
                    tracing::error!(%error, table = source.table, "the stream cannot be read");
                    return;
                }
            };
            let mut sorted = vec![Vec::new(); lanes.len()];
            for record in records.into_iter().filter(|record| source.wants(record)) {
                sorted[lane_of(&record, lanes.len())].push(record);
            }
            for (lane, records) in lanes.iter().zip(sorted) {
                if !records.is_empty() && lane.send(records).is_err() {
                    return;
                }
            }
        }
    }));
    Ok(tasks)
}

async fn run_lane(
    source: Arc<StreamSource>,
    invoker: Arc<Invoker>,
    queues: Arc<Queues>,
    mut waiting: mpsc::UnboundedReceiver<Vec<Value>>,
) {
    let mut reads = Vec::new();
    while waiting.recv_many(&mut reads, usize::MAX).await > 0 {
        let records: Vec<Value> = reads.drain(..).flatten().collect();
        for batch in records.chunks(source.batch_size) {
            let delivered = batch::deliver(&source, &invoker, &queues, batch.to_vec()).await;
            if delivered.is_none() {
                return;
            }
        }
    }
}

/// The lane of a record. The partition key decides, so that the records of one key stay in order.
fn lane_of(record: &Value, lanes: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    record["dynamodb"]["Keys"]["pk"]
        .to_string()
        .hash(&mut hasher);
    usize::try_from(hasher.finish() % lanes as u64).unwrap_or(0)
}

/// The place at the end of the stream.
fn end_of(database: &Database, source: &StreamSource) -> Result<String, Error> {
    let request = GetShardIteratorRequest {
        stream_arn: source.stream_arn.clone(),
        shard_id: source.shard_id(),
        shard_iterator_type: "LATEST".to_owned(),
        sequence_number: None,
    };
    let found = database.get_shard_iterator(request);
    let found = found.map_err(|error| Error::DynamoDb(error.to_string()))?;
    Ok(found.shard_iterator.unwrap_or_default())
}

/// The records after a place, which moves on.
fn read(
    place: &mut String,
    database: &Database,
    source: &StreamSource,
) -> Result<Vec<Value>, Error> {
    let request = GetRecordsRequest {
        shard_iterator: place.clone(),
        limit: None,
    };
    let read = database.get_records(request);
    let read = read.map_err(|error| Error::DynamoDb(error.to_string()))?;
    *place = read.next_shard_iterator.unwrap_or_default();
    let records = read.records.into_iter().map(|record| {
        let mut record = serde_json::to_value(record).unwrap_or_default();
        // The embedded database writes a Region of its own, and leaves the event source to the reader.
        record["awsRegion"] = json!(REGION);
        record["eventSourceARN"] = json!(source.stream_arn);
        record
    });
    Ok(records.collect())
}
