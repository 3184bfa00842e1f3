//! What doctor asks of the functions, and what it reads of their answers.

use leasehold::{GrantKind, Lease, Previous, ReleaseOutcome};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::report::{Outcome, Step};

/// A request of acquire. It names one key or several.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AcquireRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) keys: Option<Vec<String>>,
    pub(super) holder: String,
    pub(super) request_id: &'static str,
    pub(super) ttl_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) permits: Option<u16>,
}

/// The handle of a lease. It is passed on whole, because functions of another version may have written fields into it that this one
/// does not know.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Handle {
    whole: Value,
    pub(super) lease: Lease,
}

impl TryFrom<Value> for Handle {
    type Error = serde_json::Error;

    fn try_from(whole: Value) -> Result<Self, serde_json::Error> {
        let lease = Lease::deserialize(&whole)?;
        Ok(Self { whole, lease })
    }
}

impl Serialize for Handle {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.whole.serialize(serializer)
    }
}

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole
    }
}

/// What acquire returned: a lease.
#[derive(Debug, Deserialize)]
pub(super) struct Granted {
    pub(super) lease: Handle,
    pub(super) previous: Option<Previous>,
}

/// What acquire returned: a lease, or one for each key.
#[derive(Debug, Deserialize)]
pub(super) struct Grants {
    lease: Option<Handle>,
    #[serde(default)]
    leases: Vec<Handle>,
    pub(super) grant: GrantKind,
}

impl Grants {
    pub(super) fn handles(self) -> Vec<Handle> {
        self.lease.into_iter().chain(self.leases).collect()
    }
}

/// What extend returned.
#[derive(Debug, Deserialize)]
pub(super) struct Extended {
    pub(super) lease: Handle,
}

/// What release returned.
#[derive(Debug, Deserialize)]
pub(super) struct Released {
    pub(super) outcome: ReleaseOutcome,
}

/// What a function returned, as far as doctor reads it.
pub(super) fn read<T: DeserializeOwned>(verb: &str, answer: Value) -> Step<T> {
    serde_json::from_value(answer).map_err(|error| {
        Outcome::fail(format!("what {verb} returned is not its response: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_handle_is_passed_on_whole() {
        let handle = json!({
            "key": "k", "holder": "h", "lease_id": "c0ffee", "fencing_token": 7, "version": 8, "ttl_seconds": 60,
            "acquired_at": "2027-01-15T08:00:00.000Z", "expires_at": "2027-01-15T08:01:00.000Z",
            "safe_until": "2027-01-15T08:00:59.000Z", "permit": 0, "metadata": {}, "later": [1],
        });
        let answer =
            json!({"outcome": "acquired", "lease": handle, "grant": "new", "previous": null});
        let granted: Granted = read("acquire", answer.clone()).unwrap();
        assert_eq!(granted.lease.lease.fencing_token.get(), 7);
        assert_eq!(serde_json::to_value(&granted.lease).unwrap(), handle);
        let grants: Grants = read("acquire", answer).unwrap();
        assert_eq!(grants.handles(), [granted.lease]);
    }

    #[test]
    fn another_answer_is_a_failure() {
        let held = json!({"outcome": "held", "held": {"key": "k"}});
        let outcome = read::<Granted>("acquire", held).unwrap_err();
        let said = "what acquire returned is not its response: missing field `lease`";
        assert_eq!(outcome, Outcome::fail(said));
    }
}
