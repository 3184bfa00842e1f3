//! The same without a workflow: functions called directly, another lock client, and the bare SDK.

use aws_sdk_dynamodb::types::AttributeValue;
use serde::Serialize;
use serde_json::{Value, json};

use super::peers::lock_table;
use super::prices::Bill;
use super::spent::Spent;
use super::stage::{Stage, failed, told};
use crate::Error;

/// The table of `dynamodb-lease`.
const LEASES: &str = "leases";

/// What one kind of section takes without a workflow.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// What was called.
    pub name: &'static str,
    /// Whose it was.
    pub who: &'static str,
    /// What was spent on one section.
    pub spent: Spent,
}

impl Call {
    /// What has to be paid for it.
    #[must_use]
    pub fn bill(&self) -> Bill {
        bill(&self.spent, 0.0)
    }
}

/// What has to be paid for a scene, all its sections together, at so many transitions.
pub(super) fn bill(spent: &Spent, transitions: f64) -> Bill {
    Bill {
        transitions,
        invocations: crate::ratio(spent.invocations(), 1),
        write_units: spent.sections_asked.write_units + spent.tidying_asked.write_units,
        read_units: spent.sections_asked.read_units + spent.tidying_asked.read_units,
    }
}

/// A lock, an extend, a permit, two keys; and the others' locks.
pub(super) async fn calls(stage: &Stage) -> Result<Vec<Call>, Error> {
    let ours = "leasehold";
    let mut calls = Vec::new();
    for (name, wanted) in [
        ("a lock", json!({"key": "called"})),
        (
            "a permit of 5",
            json!({"key": "permits, called", "permits": 5}),
        ),
        (
            "two keys at once",
            json!({"keys": ["called/a", "called/b"]}),
        ),
    ] {
        let mark = stage.mark();
        let held = acquire(stage, wanted).await?;
        stage.call("ReleaseFunction", &held).await?;
        let mut spent = stage.spent(mark, &[]).await?;
        spent.sections = 1;
        calls.push(Call {
            name,
            who: ours,
            spent,
        });
    }
    let held = acquire(stage, json!({"key": "called, extended"})).await?;
    let mark = stage.mark();
    stage.call("ExtendFunction", &held).await?;
    let spent = stage.spent(mark, &[]).await?;
    calls.push(Call {
        name: "an extend",
        who: ours,
        spent,
    });

    let (other, direct) = (with_lease(stage).await?, direct(stage).await?);
    calls.push(Call {
        name: "a lock",
        who: "dynamodb-lease",
        spent: other,
    });
    calls.push(Call {
        name: "a lock",
        who: "direct calls",
        spent: direct,
    });
    Ok(calls)
}

/// What release and extend are given: the handles of what was wanted.
async fn acquire(stage: &Stage, mut wanted: Value) -> Result<Value, Error> {
    wanted["holder"] = "caller".into();
    wanted["ttl_seconds"] = 60.into();
    let acquired = stage.call("AcquireFunction", &wanted).await?;
    let name = if acquired["leases"].is_array() {
        "leases"
    } else {
        "lease"
    };
    Ok(json!({ name: acquired[name] }))
}

async fn with_lease(stage: &Stage) -> Result<Spent, Error> {
    let other = |error: &dyn std::fmt::Display| Error::Contestant {
        contestant: "dynamodb-lease",
        message: error.to_string(),
    };
    let aside = stage.database().await;
    let made = lock_table(&aside, LEASES, "key", Some("lease_expiry")).await;
    made.map_err(|error| failed(told(&error)))?;
    let client = stage.counted_database().await;
    let built = dynamodb_lease::Client::builder().build_and_check_db(client);
    let client = built.await.map_err(|error| other(&error))?;
    let mark = stage.mark();
    let lease = client
        .acquire("called")
        .await
        .map_err(|error| other(&error))?;
    lease.release().await.map_err(|error| other(&error))?;
    let mut spent = stage.spent(mark, &[]).await?;
    spent.sections = 1;
    Ok(spent)
}

/// As one writes it oneself: an item that exists while it is held.
async fn direct(stage: &Stage) -> Result<Spent, Error> {
    let aside = stage.database().await;
    let made = lock_table(&aside, "Direct", "name", None).await;
    made.map_err(|error| failed(told(&error)))?;
    let client = stage.counted_database().await;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let mark = stage.mark();
    let put = client.put_item().table_name("Direct");
    let put = put
        .item("name", text("called"))
        .item("holder", text("caller"));
    let put = put.condition_expression("attribute_not_exists(#name)");
    let put = put.expression_attribute_names("#name", "name").send().await;
    put.map_err(|error| failed(told(&error)))?;
    let delete = client
        .delete_item()
        .table_name("Direct")
        .key("name", text("called"));
    let delete = delete.condition_expression("holder = :holder");
    let delete = delete.expression_attribute_values(":holder", text("caller"));
    let deleted = delete.send().await;
    deleted.map_err(|error| failed(told(&error)))?;
    let mut spent = stage.spent(mark, &[]).await?;
    spent.sections = 1;
    Ok(spent)
}
