//! The program reports missing parts of its environment, with advice. And the pages generated from its description are current.

use crate::fixture::{Fixture, ended};
use std::io::{Read as _, Write as _};
use std::time::Duration;

use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat as Format};
use leasehold::{Clock as _, SystemClock};
use leasehold_local::{Fault, session_token};

#[tokio::test]
async fn missing_setting_is_named_with_cure() {
    let fixture = Fixture::start().await;
    let gone = |names: &[&str]| {
        let mut command = fixture.command("ls");
        for name in names {
            command.env_remove(name);
        }
        command
    };
    for (names, what, cure) in [
        (
            &["LEASE_TABLE"][..],
            "no table",
            "--table NAME, or set LEASE_TABLE",
        ),
        (&["AWS_REGION"], "no Region", "--region, or set AWS_REGION"),
        (
            &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
            "no AWS credentials could be loaded",
            "aws sso login",
        ),
    ] {
        let ran = ended(gone(names)).await;
        ran.is(3, "");
        let lines: Vec<_> = ran.err.lines().collect();
        assert!(
            lines[0].starts_with(&format!("leasehold: {what}")),
            "{ran:?}"
        );
        assert!(lines[1].contains(cure), "{ran:?}");
        assert_eq!(lines.len(), 2, "{ran:?}");
    }
    let mut bad = fixture.command("ls");
    bad.env("LEASE_GUARD_MS", "soon");
    ended(bad).await.ended(3).err_has("LEASE_GUARD_MS");
}

#[tokio::test]
async fn each_table_failure_has_its_text() {
    let fixture = Fixture::start().await;
    let ran = fixture.exits(3, "show k --table other").await;
    ran.err_has("there is no table other");
    ran.err_has("check --table");
    let ran = fixture.exits(3, "ls --table 'no table!'").await;
    ran.err_has("is not a valid table name");
    fixture.proxy.inject(Fault::Denied, "Query", 1);
    let ran = fixture.exits(3, "show k").await;
    ran.err_has("needs dynamodb:Query on table leases");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let ran = fixture
        .exits(3, &["show", "k", "--endpoint-url", &url])
        .await;
    ran.err_has("check the network");
    fixture.exits(2, "show k --endpoint-url nonsense").await;
}

#[tokio::test]
async fn profile_fills_missing_environment() {
    let fixture = Fixture::start().await;
    let files = fixture.home().join(".aws");
    std::fs::create_dir(&files).unwrap();
    let config = "[profile ops]\nregion = us-east-1\n";
    std::fs::write(files.join("config"), config).unwrap();
    let keys = format!(
        "[ops]\naws_access_key_id = local\naws_secret_access_key = local\naws_session_token = {}\n",
        session_token()
    );
    std::fs::write(files.join("credentials"), keys).unwrap();
    let bare = |arguments: &[&str]| {
        let mut command = fixture.command(arguments);
        for name in [
            "AWS_REGION",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
        ] {
            command.env_remove(name);
        }
        command
    };
    assert_eq!(ended(bare(&["ls"])).await.code, Some(3));
    assert_eq!(ended(bare(&["ls", "--profile", "ops"])).await.code, Some(0));
    let mut by_variable = bare(&["ls"]);
    by_variable.env("AWS_PROFILE", "ops");
    assert_eq!(ended(by_variable).await.code, Some(0));
    // `--profile` takes precedence: with the environment's own credentials nothing would be missing.
    let typo = fixture.run("ls --profile opps").await;
    typo.is(3, "");
    typo.err_has("opps");
    fixture.exits(0, "ls --profile ops").await;
    // The other way to set the endpoint.
    let url = fixture.proxy.url();
    let mut by_option = bare(&["ls", "--profile", "ops", "--endpoint-url", &url]);
    by_option.env_remove("AWS_ENDPOINT_URL_DYNAMODB");
    assert_eq!(ended(by_option).await.code, Some(0));
}

#[tokio::test]
async fn wrong_arguments_are_told_as_such() {
    let fixture = Fixture::start().await;
    for arguments in [
        &[][..],
        &["acquire"],
        &["acquire", "k", "--ttl", "soon", "--", "true"],
        &["acquire", "k", "--ttl", "1050ms", "--", "true"],
        &["acquire", "k", "--permits", "0", "--", "true"],
        &["acquire", "", "--", "true"],
        &["force-release", "k", "--who", "me"],
        &["watch", "--every", "10ms"],
        &["no-such-command"],
    ] {
        let ran = fixture.run(arguments).await;
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (Some(2), ""),
            "{arguments:?} {ran:?}"
        );
    }
    assert_eq!(
        fixture.proxy.counts().total(),
        0,
        "nothing was asked of the table"
    );
}

#[tokio::test]
async fn completions_and_manual_show_nothing_hidden() {
    let fixture = Fixture::without_table().await;
    for (shell, sign) in [
        ("bash", "complete -F _leasehold"),
        ("zsh", "#compdef leasehold"),
        ("fish", "complete -c leasehold"),
    ] {
        let ran = fixture.exits(0, &["completions", shell]).await;
        assert!(
            ran.out.contains(sign) && ran.out.contains("force-release"),
            "{}",
            ran.out
        );
        assert!(!ran.out.contains("__guard"), "{}", ran.out);
    }
    fixture.run("man").await.out_has(".TH leasehold 1");
    let ran = fixture.run("man table create").await;
    ran.out_has(".TH leasehold-table-create 1");
    let ran = fixture.exits(2, "man acquires").await;
    ran.err_has("acquire, extend");
    let version = concat!("\"leasehold ", env!("CARGO_PKG_VERSION"), "\"");
    fixture.run("man acquire").await.out_has(version);
    assert!(!fixture.run("man").await.out.contains("leasehold\\-help"));
    let directory = fixture.home().join("man1");
    fixture
        .exits(0, &["man", "--to", directory.to_str().unwrap()])
        .await;
    let page = std::fs::read_to_string(directory.join("leasehold-acquire.1")).unwrap();
    assert!(page.contains("LEASEHOLD_FENCING_TOKEN"), "{page}");
    let mut version = fixture.run("--version").await;
    version.out.truncate(10);
    assert_eq!(version.out, "leasehold ");
}

/// The warning comes from a table whose clock is an hour ahead, and which refuses.
#[tokio::test]
async fn wrong_clock_is_reported() {
    let fixture = Fixture::without_table().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut request = [0; 4096];
            let _ = connection.read(&mut request).unwrap();
            let ahead = SystemClock.now().plus(Duration::from_hours(1));
            let ahead = DateTime::from_millis(ahead.as_millis().try_into().unwrap());
            let refusal =
                r#"{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"no"}"#;
            let answer = format!(
                "HTTP/1.1 400 Bad Request\r\ndate: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{refusal}",
                ahead.fmt(Format::HttpDate).unwrap(),
                refusal.len(),
            );
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    let ran = fixture
        .exits(3, &["show", "k", "--endpoint-url", &url])
        .await;
    let said: Vec<_> = ran
        .err
        .lines()
        .filter(|line| line.contains("clock"))
        .collect();
    assert_eq!(said.len(), 1, "{ran:?}");
    assert!(
        said[0].starts_with("leasehold: this machine's clock is at least 59 min 5"),
        "{ran:?}"
    );
}
