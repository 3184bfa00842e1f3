use super::*;
use crate::values::RequestId;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::BeforeSerializationInterceptorContextRef;
use aws_smithy_types::config_bag::ConfigBag;

/// Without it the one write of an acquire would wait for as long as a silent server does.
#[test]
fn a_client_without_limits_is_limited_in_each_call() {
    let without = || Builder::new().behavior_version_latest();
    let store = |config| DynamoDb::new(Client::from_conf(config), "leases");
    assert!(!store(without().build()).is_limited);
    assert!(store(Connection::pinned(without())).is_limited);
}

/// The SDK's defaults change with its versions, and wait for a silent server until the Lambda dies.
#[test]
fn time_limits_and_retries_are_the_pinned_ones() {
    let config = Connection::pinned(Builder::new().behavior_version_latest());
    let limits = config.timeout_config().unwrap();
    let milliseconds = |limit: Option<Duration>| limit.unwrap().as_millis();
    assert_eq!(milliseconds(limits.connect_timeout()), 500);
    assert_eq!(milliseconds(limits.operation_attempt_timeout()), 500);
    assert_eq!(milliseconds(limits.operation_timeout()), 1500);
    let retries = config.retry_config().unwrap();
    assert_eq!(retries.max_attempts(), 3);
    assert_eq!(milliseconds(Some(retries.initial_backoff())), 25);
    assert_eq!(milliseconds(Some(retries.max_backoff())), 250);
}

/// Records each request as its fields, before anything of it is sent.
#[derive(Clone, Debug, Default)]
struct Recorder(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

#[aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint]
impl Intercept for Recorder {
    fn name(&self) -> &'static str {
        "Recorder"
    }

    fn read_before_execution(
        &self,
        context: &BeforeSerializationInterceptorContextRef<'_>,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let mut requests = self.0.lock().unwrap();
        requests.push(format!("{:?}", context.input()));
        Err("nothing is sent".into())
    }
}

/// A read that may be old would let a holder be told of a lease that is over.
#[tokio::test]
async fn every_read_of_a_row_is_strongly_consistent() {
    let recorder = Recorder::default();
    let config = Builder::new()
        .behavior_version_latest()
        .interceptor(recorder.clone());
    let store = DynamoDb::new(Client::from_conf(config.build()), "leases");
    let (key, limit) = (Key::new("orders/42").unwrap(), Duration::from_secs(1));
    let address = Address {
        key: key.clone(),
        permit: 0,
    };
    let _ = store.read(&address, limit).await;
    let _ = store.read_key(&key, limit).await;
    let _ = store
        .waiter(
            &key,
            &RequestDigest::of(&Holder::new("me").unwrap(), &RequestId::random()),
            limit,
        )
        .await;
    let requests = recorder.0.lock().unwrap();
    assert_eq!(requests.len(), 3);
    for request in requests.iter() {
        assert!(request.contains("consistent_read: Some(true)"), "{request}");
    }
}
