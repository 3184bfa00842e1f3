use super::*;

/// Without it the one write of an acquire would wait for as long as a silent server does.
#[test]
fn a_client_without_limits_is_limited_in_each_call() {
    let without = || Builder::new().behavior_version_latest();
    let store = |config| DynamoDb::new(Client::from_conf(config), "leases");
    assert!(!store(without().build()).is_limited);
    assert!(store(Connection::pinned(without())).is_limited);
}
