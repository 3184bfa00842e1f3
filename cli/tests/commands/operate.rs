//! `leasehold force-release`, `freeze`, `unfreeze`, `extend`, `release` and `table`: their effects, questions and refusals.

use std::time::Duration;

use crate::fixture::{Fixture, ended, masked};
use leasehold::LeaseState;
use leasehold_local::create_table;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const LONG: Duration = Duration::from_secs(600);
const BECAUSE: &str = "--who alice --why 'ticket 7'";

#[tokio::test]
async fn nobody_is_evicted_without_a_yes() {
    let fixture = Fixture::start().await;
    let lease = fixture.grant("k", "worker 7", LONG).await.lease;
    let ask = format!("force-release k {BECAUSE}");
    let refused = fixture.run(&ask).await;
    refused.is(2, "");
    refused.err_has("holder   worker 7\n");
    assert!(refused.err.ends_with("leasehold: cannot ask for confirmation: this is not a terminal\nleasehold:   use --yes to confirm\n"));
    for act in ["freeze k", "unfreeze k", "limit k 2"] {
        fixture.exits(2, format!("{act} {BECAUSE}")).await;
    }
    let seen = fixture.inspect("k").await;
    assert_eq!((seen.state, seen.frozen), (LeaseState::Held, false));

    let ran = fixture.run(format!("{ask} --yes")).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let above = lease.fencing_token.get() + 1;
    assert_eq!(
        ran.out,
        format!(
            "k is released; worker 7 had it\nwrite to the resource with token {above}, so that it refuses this holder's writes\n"
        )
    );
    let again = fixture.run(format!("{ask} --yes")).await;
    again.is(1, "nobody holds k\n");
}

#[tokio::test]
async fn signing_identity_is_recorded() {
    let fixture = Fixture::start().await;
    let freeze = format!("freeze k {BECAUSE} --yes");
    let unfreeze = format!("unfreeze k {BECAUSE} --yes");
    let record = async || {
        let shown = fixture.run("show k --json").await;
        serde_json::from_str::<Value>(&shown.out).unwrap()["operator"].clone()
    };
    // With another DynamoDB endpoint STS is not called.
    fixture.exits(0, &freeze).await;
    assert_eq!(record().await["who"], "alice");
    assert!(record().await["caller"].is_null());

    let arn = "arn:aws:sts::123456789012:assumed-role/Operators/alice";
    let answer = format!(
        "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult><Arn>{arn}</Arn>\
         <UserId>A:alice</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
    );
    let sts = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", sts.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut asking, _) = sts.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = asking.read(&mut request).await.unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/xml\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        asking.write_all((head + &answer).as_bytes()).await.unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let mut command = fixture.command(&unfreeze);
    command.env("AWS_ENDPOINT_URL_STS", url);
    assert_eq!(ended(command).await.code, Some(0));
    assert!(served.await.unwrap().starts_with("POST / HTTP/1.1"));
    assert_eq!(record().await["caller"], arn);
    fixture.run("show k").await.out_has(arn);

    // An unreachable STS does not prevent the act.
    let mut command = fixture.command(&freeze);
    command.env("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9");
    assert_eq!(ended(command).await.code, Some(0));
    assert!(record().await["caller"].is_null());
}

#[tokio::test]
async fn several_permits_need_a_number() {
    let fixture = Fixture::start().await;
    for _ in 0..2 {
        fixture.exits(0, "acquire p --permits 3 --ttl 10m").await;
    }
    let ask = format!("force-release p --yes {BECAUSE}");
    let refused = fixture.exits(2, &ask).await;
    refused.err_has("2 permits of p are held: name one");
    let named = refused.err.split("--permit ").nth(1).unwrap();
    let named = named.split(|c: char| !c.is_ascii_digit());
    let permits: Vec<_> = named.filter(|number| !number.is_empty()).collect();
    let [permit, other] = permits[..] else {
        panic!("{refused:?}");
    };
    let printed = fixture
        .run(format!("{ask} --permit {permit} --json"))
        .await
        .json();
    assert_eq!(printed["outcome"], "forced");
    assert_eq!(printed["evicted"]["permit"].to_string(), permit);
    let again = format!("{ask} --permit {permit}");
    let nobody = format!("nobody holds permit {permit} of p\n");
    let ran = fixture.run(&again).await;
    assert_eq!((ran.code, ran.out), (Some(1), nobody));
    let ran = fixture.run(format!("{ask} --permit {other}")).await;
    let free = format!("permit {other} of p is released; ");
    ran.out_begins(&free);
}

#[tokio::test]
async fn frozen_key_is_not_granted() {
    let fixture = Fixture::start().await;
    fixture.grant("k", "worker 7", LONG).await;
    let act = |what: &'static str| format!("{what} k --yes {BECAUSE}");
    let ran = fixture.run(&act("freeze")).await;
    ran.is(0, "k is frozen\n");
    assert_eq!(
        ran.err,
        "leasehold: worker 7 still holds the key, until it releases the lease or the lease ends\n"
    );
    let ran = fixture.run(&act("freeze")).await;
    ran.is(0, "k was already frozen\n");
    fixture.exits(0, &act("force-release")).await;
    let refused = fixture.exits(75, "acquire k --no-wait -- true").await;
    refused.err_begins("leasehold: k is frozen by an operator: ticket 7 (alice, ");
    let ran = fixture.run(format!("{} --json", act("unfreeze"))).await;
    ran.is(0, "{\"outcome\":\"unfrozen\"}\n");
    let ran = fixture.run(&act("unfreeze")).await;
    ran.is(1, "k was not frozen\n");
    assert_eq!(
        fixture.run("acquire k --no-wait -- true").await.code,
        Some(0)
    );
}

const UNUSED: &str = "leasehold: k has never been leased; if it is a pool, name it with --pool\n";

#[tokio::test]
async fn limit_overrides_requested_permits() {
    let fixture = Fixture::start().await;
    let limit = |n: &'static str| format!("limit k {n} --yes {BECAUSE}");
    fixture.run(&limit("none")).await.is(1, "k had no limit\n");
    let ran = fixture.run(&limit("1")).await;
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (Some(0), "k is limited to 1\n", UNUSED)
    );
    let one_of_two = "acquire k --permits 2 --no-wait";
    fixture.exits(0, one_of_two).await;
    fixture.exits(75, one_of_two).await;
    let shown = fixture.run("show k").await.out;
    assert!(shown.contains("limit     1, by alice "), "{shown}");

    let ran = fixture.run(&limit("0")).await;
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str()),
        (
            "k is limited to 0: nobody is granted it\n",
            "leasehold: held now: 1; the limit takes effect as leases end\n"
        )
    );
    fixture.exits(75, one_of_two).await.err_has("k is held by ");
    let end = format!("force-release k --yes {BECAUSE}");
    fixture.exits(0, &end).await;
    let refused = fixture.exits(75, one_of_two).await;
    let said = "leasehold: k is limited to 0 by an operator: ticket 7 (alice, ";
    refused.err_begins(said);
    refused.err_has("`leasehold limit k none ");
    let ran = fixture.run(format!("{} --json", limit("none"))).await;
    assert_eq!(ran.out, "{\"outcome\":\"unlimited\"}\n");
    fixture.exits(0, one_of_two).await;
    for bad in ["1001", "-1", "two"] {
        fixture.exits(2, &limit(bad)).await;
    }
}

#[tokio::test]
async fn show_names_different_numbers_of_permits() {
    let fixture = Fixture::start().await;
    let ask = async |permits| {
        let one = format!("acquire k --permits {permits} --no-wait");
        fixture.run(&one).await.code
    };
    let shown = async || fixture.run("show k").await.out;
    assert_eq!([ask("3").await, ask("3").await], [Some(0); 2]);
    assert!(!shown().await.contains("callers"), "{}", shown().await);
    let limit = async |permits| {
        let limit = format!("limit k {permits} --yes {BECAUSE}");
        fixture.run(&limit).await.code
    };
    assert_eq!(limit("3").await, Some(0));
    assert_eq!(ask("2").await, Some(0));
    let said = "permits   callers ask for 2, 3; the limit counts\n";
    assert!(shown().await.contains(said), "{}", shown().await);
    assert_eq!(limit("none").await, Some(0));
    let said = "callers ask for 2, 3; the smallest of those who have one counts\n";
    assert!(shown().await.contains(said), "{}", shown().await);
    assert_eq!(ask("4").await, Some(75));
    let seen = fixture.run("show k --json").await.out;
    let seen: Value = serde_json::from_str(&seen).unwrap();
    let permits = seen["permits"].as_array().unwrap().iter();
    let numbers = permits.map(|one| one["lease"]["permits"].as_u64().unwrap());
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3, 3]);
}

#[tokio::test]
async fn key_stays_closed_after_grant() {
    let fixture = Fixture::start().await;
    let nightly = "acquire k --at-least 10m --no-wait -- true";
    fixture.exits(0, nightly).await;
    fixture.exits(75, nightly).await.err_has("k is closed ");
    let seen = fixture.inspect("k").await;
    assert_eq!(seen.state, LeaseState::Closed);
    let shown = fixture.run("show k").await.out;
    assert!(
        shown.contains("state       closed after its last grant\n"),
        "{shown}"
    );
    assert!(shown.contains("opens       "), "{shown}");
    // Each permit for itself.
    let paced = nightly.replace("acquire k", "acquire p --permits 2");
    for code in [0, 0, 75] {
        fixture.exits(code, &paced).await;
    }
    let shown = fixture.run("show p").await.out;
    assert_eq!(shown.matches("closed  in ").count(), 2, "{shown}");
    let too_long = "acquire k --at-least 2d --no-wait -- true";
    fixture.exits(2, too_long).await;
}

#[tokio::test]
async fn handle_works_without_showing_secret() {
    let fixture = Fixture::start().await;
    let ran = fixture.run("acquire k --ttl 5m").await;
    let printed = ran.json();
    let secret = printed["lease"]["lease_id"].as_str().unwrap().to_owned();
    let file = fixture.home().join("handle.json");
    std::fs::write(&file, &ran.out).unwrap();
    let file = file.to_str().unwrap();
    let ran = fixture
        .run(&["extend", "--handle", file, "--ttl", "20m"])
        .await;
    assert_eq!(
        (ran.code, masked(&ran.out).as_str()),
        (Some(0), "k extended until TIME (in 19 min N s)\n"),
        "{ran:?}"
    );
    // From standard input, and as the bare handle, which a later version granted.
    let bare = fixture.home().join("bare.json");
    let mut handle = printed["lease"].clone();
    handle["of_a_later_version"] = "x".into();
    std::fs::write(&bare, handle.to_string()).unwrap();
    let mut command = fixture.command("extend --handle - --json");
    command.stdin(std::fs::File::open(bare).unwrap());
    let extended = ended(command).await.json();
    assert_eq!(extended["outcome"], "extended");
    let ran = fixture.run(&["release", "--handle", file]).await;
    ran.is(0, "k is free\n");
    let ran = fixture.run(&["release", "--handle", file, "--json"]).await;
    ran.is(0, "{\"outcome\":\"already_released\",\"expired\":false}\n");
    let ran = fixture.exits(79, &["extend", "--handle", file]).await;
    assert!(!ran.err.contains(&secret));
    let no_handle = printed.to_string().replace("\"holder\"", "\"owner\"");
    std::fs::write(file, no_handle).unwrap();
    for bad in [file, "/nowhere"] {
        let ran = fixture.run(&["release", "--handle", bad]).await;
        ran.is(2, "");
        assert!(!ran.err.contains(&secret), "{ran:?}");
    }
}

#[tokio::test]
async fn taken_over_lease_is_not_released() {
    let fixture = Fixture::start().await;
    let ran = fixture.run("acquire k --ttl 1s").await;
    let file = fixture.home().join("handle.json");
    std::fs::write(&file, &ran.out).unwrap();
    // As soon as its ttl and the margin have passed.
    fixture
        .exits(0, "acquire k --holder another --ttl 10m")
        .await;
    let ran = fixture
        .run(&["release", "--handle", file.to_str().unwrap()])
        .await;
    ran.is(
        79,
        "k was not released: your lease expired and was taken over, or an operator ended it\n",
    );
    assert_eq!(fixture.inspect("k").await.state, LeaseState::Held);
}

#[tokio::test]
async fn table_is_created_or_lack_named() {
    let fixture = Fixture::without_table().await;
    let ran = fixture.exits(3, "table check").await;
    ran.err_has("there is no table leases");
    for _ in 0..2 {
        let ran = fixture.run("table create").await;
        ran.is(0, "table leases is ready\n");
    }
    let ran = fixture.exits(0, "table check").await;
    ran.out_begins("leases is a lease table\nnote: ");

    let other = create_table(&fixture.client, "other", &["pk"], None).await;
    other.unwrap();
    let ran = fixture.exits(1, "table check --table other").await;
    let lines: Vec<_> = ran.out.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "table other is not a lease table:",
            "  its keys are not pk (HASH) and sk (RANGE)"
        ]
    );
    for lacks in [
        "  its attribute sk is not a string",
        "  its index held is missing or of another shape",
        "  its TTL attribute is not purge_at",
    ] {
        assert!(lines.contains(&lacks), "{lacks}: {lines:?}");
    }
    let printed = fixture.run("table check --table other --json").await.json();
    assert_eq!(printed["outcome"], "differs");
}
