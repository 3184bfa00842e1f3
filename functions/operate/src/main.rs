//! The acts of operators on a key: force-release, freeze, unfreeze, limit, raise-floor; the first and limit on a pool too. Who and why are required. To raise
//! the floor of a key that somebody holds fails with `Lease.Held`.

use leasehold::{
    AuditReason, Counter, Error, ForceReleaseOptions, ForceReleaseOutcome, FreezeOutcome, Key,
    LimitOutcome, LimitedTo, Operator, Permit, Queue, RaiseFloorOutcome, Reason, UnfreezeOutcome,
    store::Store,
};
use leasehold_lambda::{Fatal, Function, Names};
use serde::{Deserialize, Deserializer, Serialize};

/// What an operator does to a key or a pool, who does it, and why.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = leasehold_lambda::schema::rules::operate))]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// What to do.
    operation: Operation,
    /// To which key: this or `pool`.
    key: Option<Key>,
    /// To which pool, by its name: with `force_release` and `limit`.
    pool: Option<Key>,
    /// Who does it.
    who: Operator,
    /// The reason, a ticket for example; stored and logged.
    why: Reason,
    /// With `force_release`, which permit; required if more than one is held.
    permit: Option<Permit>,
    /// With `force_release`: end the grant with this fencing token and no later one.
    fencing_token: Option<Counter>,
    /// With `raise_floor`: the next fencing token is larger; now in milliseconds if left out.
    floor: Option<Counter>,
    /// With `limit`, which requires it: how many may hold the key at once, whatever they ask for; null for no limit.
    #[serde(default)]
    permits: Limited,
}

/// What the operator does.
#[derive(Clone, Copy, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Operation {
    /// Ends a grant that somebody else holds.
    ForceRelease,
    /// Keeps a key from being granted.
    Freeze,
    /// Lets it be granted again.
    Unfreeze,
    /// Ensures that the next token is above a floor.
    RaiseFloor,
    /// Sets how many may hold a key at once, or leaves that to the callers again.
    Limit,
}

/// A limit, or null for none, which is not the same as one that is left out.
#[derive(Clone, Copy, Default)]
enum Limited {
    #[default]
    Missing,
    To(Option<LimitedTo>),
}

impl<'de> Deserialize<'de> for Limited {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self::To)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Limited {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Limited".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Option::<LimitedTo>::json_schema(generator)
    }
}

/// The response of operate.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Answer {
    Forced(ForceReleaseOutcome),
    Freeze(FreezeOutcome),
    Unfreeze(UnfreezeOutcome),
    Limit(LimitOutcome),
    Raised(RaiseFloorOutcome),
}

impl leasehold_lambda::Request for Request {
    fn names(&self) -> Names<'_> {
        let Self {
            operation: _,
            key,
            pool,
            who: _,
            why: _,
            permit: _,
            fencing_token: _,
            floor: _,
            permits: _,
        } = self;
        Names::default().key(key).only_pool(pool)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new(env!("CARGO_PKG_NAME"))
        .that_notifies()
        .serve(handle)
        .await
}

pub(crate) async fn handle<S: Store>(queue: Queue<S>, request: Request) -> Result<Answer, Error> {
    let because = AuditReason {
        who: request.who,
        why: request.why,
    };
    let operation = request.operation;
    let key = match (request.key, request.pool) {
        (Some(key), None) => key,
        (None, Some(name)) if matches!(operation, Operation::ForceRelease | Operation::Limit) => {
            Key::of_pool(&name)
        }
        (None, Some(_)) => return Err(Error::invalid("pool", "goes with force_release and limit")),
        (Some(_), Some(_)) => return Err(Error::invalid("pool", "give key or pool, not both")),
        (None, None) => return Err(Error::invalid("key", "is required, or pool instead")),
    };
    let which = ForceReleaseOptions {
        permit: request.permit.map(Permit::get),
        fencing_token: request.fencing_token,
    };
    if operation != Operation::ForceRelease && which != ForceReleaseOptions::default() {
        let field = match which.permit {
            Some(_) => "permit",
            None => "fencing_token",
        };
        return Err(Error::invalid(field, "goes with force_release only"));
    }
    if request.floor.is_some() && operation != Operation::RaiseFloor {
        return Err(Error::invalid("floor", "goes with raise_floor only"));
    }
    if let Limited::To(_) = request.permits
        && operation != Operation::Limit
    {
        return Err(Error::invalid("permits", "goes with limit only"));
    }
    match operation {
        Operation::ForceRelease => queue
            .force_release(&key, which, &because)
            .await
            .map(Answer::Forced),
        Operation::Freeze => queue.freeze(&key, &because).await.map(Answer::Freeze),
        Operation::Unfreeze => queue.unfreeze(&key, &because).await.map(Answer::Unfreeze),
        Operation::Limit => {
            let Limited::To(permits) = request.permits else {
                return Err(Error::invalid("permits", "is required with limit"));
            };
            let limited = queue.limit_to(&key, permits, &because).await;
            limited.map(Answer::Limit)
        }
        Operation::RaiseFloor => queue
            .raise_floor(&key, request.floor, &because)
            .await
            .map(Answer::Raised),
    }
}
