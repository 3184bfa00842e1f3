//! `leasehold ls`, `show`, `holders` and `watch`: their text and JSON output, without secrets.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use crate::fixture::{Fixture, code, masked, signal};
use leasehold::{AuditReason, Key, Operator, Reason};
use leasehold_local::Fault;
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(600);

async fn filled() -> Fixture {
    let fixture = Fixture::start().await;
    for (key, holder) in [
        ("orders/1", "worker 1"),
        ("orders/2", "worker 1"),
        ("deploy", "bob\u{1b}[2J"),
    ] {
        fixture.grant(key, holder, LONG).await;
    }
    fixture
}

#[tokio::test]
async fn list_prints_table_or_json() {
    let fixture = filled().await;
    assert_eq!(fixture.secrets(), 3, "each run looks for them");
    let ran = fixture.exits(0, "ls").await;
    assert_eq!(
        masked(&ran.out),
        "KEY  STATE  ENDS  TOKEN  HOLDER\n\
         deploy  held  in 9 min N s  TOKEN  bob\\u001b[2J\n\
         orders/1  held  in 9 min N s  TOKEN  worker 1\n\
         orders/2  held  in 9 min N s  TOKEN  worker 1\n"
    );
    let printed = fixture
        .run("ls --prefix orders/ --limit 1 --json")
        .await
        .json();
    assert_eq!(printed["leases"].as_array().unwrap().len(), 1);
    let fields: Vec<_> = printed["leases"][0].as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        [
            "acquired_at",
            "expires_at",
            "fencing_token",
            "holder",
            "key",
            "metadata",
            "permit",
            "safe_until",
            "ttl_seconds",
            "version"
        ]
    );
    let nothing = fixture.run("ls --state expired").await;
    nothing.is(0, "");
    assert_eq!(nothing.err, "leasehold: no lease matches\n");
    let nothing = fixture.run("ls --state expired --json").await;
    assert_eq!(nothing.out, "{\"leases\":[\n]}\n");
}

#[tokio::test]
async fn long_list_is_whole_and_aligned() {
    let fixture = Fixture::start().await;
    for n in 0..230 {
        fixture.grant(&format!("k{n:03}"), "h", LONG).await;
    }
    let ran = fixture.run("ls").await;
    let lines: Vec<_> = ran.out.lines().collect();
    assert_eq!(lines.len(), 231);
    let columns = |line: &str| line.find(" h").unwrap();
    assert!(
        lines[1..]
            .iter()
            .all(|line| columns(line) == columns(lines[1])),
        "{}",
        ran.out
    );
    let printed = fixture.run("ls --json").await.json();
    assert_eq!(printed["leases"].as_array().unwrap().len(), 230);
}

#[tokio::test]
async fn show_prints_all_of_a_key() {
    let fixture = filled().await;
    let key = Key::new("orders/1").unwrap();
    let _ = fixture.leases().freeze(&key, &incident()).await.unwrap();
    let ran = fixture.exits(0, "show orders/1").await;
    assert_eq!(
        masked(&ran.out),
        "key  orders/1\n\
         state  held, ends in 9 min N s unless extended\n\
         frozen  yes: no new grants\n\
         holder  worker 1\n\
         token  TOKEN\n\
         granted  TIME (N s ago)\n\
         ends  TIME\n\
         ttl  10 min\n\
         operator  freeze by alice N s ago: incident 77\n"
    );
    let printed = fixture.run("show orders/1 --json").await.json();
    assert_eq!(
        (&printed["outcome"], &printed["state"], &printed["frozen"]),
        (&"found".into(), &"held".into(), &true.into())
    );
    let absent = fixture.run("show nowhere").await;
    absent.is(1, "");
    assert_eq!(
        absent.err,
        "leasehold: nowhere was never leased, or its row has been purged\n"
    );
    let absent = fixture.run("show nowhere --json").await;
    absent.is(1, "{\n  \"outcome\": \"absent\"\n}\n");
}

fn incident() -> AuditReason {
    AuditReason {
        who: Operator::new("alice").unwrap(),
        why: Reason::new("incident 77").unwrap(),
    }
}

#[tokio::test]
async fn free_keys_are_counted_and_listed() {
    let fixture = filled().await;
    let leases = fixture.leases();
    let key = |key: &str| Key::new(key).unwrap();
    for frozen in ["orders/1", "idle"] {
        let _ = leases.freeze(&key(frozen), &incident()).await.unwrap();
    }
    let none = Some(leasehold::LimitedTo::new(0).unwrap());
    let _ = leases
        .limit_to(&key("idle"), none, &incident())
        .await
        .unwrap();
    let ran = fixture.run("ls").await;
    assert_eq!(
        ran.err,
        "leasehold: 2 keys frozen (--frozen); 1 key limited (--limited)\n"
    );
    let ran = fixture.run("ls --prefix deploy").await;
    assert_eq!(ran.err, "");
    let ran = fixture.exits(0, "ls --frozen --waiting").await;
    assert_eq!(
        masked(&ran.out),
        "KEY  STATE  FROZEN  LIMIT  WAITING  HOLDER\n\
         idle  free  yes  0\n\
         orders/1  held  yes  worker 1\n"
    );
    let printed = fixture.run("ls --limited --json").await.json();
    let keys = printed["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(
        (
            &keys[0]["outcome"],
            &keys[0]["lease"]["key"],
            &keys[0]["limit"]["permits"]
        ),
        (&"found".into(), &"idle".into(), &0.into())
    );
    let ran = fixture.run("ls --waiting").await;
    assert_eq!(
        (ran.code, &*ran.err),
        (Some(0), "leasehold: no key matches\n")
    );
}

#[tokio::test]
async fn list_works_without_count_permission() {
    let fixture = filled().await;
    let on_the_table = "attribute_exists";
    fixture
        .proxy
        .inject_matching(Fault::Denied, "Scan", on_the_table, 1);
    let ran = fixture.exits(0, "ls").await;
    ran.err_has("needs dynamodb:Scan on the table");
}

#[tokio::test]
async fn unanswered_read_changed_nothing() {
    let fixture = filled().await;
    for (arguments, request) in [
        (&["ls"][..], "Scan"),
        (&["ls", "--waiting"], "Scan"),
        (&["show", "deploy"], "Query"),
        (&["watch", "deploy"], "Query"),
        (&["holders", "bob"], "Query"),
        (&["table", "check"], "DescribeTable"),
    ] {
        fixture.proxy.reset();
        fixture.proxy.inject(Fault::ServerError, request, 10);
        let ran = fixture.exits(3, arguments).await;
        assert!(!ran.err.contains("outcome is unknown"), "{ran:?}");
    }
}

#[tokio::test]
async fn semaphore_shows_permits_held() {
    let fixture = Fixture::start().await;
    let lease = fixture.grant_permit("pool", "a", 3).await;
    fixture.grant_permit("pool", "b", 3).await;
    let _ = fixture.leases().release(&lease).await.unwrap();
    let ran = fixture.run("show pool").await;
    let said = masked(&ran.out);
    assert!(said.contains("\npermits  1 of 2 held\n"), "{said}");
}

#[tokio::test]
async fn holders_are_listed_with_leases() {
    let fixture = filled().await;
    let ran = fixture.run("holders").await;
    assert_eq!(
        masked(&ran.out),
        "LEASES  FIRST ENDS  HOLDER  KEYS\n\
         1  in 9 min N s  bob\\u001b[2J  deploy\n\
         2  in 9 min N s  worker 1  orders/1, orders/2\n"
    );
    let printed = fixture.run("holders --json").await.json();
    assert_eq!(printed["holders"][1]["holder"], "worker 1");
    assert_eq!(printed["holders"][1]["leases"].as_array().unwrap().len(), 2);
    let printed = fixture.run("holders 'worker 1' --json").await.json();
    assert_eq!(printed["leases"][1]["key"], "orders/2");
    fixture.run("holders nobody").await.is(1, "");
}

#[tokio::test]
async fn watch_prints_changes_by_line() {
    let fixture = Fixture::start().await;
    let held = fixture.grant("a", "worker 1", LONG).await.lease;
    let mut command = fixture.command("watch --every 1s");
    let mut watch = command.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let (sender, mut printed) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || lines.try_for_each(|line| sender.send(line.unwrap()).map_err(drop)));
    let mut next = async || masked(&(printed.recv().await.unwrap() + "\n"));
    assert_eq!(
        next().await,
        "TIME a held by worker 1 until TIME, token TOKEN\n"
    );
    let extended = fixture
        .leases()
        .extend(&held, leasehold::ExtendOptions::default())
        .await;
    let lease = extended.unwrap().into_lease();
    assert_eq!(next().await, "TIME a extended by worker 1 until TIME\n");
    let _ = fixture.leases().release(&lease).await.unwrap();
    assert_eq!(next().await, "TIME a free, after token TOKEN\n");
    signal(watch.id(), Signal::TERM);
    assert_eq!(code(watch).await, Some(0));
}
