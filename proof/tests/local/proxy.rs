//! The proxy between the real SDK and the embedded DynamoDB: what it counts, and every fault.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Config, Credentials, Region, retry::RetryConfig, timeout::TimeoutConfig,
};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem};
use leasehold_local::{Counts, DynamoDb, Fault, Proxy, Units, create_table, session_token};
use leasehold_proof::fixture::s;

struct Bench {
    client: Client,
    proxy: Proxy,
    _database: DynamoDb,
}

async fn bench(attempts: u32) -> Bench {
    let database = DynamoDb::start().await.unwrap();
    let proxy = Proxy::start(database.address(), 0).await.unwrap();
    let retries = RetryConfig::standard().with_max_attempts(attempts);
    let limits = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_millis(400));
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(
            "local",
            "local",
            Some(session_token().to_owned()),
            None,
            "test",
        ))
        .retry_config(retries.with_initial_backoff(Duration::from_millis(5)))
        .timeout_config(limits.build())
        .endpoint_url(proxy.url())
        .build();
    let client = Client::from_conf(config);
    create_table(&client, "rows", &["pk"], None).await.unwrap();
    proxy.reset();
    Bench {
        client,
        proxy,
        _database: database,
    }
}

impl Bench {
    async fn put(&self, pk: &str) -> Result<(), SdkError<PutItemError>> {
        let put = self.client.put_item().table_name("rows").item("pk", s(pk));
        let put = put.condition_expression("attribute_not_exists(pk)");
        let shown = ReturnValuesOnConditionCheckFailure::AllOld;
        let put = put.return_values_on_condition_check_failure(shown);
        put.send().await.map(drop)
    }

    async fn exists(&self, pk: &str) -> bool {
        let read = self.client.get_item().table_name("rows").key("pk", s(pk));
        let read = read.consistent_read(true).send().await;
        read.unwrap().item.is_some()
    }
}

fn transact_put(pk: &str) -> TransactWriteItem {
    let put = Put::builder().table_name("rows").item("pk", s(pk));
    TransactWriteItem::builder()
        .put(put.build().unwrap())
        .build()
}

#[tokio::test]
async fn proxy_counts_units_changing_nothing() {
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
async fn lost_answers_fail_in_five_ways() {
    for fault in Fault::LOST_ANSWERS {
        let bench = bench(3).await;
        bench.proxy.inject(fault, "PutItem", 1);
        let refused = bench.put("a").await.unwrap_err().into_service_error();
        let PutItemError::ConditionalCheckFailedException(refused) = refused else {
            panic!("{fault:?}: {refused:?}")
        };
        assert_eq!(refused.item().unwrap()["pk"], s("a"), "{fault:?}");
        assert_eq!(bench.proxy.counts().of("PutItem"), 2, "{fault:?}");
        assert_eq!(bench.proxy.pending_faults(), 0);
    }
}

#[tokio::test]
async fn unanswered_write_is_applied_and_unknown() {
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
async fn late_request_applies_after_caller_left() {
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
        let head =
            "POST / HTTP/1.1\r\nhost: localhost\r\nx-amz-target: DynamoDB_20120810.ListTables";
        let token = session_token();
        let request =
            format!("{head}\r\nx-amz-security-token: {token}\r\ncontent-length: 2\r\n\r\n{{}}");
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap_err().kind(), kind);
    }
}
