//! `leasehold acquire`: the grant, the command's environment, and the end of a normal run.

use std::time::Duration;

use crate::fixture::{Fixture, code, ended, signal, until};
use leasehold::LeaseState;
use leasehold_local::Fault;
use rustix::process::Signal;

#[tokio::test]
async fn exit_code_is_passed_on() {
    let fixture = Fixture::start().await;
    for (command, code) in [
        (&["true"][..], 0),
        (&["false"], 1),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["leasehold-no-such-program"], 127),
        (&["/etc/passwd"], 126),
    ] {
        let arguments = [&["acquire", "k", "--"], command].concat();
        let ran = fixture.run(&arguments).await;
        assert_eq!(ran.code, Some(code), "{command:?} {ran:?}");
        assert_eq!(
            fixture.inspect("k").await.state,
            LeaseState::Free,
            "{command:?}"
        );
    }
}

#[tokio::test]
async fn command_gets_token_without_secret() {
    let fixture = Fixture::start().await;
    let print = "env; while read -r line; do echo \"in: $line\"; done; echo to stderr >&2; tr '\\0' '\\n' </proc/$PPID/cmdline; \
                 tr '\\0' '\\n' </proc/$PPID/environ";
    let mut command = fixture.command(&[
        "acquire",
        "orders/42",
        "--holder",
        "me",
        "--metadata",
        "why=test",
        "--",
        "sh",
        "-c",
        print,
    ]);
    let input = fixture.home().join("input");
    std::fs::write(&input, "one\ntwo\n").unwrap();
    command.stdin(std::fs::File::open(input).unwrap());
    fixture.proxy.reset();
    let ran = ended(command).await.ended(0);
    let token = fixture.inspect("orders/42").await.lease.fencing_token;
    for line in [
        "LEASEHOLD_KEY=orders/42",
        "LEASEHOLD_HOLDER=me",
        "LEASEHOLD_PERMIT=0",
        &format!("LEASEHOLD_FENCING_TOKEN={token}"),
        "in: one",
        "in: two",
    ] {
        assert!(
            ran.out.lines().any(|said| said == line),
            "{line}: {}",
            ran.out
        );
    }
    ran.out_has("\nLEASEHOLD_SAFE_UNTIL=20");
    assert_eq!(ran.err, "to stderr\n");
    // Neither the command's environment nor the wrapper's arguments contain the secret.
    assert!(fixture.secrets() > 0);
    fixture.keeps_secrets(&ran);
}

#[tokio::test]
async fn second_caller_fails_or_waits() {
    let fixture = Fixture::start().await;
    fixture
        .grant("k", "worker\u{1b}[2J 1", Duration::from_secs(30))
        .await;
    let refused = fixture.exits(75, "acquire k --no-wait -- true").await;
    refused.err_begins("leasehold: k is held by worker\\u001b[2J 1 for another 29 s");
    fixture.exits(9, "acquire k -n -E 9 -- true").await;
    let late = fixture.exits(75, "acquire k --wait 300ms -- true").await;
    late.err_has("retries for 0.3 s");

    let lease = fixture
        .grant("j", "worker 2", Duration::from_secs(30))
        .await
        .lease;
    let second = tokio::spawn(ended(fixture.command("acquire j -- echo ran")));
    let before = fixture.proxy.counts().of("UpdateItem");
    until("it asked twice", || {
        fixture.proxy.counts().of("UpdateItem") >= before + 2
    })
    .await;
    let _ = fixture.leases().release(&lease).await.unwrap();
    let ran = second.await.unwrap();
    ran.is(0, "ran\n");
}

#[tokio::test]
async fn without_command_prints_handle() {
    let fixture = Fixture::start().await;
    let arguments = ["acquire", "k", "--holder", "me", "--request-id", "1"];
    let printed = fixture.exits(0, &arguments).await.json();
    assert_eq!(
        (&printed["outcome"], &printed["grant"]),
        (&"acquired".into(), &"new".into())
    );
    assert_eq!(
        (&printed["lease"]["key"], &printed["lease"]["holder"]),
        (&"k".into(), &"me".into())
    );
    let again = fixture.run(&arguments).await.json();
    assert_eq!(again["grant"], "replayed");
    assert_eq!(again["lease"]["lease_id"], printed["lease"]["lease_id"]);
}

#[tokio::test]
async fn handle_file_is_private() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let fixture = Fixture::start().await;
    let path = fixture.home().join("handle.json");
    let name = path.to_str().unwrap();
    // A file that others can read is replaced by a private one.
    for before in [None, Some(0o644)] {
        if let Some(mode) = before {
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        }
        let ran = fixture.run(&["acquire", "k", "--handle-file", name]).await;
        ran.is(0, "");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fixture.inspect("k").await.state, LeaseState::Held);
        fixture.exits(0, &["release", "--handle", name]).await;
    }
    let files = std::fs::read_dir(fixture.home()).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let ours: Vec<_> = files.filter(|name| name.contains("handle")).collect();
    assert_eq!(ours, ["handle.json"]);

    let link = fixture.home().join("link");
    symlink(&path, &link).unwrap();
    let nowhere = fixture.home().join("nowhere/handle.json");
    for refused in [
        link.as_path(),
        fixture.home(),
        &nowhere,
        "/dev/null".as_ref(),
    ] {
        let name = refused.to_str().unwrap();
        let ran = fixture
            .exits(2, &["acquire", "k", "--handle-file", name])
            .await;
        ran.err_has(name);
        assert_eq!(fixture.inspect("k").await.state, LeaseState::Free);
    }
    let arguments = ["acquire", "k", "--handle-file", name, "--", "true"];
    fixture.exits(2, &arguments).await;
}

#[tokio::test]
async fn an_interrupted_wait_holds_nothing() {
    let fixture = Fixture::start().await;
    fixture.grant("k", "worker", Duration::from_secs(30)).await;
    let child = fixture.command("acquire k -- true").spawn().unwrap();
    until("it asked", || fixture.proxy.counts().of("UpdateItem") > 1).await;
    signal(child.id(), Signal::INT);
    assert_eq!(code(child).await, Some(130));
}

#[tokio::test]
async fn grant_after_giving_up_is_released() {
    let fixture = Fixture::start().await;
    fixture.proxy.set_latency(Duration::from_millis(300));
    let child = fixture.command("acquire k -- true").spawn().unwrap();
    until("it asked", || fixture.proxy.counts().of("UpdateItem") > 0).await;
    signal(child.id(), Signal::TERM);
    assert_eq!(code(child).await, Some(128 + 15));
    assert_eq!(fixture.inspect("k").await.state, LeaseState::Free);
}

#[tokio::test]
async fn ignored_signal_stays_ignored() {
    let fixture = Fixture::start().await;
    let line =
        "trap '' HUP; exec $LEASEHOLD acquire k -- sh -c 'kill -HUP $PPID; sleep 0.3; echo on'";
    let mut command = fixture.program("sh");
    command.args(["-c", line]);
    ended(command).await.is(0, "on\n");
}

/// Without its handle nobody could extend or release the lease.
#[tokio::test]
async fn undelivered_lease_is_released() {
    let fixture = Fixture::start().await;
    let full = std::fs::File::create("/dev/full").unwrap();
    let mut command = fixture.command("acquire k --ttl 10m");
    command.stdout(full);
    ended(command).await.ended(1).err_has("k is released again");
    fixture.exits(0, "acquire k --no-wait -- true").await;
}

#[tokio::test]
async fn closed_output_acquires_nothing() {
    let fixture = Fixture::start().await;
    let mut command = fixture.program("sh");
    command.args(["-c", "$LEASEHOLD acquire k >&-"]);
    ended(command).await.ended(2).err_has("--handle-file");
    assert_eq!(fixture.proxy.counts().iter().count(), 0);
}

#[tokio::test]
async fn unanswered_request_can_be_repeated() {
    let fixture = Fixture::start().await;
    fixture.proxy.inject(Fault::LoseAnswer, "UpdateItem", 20);
    let ran = fixture.exits(3, "acquire k --no-wait").await;
    let (_, rest) = ran.err.split_once(" with --holder ").unwrap();
    let (given, _) = rest.split_once(" asks for").unwrap();
    let words = given.replace(" --request-id ", " ");
    let (holder, id) = words.split_once(' ').unwrap();
    fixture.proxy.reset();
    let again = [
        "acquire",
        "k",
        "--no-wait",
        "--holder",
        holder,
        "--request-id",
        id,
    ];
    let ran = fixture.exits(0, &again).await;
    ran.out_has("\"grant\": \"replayed\"");
}
