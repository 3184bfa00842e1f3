//! `leasehold force-release`, `freeze`, `unfreeze`, `extend`, `release` and `table`: their effects, questions and refusals.

use std::time::Duration;

use crate::fixture::{Fixture, ended, masked};
use leasehold::LeaseState;
use leasehold_local::create_table;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const LONG: Duration = Duration::from_secs(600);
const BECAUSE: [&str; 4] = ["--who", "alice", "--why", "ticket 7"];

#[tokio::test]
async fn nobody_is_evicted_without_a_yes() {
    let fixture = Fixture::start().await;
    let lease = fixture.grant("k", "worker 7", LONG).await.lease;
    let ask = [&["force-release", "k"][..], &BECAUSE].concat();
    let refused = fixture.run(&ask).await;
    assert_eq!(
        (refused.code, refused.out.as_str()),
        (Some(2), ""),
        "{refused:?}"
    );
    assert!(refused.err.contains("holder   worker 7\n"), "{refused:?}");
    assert!(refused.err.ends_with("leasehold: cannot ask for confirmation: this is not a terminal\nleasehold:   use --yes to confirm\n"));
    for act in [
        &["freeze", "k"][..],
        &["unfreeze", "k"],
        &["limit", "k", "2"],
    ] {
        let refused = fixture.run(&[act, &BECAUSE].concat()).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
    let seen = fixture.inspect("k").await;
    assert_eq!((seen.state, seen.frozen), (LeaseState::Held, false));

    let ran = fixture.run(&[&ask[..], &["--yes"]].concat()).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let above = lease.fencing_token.get() + 1;
    assert_eq!(
        ran.out,
        format!(
            "k is released; worker 7 had it\nwrite to the resource with token {above}, so that it refuses this holder's writes\n"
        )
    );
    let again = fixture.run(&[&ask[..], &["--yes"]].concat()).await;
    assert_eq!(
        (again.code, again.out.as_str()),
        (Some(1), "nobody holds k\n")
    );
}

#[tokio::test]
async fn signing_identity_is_recorded() {
    let fixture = Fixture::start().await;
    let freeze = [&["freeze", "k"][..], &BECAUSE, &["--yes"]].concat();
    let unfreeze = [&["unfreeze", "k"][..], &BECAUSE, &["--yes"]].concat();
    let record = async || {
        let shown = fixture.run(&["show", "k", "--json"]).await;
        serde_json::from_str::<Value>(&shown.out).unwrap()["operator"].clone()
    };
    // With another DynamoDB endpoint STS is not called.
    assert_eq!(fixture.run(&freeze).await.code, Some(0));
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
    let shown = fixture.run(&["show", "k"]).await;
    assert!(shown.out.contains(arn), "{shown:?}");

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
        let ran = fixture
            .run(&["acquire", "p", "--permits", "3", "--ttl", "10m"])
            .await;
        assert_eq!(ran.code, Some(0));
    }
    let ask = [&["force-release", "p", "--yes"][..], &BECAUSE].concat();
    let refused = fixture.run(&ask).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.err.contains("2 permits of p are held: name one"),
        "{refused:?}"
    );
    let named = refused.err.split("--permit ").nth(1).unwrap();
    let named = named.split(|c: char| !c.is_ascii_digit());
    let permits: Vec<_> = named.filter(|number| !number.is_empty()).collect();
    let [permit, other] = permits[..] else {
        panic!("{refused:?}");
    };
    let ran = fixture
        .run(&[&ask[..], &["--permit", permit, "--json"]].concat())
        .await;
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(printed["outcome"], "forced");
    assert_eq!(printed["evicted"]["permit"].to_string(), permit);
    let again = [&ask[..], &["--permit", permit]].concat();
    let nobody = format!("nobody holds permit {permit} of p\n");
    let ran = fixture.run(&again).await;
    assert_eq!((ran.code, ran.out), (Some(1), nobody));
    let ran = fixture
        .run(&[&ask[..], &["--permit", other]].concat())
        .await;
    let free = format!("permit {other} of p is released; ");
    assert!(ran.out.starts_with(&free), "{ran:?}");
}

#[tokio::test]
async fn frozen_key_is_not_granted() {
    let fixture = Fixture::start().await;
    fixture.grant("k", "worker 7", LONG).await;
    let act = |what: &'static str| [&[what, "k", "--yes"][..], &BECAUSE].concat();
    let ran = fixture.run(&act("freeze")).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "k is frozen\n"));
    assert_eq!(
        ran.err,
        "leasehold: worker 7 still holds the key, until it releases the lease or the lease ends\n"
    );
    let ran = fixture.run(&act("freeze")).await;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "k was already frozen\n")
    );
    let ran = fixture.run(&act("force-release")).await;
    assert_eq!(ran.code, Some(0));
    let refused = fixture
        .run(&["acquire", "k", "--no-wait", "--", "true"])
        .await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    assert!(
        refused
            .err
            .starts_with("leasehold: k is frozen by an operator: ticket 7 (alice, ")
    );
    let ran = fixture
        .run(&[&act("unfreeze")[..], &["--json"]].concat())
        .await;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "{\"outcome\":\"unfrozen\"}\n")
    );
    let ran = fixture.run(&act("unfreeze")).await;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(1), "k was not frozen\n")
    );
    assert_eq!(
        fixture
            .run(&["acquire", "k", "--no-wait", "--", "true"])
            .await
            .code,
        Some(0)
    );
}

const UNUSED: &str = "leasehold: k has never been leased; if it is a pool, name it with --pool\n";

#[tokio::test]
async fn limit_overrides_requested_permits() {
    let fixture = Fixture::start().await;
    let limit = |n: &'static str| [&["limit", "k", n, "--yes"][..], &BECAUSE].concat();
    let ran = fixture.run(&limit("none")).await;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(1), "k had no limit\n"),
        "{ran:?}"
    );
    let ran = fixture.run(&limit("1")).await;
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (Some(0), "k is limited to 1\n", UNUSED)
    );
    let one_of_two = ["acquire", "k", "--permits", "2", "--no-wait"];
    let handle = fixture.run(&one_of_two).await;
    assert_eq!(handle.code, Some(0), "{handle:?}");
    let second = fixture.run(&one_of_two).await;
    assert_eq!(second.code, Some(75), "{second:?}");
    let shown = fixture.run(&["show", "k"]).await.out;
    assert!(shown.contains("limit     1, by alice "), "{shown}");

    let ran = fixture.run(&limit("0")).await;
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str()),
        (
            "k is limited to 0: nobody is granted it\n",
            "leasehold: held now: 1; the limit takes effect as leases end\n"
        )
    );
    let refused = fixture.run(&one_of_two).await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    assert!(refused.err.contains("k is held by "), "{refused:?}");
    let end = [&["force-release", "k", "--yes"][..], &BECAUSE].concat();
    assert_eq!(fixture.run(&end).await.code, Some(0));
    let refused = fixture.run(&one_of_two).await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    let said = "leasehold: k is limited to 0 by an operator: ticket 7 (alice, ";
    assert!(refused.err.starts_with(said), "{refused:?}");
    assert!(
        refused.err.contains("`leasehold limit k none "),
        "{refused:?}"
    );
    let ran = fixture
        .run(&[&limit("none")[..], &["--json"]].concat())
        .await;
    assert_eq!(ran.out, "{\"outcome\":\"unlimited\"}\n");
    assert_eq!(fixture.run(&one_of_two).await.code, Some(0));
    for bad in ["1001", "-1", "two"] {
        let ran = fixture.run(&limit(bad)).await;
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
}

#[tokio::test]
async fn show_names_different_numbers_of_permits() {
    let fixture = Fixture::start().await;
    let ask = async |permits| {
        let one = ["acquire", "k", "--permits", permits, "--no-wait"];
        fixture.run(&one).await.code
    };
    let shown = async || fixture.run(&["show", "k"]).await.out;
    assert_eq!([ask("3").await, ask("3").await], [Some(0); 2]);
    assert!(!shown().await.contains("callers"), "{}", shown().await);
    let limit = async |permits| {
        let limit = [&["limit", "k", permits, "--yes"][..], &BECAUSE].concat();
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
    let seen = fixture.run(&["show", "k", "--json"]).await.out;
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
    let nightly = [
        "acquire",
        "k",
        "--at-least",
        "10m",
        "--no-wait",
        "--",
        "true",
    ];
    assert_eq!(fixture.run(&nightly).await.code, Some(0));
    let refused = fixture.run(&nightly).await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    assert!(refused.err.contains("k is closed "), "{refused:?}");
    let seen = fixture.inspect("k").await;
    assert_eq!(seen.state, LeaseState::Closed);
    let shown = fixture.run(&["show", "k"]).await.out;
    assert!(
        shown.contains("state       closed after its last grant\n"),
        "{shown}"
    );
    assert!(shown.contains("opens       "), "{shown}");
    // Each permit for itself.
    let paced = [&["acquire", "p", "--permits", "2"][..], &nightly[2..]].concat();
    for code in [0, 0, 75] {
        assert_eq!(fixture.run(&paced).await.code, Some(code));
    }
    let shown = fixture.run(&["show", "p"]).await.out;
    assert_eq!(shown.matches("closed  in ").count(), 2, "{shown}");
    let too_long = [
        "acquire",
        "k",
        "--at-least",
        "2d",
        "--no-wait",
        "--",
        "true",
    ];
    assert_eq!(fixture.run(&too_long).await.code, Some(2));
}

#[tokio::test]
async fn handle_works_without_showing_secret() {
    let fixture = Fixture::start().await;
    let ran = fixture.run(&["acquire", "k", "--ttl", "5m"]).await;
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
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
    let mut command = fixture.command(&["extend", "--handle", "-", "--json"]);
    command.stdin(std::fs::File::open(bare).unwrap());
    let extended = ended(command).await;
    let extended: Value = serde_json::from_str(&extended.out).unwrap();
    assert_eq!(extended["outcome"], "extended");
    let ran = fixture.run(&["release", "--handle", file]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "k is free\n"));
    let ran = fixture.run(&["release", "--handle", file, "--json"]).await;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            Some(0),
            "{\"outcome\":\"already_released\",\"expired\":false}\n"
        )
    );
    let ran = fixture.run(&["extend", "--handle", file]).await;
    assert_eq!(ran.code, Some(79), "{ran:?}");
    assert!(!ran.err.contains(&secret));
    let no_handle = printed.to_string().replace("\"holder\"", "\"owner\"");
    std::fs::write(file, no_handle).unwrap();
    for bad in [file, "/nowhere"] {
        let ran = fixture.run(&["release", "--handle", bad]).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
        assert!(!ran.err.contains(&secret), "{ran:?}");
    }
}

#[tokio::test]
async fn taken_over_lease_is_not_released() {
    let fixture = Fixture::start().await;
    let ran = fixture.run(&["acquire", "k", "--ttl", "1s"]).await;
    let file = fixture.home().join("handle.json");
    std::fs::write(&file, &ran.out).unwrap();
    // As soon as its ttl and the margin have passed.
    let taken = fixture
        .run(&["acquire", "k", "--holder", "another", "--ttl", "10m"])
        .await;
    assert_eq!(taken.code, Some(0), "{taken:?}");
    let ran = fixture
        .run(&["release", "--handle", file.to_str().unwrap()])
        .await;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            Some(79),
            "k was not released: your lease expired and was taken over, or an operator ended it\n"
        )
    );
    assert_eq!(fixture.inspect("k").await.state, LeaseState::Held);
}

#[tokio::test]
async fn table_is_created_or_lack_named() {
    let fixture = Fixture::without_table().await;
    let ran = fixture.run(&["table", "check"]).await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.err.contains("there is no table leases"), "{ran:?}");
    for _ in 0..2 {
        let ran = fixture.run(&["table", "create"]).await;
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (Some(0), "table leases is ready\n")
        );
    }
    let ran = fixture.run(&["table", "check"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.out.starts_with("leases is a lease table\nnote: "),
        "{ran:?}"
    );

    let other = create_table(&fixture.client, "other", &["pk"], None).await;
    other.unwrap();
    let ran = fixture.run(&["table", "check", "--table", "other"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
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
    let ran = fixture
        .run(&["table", "check", "--table", "other", "--json"])
        .await;
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(printed["outcome"], "differs");
}
