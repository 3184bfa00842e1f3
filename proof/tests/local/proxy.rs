//! The proxy between the real SDK and the embedded DynamoDB: what it counts, and every fault.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Config, Credentials, Region, retry::RetryConfig, timeout::TimeoutConfig,
};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::{PutItemError, PutItemOutput};
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TimeToLiveSpecification,
    TransactWriteItem,
};
use leasehold_local::{Counts, DynamoDb, Fault, ManualClock, Proxy, Units, create_table};

struct Bench {
    client: Client,
    proxy: Proxy,
    database: DynamoDb,
}

async fn bench(attempts: u32) -> Bench {
    bench_on(DynamoDb::start().await.unwrap(), attempts).await
}

async fn bench_on(database: DynamoDb, attempts: u32) -> Bench {
    let proxy = Proxy::start(database.address(), 0).await.unwrap();
    let retries = RetryConfig::standard()
        .with_max_attempts(attempts)
        .with_initial_backoff(Duration::from_millis(5));
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .retry_config(retries)
        .timeout_config(
            TimeoutConfig::builder()
                .operation_attempt_timeout(Duration::from_millis(400))
                .build(),
        )
        .endpoint_url(proxy.url())
        .build();
    let client = Client::from_conf(config);
    create_table(&client, "rows", &["pk"], None).await.unwrap();
    proxy.reset();
    Bench {
        client,
        proxy,
        database,
    }
}

type Written =
    Result<PutItemOutput, SdkError<PutItemError, aws_sdk_dynamodb::config::http::HttpResponse>>;

impl Bench {
    async fn put(&self, pk: &str) -> Written {
        self.client
            .put_item()
            .table_name("rows")
            .item("pk", AttributeValue::S(pk.to_owned()))
            .condition_expression("attribute_not_exists(pk)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await
    }

    async fn exists(&self, pk: &str) -> bool {
        let read = self
            .client
            .get_item()
            .table_name("rows")
            .key("pk", AttributeValue::S(pk.to_owned()));
        read.consistent_read(true)
            .send()
            .await
            .unwrap()
            .item()
            .is_some()
    }
}

fn transact_put(pk: &str) -> TransactWriteItem {
    let put = Put::builder()
        .table_name("rows")
        .item("pk", AttributeValue::S(pk.to_owned()))
        .build()
        .unwrap();
    TransactWriteItem::builder().put(put).build()
}

#[tokio::test]
async fn requests_and_bytes_are_counted_by_operation() {
    let bench = bench(1).await;
    bench.put("a").await.unwrap();
    let before = bench.proxy.counts();
    bench.put("b").await.unwrap();
    assert!(bench.exists("b").await);
    assert!(!bench.exists("c").await);
    let counts = bench.proxy.counts();
    assert_eq!(
        (counts.of("PutItem"), counts.of("GetItem"), counts.total()),
        (2, 2, 4)
    );
    let added = counts.since(&before);
    let operations: Vec<_> = added
        .iter()
        .map(|(operation, tally)| (operation, tally.requests))
        .collect();
    assert_eq!(operations, [("GetItem", 2), ("PutItem", 1)]);
    assert!(added.tally("PutItem").request_bytes > 50 && added.tally("GetItem").answer_bytes > 10);
    bench.proxy.reset();
    assert_eq!(bench.proxy.counts().total(), 0);
}

#[tokio::test]
async fn units_are_counted_as_reported_and_what_is_refused_apart_and_bytes_stay_as_they_were() {
    let (counting, plain) = (bench(1).await, bench(1).await);
    counting.proxy.count_units();
    let step = |before: &Counts, operation: &str| {
        let added = counting.proxy.counts().since(before);
        added.tally(operation).units
    };
    let units = |write, read, refused| Units {
        write,
        read,
        refused,
    };
    let mut before = counting.proxy.counts();
    counting.put("a").await.unwrap();
    assert_eq!(step(&before, "PutItem"), units(1.0, 0.0, 0.0));
    before = counting.proxy.counts();
    counting.put("a").await.unwrap_err();
    assert_eq!(step(&before, "PutItem"), units(0.0, 0.0, 1.0));
    before = counting.proxy.counts();
    assert!(counting.exists("a").await);
    assert_eq!(step(&before, "GetItem"), units(0.0, 1.0, 0.0));
    before = counting.proxy.counts();
    let two = [transact_put("b"), transact_put("c")];
    let write = counting.client.transact_write_items();
    write
        .set_transact_items(Some(two.into()))
        .send()
        .await
        .unwrap();
    assert_eq!(step(&before, "TransactWriteItems"), units(4.0, 0.0, 0.0));

    plain.put("a").await.unwrap();
    plain.put("a").await.unwrap_err();
    assert!(plain.exists("a").await);
    for operation in ["PutItem", "GetItem"] {
        let bytes = |bench: &Bench| {
            let tally = bench.proxy.counts().tally(operation);
            (tally.request_bytes, tally.answer_bytes)
        };
        assert_eq!(bytes(&counting), bytes(&plain), "{operation}");
    }
    assert_eq!(plain.proxy.counts().units(), Units::default());
}

#[tokio::test]
async fn an_applied_write_whose_answer_is_lost_comes_back_as_a_refusal_in_five_ways() {
    for fault in Fault::LOST_ANSWERS {
        let bench = bench(3).await;
        bench.proxy.inject(fault, "PutItem", 1);
        let refused = bench.put("a").await.unwrap_err().into_service_error();
        let PutItemError::ConditionalCheckFailedException(refused) = refused else {
            panic!("{fault:?}: {refused:?}")
        };
        assert_eq!(
            refused.item().unwrap()["pk"],
            AttributeValue::S("a".to_owned()),
            "{fault:?}"
        );
        assert_eq!(bench.proxy.counts().of("PutItem"), 2, "{fault:?}");
        assert_eq!(bench.proxy.pending_faults(), 0);
    }
}

#[tokio::test]
async fn when_every_answer_is_lost_the_outcome_is_unknown_and_the_write_is_there() {
    for fault in Fault::LOST_ANSWERS {
        let bench = bench(2).await;
        bench.proxy.inject(fault, "PutItem", 2);
        let error = bench.put("a").await.unwrap_err();
        let refusal = Some("ConditionalCheckFailedException");
        assert_ne!(error.code(), refusal, "{fault:?}: {error:?}");
        assert!(bench.exists("a").await, "{fault:?}");
    }
}

#[tokio::test]
async fn what_is_lost_or_refused_before_the_database_is_not_applied() {
    let cases = [
        (
            Fault::Throttle,
            Some("ProvisionedThroughputExceededException"),
        ),
        (Fault::Conflict, Some("TransactionConflictException")),
        (Fault::ServerError, Some("InternalServerError")),
        (Fault::Denied, Some("AccessDeniedException")),
        (Fault::LoseRequest, None),
        (Fault::Hang, None),
    ];
    for (fault, code) in cases {
        let bench = bench(1).await;
        bench.proxy.inject(fault, "PutItem", 1);
        let error = bench.put("a").await.unwrap_err();
        assert_eq!(error.code(), code, "{fault:?}: {error:?}");
        match fault {
            Fault::LoseRequest => {
                assert!(matches!(error, SdkError::DispatchFailure(_)), "{error:?}");
            }
            Fault::Hang => assert!(matches!(error, SdkError::TimeoutError(_)), "{error:?}"),
            _ => {}
        }
        assert!(!bench.exists("a").await, "{fault:?}");
    }
}

#[tokio::test]
async fn what_is_late_is_applied_after_its_caller_has_gone() {
    let bench = bench(1).await;
    bench.proxy.inject(Fault::LateRequest, "PutItem", 1);
    let error = bench.put("a").await.unwrap_err();
    assert!(matches!(error, SdkError::DispatchFailure(_)), "{error:?}");
    assert!(!bench.exists("a").await, "not yet");
    let start = Instant::now();
    while !bench.exists("a").await {
        assert!(start.elapsed() < 20 * Fault::LATE, "it never comes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(bench.proxy.happened(), [Fault::LateRequest]);
}

#[tokio::test]
async fn a_reset_is_not_a_close() {
    for (fault, kind) in [
        (Fault::ResetAnswer, std::io::ErrorKind::ConnectionReset),
        (Fault::LoseAnswer, std::io::ErrorKind::UnexpectedEof),
    ] {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let bench = bench(1).await;
        bench.proxy.inject(fault, "ListTables", 1);
        let address = bench.proxy.url().replace("http://", "");
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = "POST / HTTP/1.1\r\nhost: localhost\r\nx-amz-target: DynamoDB_20120810.ListTables\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap_err().kind(), kind);
    }
}

#[tokio::test]
async fn a_conflict_cancels_a_transaction_with_a_reason_for_each_item() {
    let bench = bench(1).await;
    bench.proxy.inject(Fault::Conflict, "TransactWriteItems", 1);
    let write = bench
        .client
        .transact_write_items()
        .transact_items(transact_put("a"))
        .transact_items(transact_put("b"));
    let error = write.send().await.unwrap_err().into_service_error();
    let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(error) = error
    else {
        panic!("{error:?}")
    };
    let codes: Vec<_> = error
        .cancellation_reasons()
        .iter()
        .map(|reason| reason.code().unwrap())
        .collect();
    assert_eq!(codes, ["TransactionConflict", "None"]);
    assert!(!bench.exists("a").await);
}

#[tokio::test]
async fn a_fault_meets_only_the_requests_it_was_meant_for() {
    let bench = bench(1).await;
    bench
        .proxy
        .inject_matching(Fault::Denied, "PutItem", "\"b\"", 1);
    bench.put("a").await.unwrap();
    assert_eq!(bench.proxy.pending_faults(), 1);
    assert_eq!(
        bench.put("b").await.unwrap_err().code(),
        Some("AccessDeniedException")
    );
    bench.put("b").await.unwrap();

    bench.proxy.inject(Fault::Denied, "*", 2);
    assert!(bench.put("c").await.is_err());
    assert!(bench.client.list_tables().send().await.is_err());
    bench.put("c").await.unwrap();
}

#[tokio::test]
async fn latency_delays_each_request() {
    let bench = bench(1).await;
    bench.proxy.set_latency(Duration::from_millis(60));
    let start = Instant::now();
    bench.put("a").await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(60));
}

#[tokio::test]
async fn items_go_at_their_ttl_when_the_test_says_so() {
    let clock = ManualClock::new(1_800_000_000);
    let bench = bench_on(DynamoDb::start_with_clock(&clock).await.unwrap(), 1).await;
    let ttl = TimeToLiveSpecification::builder()
        .enabled(true)
        .attribute_name("purge_at")
        .build()
        .unwrap();
    bench
        .client
        .update_time_to_live()
        .table_name("rows")
        .time_to_live_specification(ttl)
        .send()
        .await
        .unwrap();
    let purge_at = AttributeValue::N("1800000010".to_owned());
    let put = bench
        .client
        .put_item()
        .table_name("rows")
        .item("pk", AttributeValue::S("a".to_owned()));
    put.item("purge_at", purge_at).send().await.unwrap();
    assert_eq!(bench.database.sweep_ttl().unwrap(), 0);
    clock.tick(Duration::from_mins(1));
    assert_eq!(bench.database.sweep_ttl().unwrap(), 1);
    assert!(!bench.exists("a").await);
}
