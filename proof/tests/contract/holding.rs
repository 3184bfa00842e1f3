//! What extend, release, sweep and inspect answer.

use std::collections::BTreeSet;

use serde_json::json;

use crate::functions::{Functions, HANDLE, HOLDER, fields, name_of, s};

#[tokio::test(flavor = "multi_thread")]
async fn extend_answers_as_the_contract_says() {
    let functions = Functions::start().await;
    let lease = functions.acquire("k", HOLDER, "1").await;
    // Engines of workflows may write whole numbers as floats.
    let mut floats = lease.clone();
    floats["permit"] = json!(0.0);
    let answer = functions
        .call("extend", json!({"lease": floats}))
        .await
        .unwrap();
    assert_eq!(fields(&answer), ["outcome", "lease"].into());
    assert_eq!(
        (&answer["outcome"], fields(&answer["lease"])),
        (&json!("extended"), HANDLE.into())
    );
    assert_eq!(answer["lease"]["fencing_token"], lease["fencing_token"]);

    // The sample handles ended in the past: what was not taken since is revived.
    functions.stand("extend").await;
    let answer = functions.event("extend").await.unwrap();
    assert_eq!(fields(&answer), ["outcome", "lease", "lapsed_ms"].into());
    assert_eq!(answer["outcome"], "revived");

    functions.stand("extend-expired").await;
    let (name, message) = functions.event("extend-expired").await.unwrap_err();
    assert_eq!(
        (name.as_str(), fields(&message)),
        ("Lease.Expired", ["message", "key"].into())
    );
    let answer = functions.event("extend-revived").await.unwrap();
    assert!(answer["lapsed_ms"].as_u64().unwrap() > 0);
    assert_eq!(answer["lease"]["ttl_seconds"], 600);

    let (name, message) = functions.event("extend-lost").await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["key"]),
        ("Lease.Lost", &json!("orders/52"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn release_answers_as_the_contract_says() {
    let functions = Functions::start().await;
    functions.stand("release").await;
    let released = json!({"outcome": "released", "expired": true});
    assert_eq!(functions.event("release").await.unwrap(), released);
    let already = json!({"outcome": "already_released", "expired": true});
    assert_eq!(functions.event("release").await.unwrap(), already);
    assert_eq!(functions.event("release-already").await.unwrap(), already);

    functions.stand("release-lost").await;
    functions.acquire("orders/62", "other", "1").await;
    let lost = json!({"outcome": "lost", "expired": true});
    assert_eq!(functions.event("release-lost").await.unwrap(), lost);
    let strict = functions.event("release-lost-strict").await;
    assert_eq!(name_of(&strict), "Lease.Lost");
    assert_eq!(strict.unwrap_err().1["key"], "orders/62");
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_answers_as_the_contract_says() {
    let functions = Functions::start().await;
    for name in ["release", "release-already", "release-lost"] {
        functions.stand(name).await;
    }
    functions
        .put("strange", [("holder".to_owned(), s("x"))].into())
        .await;
    let answer = functions.event("sweep-limited").await.unwrap();
    let counted = ["outcome", "examined", "freed", "granted", "skipped_corrupt"];
    assert_eq!(
        fields(&answer),
        counted.into_iter().chain(["cursor"]).collect()
    );
    assert_eq!(answer["examined"], 1);
    let next = functions
        .call("sweep", json!({"limit": 1, "cursor": answer["cursor"]}))
        .await;
    assert_eq!(next.unwrap()["examined"], 1);
    let freed = answer["freed"].as_u64().unwrap();
    let rest = functions.event("sweep").await.unwrap();
    assert_eq!(fields(&rest), counted.into());
    assert_eq!(
        (&rest["outcome"], &rest["skipped_corrupt"]),
        (&json!("swept"), &json!(1))
    );
    assert!(freed <= 1 && rest["freed"].as_u64().unwrap() <= 3);
    assert_eq!(
        functions.event("release").await.unwrap()["outcome"],
        "already_released"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_answers_as_the_contract_says() {
    let functions = Functions::start().await;
    assert_eq!(
        functions.event("inspect-absent").await.unwrap(),
        json!({"outcome": "absent"})
    );
    let lease = functions.acquire("orders/70", HOLDER, "1").await;
    let answer = functions.event("inspect").await.unwrap();
    assert_eq!(
        fields(&answer),
        ["outcome", "state", "lease", "previous", "frozen", "waiting"].into()
    );
    let without_secret: BTreeSet<_> = HANDLE.into_iter().filter(|f| *f != "lease_id").collect();
    assert_eq!(fields(&answer["lease"]), without_secret);
    assert_eq!(
        (&answer["outcome"], &answer["state"]),
        (&json!("found"), &json!("held"))
    );
    assert_eq!(
        (&answer["frozen"], &answer["waiting"]),
        (&json!(false), &json!(0))
    );
    for list in ["inspect-holder", "inspect-list"] {
        let listed = functions.event(list).await.unwrap();
        assert_eq!(fields(&listed), ["leases"].into());
        assert_eq!(listed["leases"], json!([answer["lease"]]));
    }
    functions
        .call("release", json!({"lease": lease}))
        .await
        .unwrap();
    let answer = functions.event("inspect").await.unwrap();
    assert_eq!(answer["state"], "free");
    assert_eq!(
        fields(&answer["lease"]),
        ["key", "fencing_token", "version", "permit"].into()
    );
    let token = &lease["fencing_token"];
    assert_eq!(
        answer["previous"],
        json!({"holder": HOLDER, "fencing_token": token, "ended": "released"})
    );
}
