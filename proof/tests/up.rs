//! `leasehold-local up`, and `leasehold local` which is the same, as a person runs it: what it tells, and that nothing stays behind however it ends.
#![allow(clippy::unwrap_used, missing_docs)]

mod processes;

use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use leasehold_proof::lambda_config;
use processes::{parent, wait_until_gone};
use rustix::process::{Pid, Signal, kill_process};

struct Up {
    child: Child,
    output_text: String,
    directory: tempfile::TempDir,
}

/// The two programs that start the stack, each with its word for it.
const UP: [&str; 2] = ["leasehold-local", "up"];
const LOCAL: [&str; 2] = ["leasehold", "local"];

fn command([program, word]: [&str; 2], directory: &Path) -> Command {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let echo = leasehold_proof::example("echo");
    let binaries = echo.parent().unwrap();
    let mut command = Command::new(leasehold_proof::program(program));
    command
        .arg(word)
        .arg("--template")
        .arg(fixtures.join("stack.json"))
        .arg("--run-directory")
        .arg(directory);
    command
        .env("LEASEHOLD_BIN_DIR", binaries)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn up(arguments: &[&str]) -> Up {
    start(UP, arguments)
}

fn start(program: [&str; 2], arguments: &[&str]) -> Up {
    let directory = tempfile::tempdir().unwrap();
    let mut child = command(program, directory.path())
        .args(arguments)
        .spawn()
        .unwrap();
    let mut output_text = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !output_text.contains("sam local invoke") {
        let Some(line) = lines.next() else {
            let mut why = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut why)
                .unwrap();
            panic!("{output_text}\n{why}");
        };
        output_text += &(line.unwrap() + "\n");
    }
    Up {
        child,
        output_text,
        directory,
    }
}

impl Up {
    fn endpoint(&self, service: &str) -> String {
        let name = format!("export AWS_ENDPOINT_URL_{service}=");
        self.output_text
            .lines()
            .find_map(|line| line.strip_prefix(&name))
            .unwrap()
            .to_owned()
    }

    async fn invoke_echo(&self) {
        let config = lambda_config(self.endpoint("LAMBDA"));
        let client = aws_sdk_lambda::Client::from_conf(config.build());
        let output = client
            .invoke()
            .function_name("EchoFunction")
            .send()
            .await
            .unwrap();
        assert_eq!(output.function_error(), None);
    }

    fn children(&self) -> Vec<u32> {
        processes::children(self.child.id())
    }

    fn signal(&self, signal: Signal) {
        processes::signal(&self.child, signal);
    }
}

#[tokio::test]
async fn it_tells_where_everything_is_and_ends_in_order() {
    for (program, ending) in [(UP, Signal::INT), (UP, Signal::TERM), (LOCAL, Signal::INT)] {
        let mut up = start(program, &["--no-engine", "--no-sweep"]);
        up.invoke_echo().await;
        let script = std::fs::read_to_string(up.directory.path().join("env.sh")).unwrap();
        assert!(up.output_text.contains(&script), "{}", up.output_text);
        assert!(script.contains("export TABLE=Rows\n"), "{script}");
        let json = std::fs::read(up.directory.path().join("env.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        // Either is right: it depends on whether this machine runs Docker.
        let endpoint = json["EchoFunction"]["AWS_ENDPOINT_URL_DYNAMODB"]
            .as_str()
            .unwrap();
        let expected = ["172.17.0.1", "host.docker.internal"]
            .map(|host| up.endpoint("DYNAMODB").replace("127.0.0.1", host));
        assert!(expected.contains(&endpoint.to_owned()), "{endpoint}");

        let children = up.children();
        assert_eq!(children.len(), 1);
        up.signal(ending);
        assert_eq!(up.child.wait().unwrap().code(), Some(0));
        assert!(children.iter().all(|pid| parent(*pid).is_none()));
        assert!(!up.directory.path().join("env.sh").exists());
    }
}

#[tokio::test]
async fn a_second_stack_on_the_same_directory_is_refused_and_the_first_goes_on() {
    let mut first = up(&["--no-engine", "--no-sweep"]);
    let directory = first.directory.path().to_owned();
    let script = std::fs::read(directory.join("env.sh")).unwrap();
    let second = || {
        let mut command = command(UP, &directory);
        command.args(["--no-engine", "--no-sweep"]);
        command
    };
    let output = second().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let output_text = String::from_utf8(output.stderr).unwrap();
    assert!(
        output_text.contains("another stack runs on this directory"),
        "{output_text}"
    );
    assert!(output_text.contains("--run-directory"), "{output_text}");
    assert_eq!(std::fs::read(directory.join("env.sh")).unwrap(), script);
    first.invoke_echo().await;

    // However the first one ended, its directory is free again.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut next = second().spawn().unwrap();
    let mut lines = BufReader::new(next.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("Leasehold is up"));
    processes::signal(&next, Signal::TERM);
    assert_eq!(next.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn containers_find_dynamodb_at_the_address_they_can_reach() {
    // The whole of 127/8 is this machine, and only 127.0.0.1 is listened to anyway.
    let mut up = up(&[
        "--no-engine",
        "--no-sweep",
        "--container-address",
        "127.0.0.2",
    ]);
    let json = std::fs::read(up.directory.path().join("env.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let endpoint = json["EchoFunction"]["AWS_ENDPOINT_URL_DYNAMODB"]
        .as_str()
        .unwrap();
    assert_eq!(
        endpoint,
        up.endpoint("DYNAMODB").replace("127.0.0.1", "127.0.0.2")
    );
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
        .region(aws_sdk_dynamodb::config::Region::new("us-east-1"))
        .credentials_provider(aws_sdk_dynamodb::config::Credentials::new(
            "local", "local", None, None, "test",
        ))
        .endpoint_url(endpoint)
        .build();
    let tables = aws_sdk_dynamodb::Client::from_conf(config)
        .list_tables()
        .send()
        .await
        .unwrap();
    assert_eq!(tables.table_names(), ["Rows"]);
    up.signal(Signal::TERM);
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn who_does_not_ask_for_containers_is_reached_by_loopback_alone() {
    let mut up = up(&["--no-engine", "--no-sweep"]);
    let json = std::fs::read_to_string(up.directory.path().join("env.json")).unwrap();
    assert!(
        json.contains("host.docker.internal") && !json.contains("172.17.0.1"),
        "{json}"
    );
    let listening = std::fs::read_to_string(format!("/proc/{}/net/tcp", up.child.id())).unwrap();
    let port = up.endpoint("DYNAMODB");
    let port: u16 = port.rsplit(':').next().unwrap().parse().unwrap();
    let at = listening
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1));
    let at: Vec<_> = at
        .filter(|at| at.ends_with(&format!(":{port:04X}")))
        .collect();
    assert!(at.iter().all(|at| at.starts_with("0100007F:")), "{at:?}");
    up.signal(Signal::TERM);
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
}

/// A page in a browser can point a name of its own at this machine, and sends that name along.
#[tokio::test]
async fn a_request_by_a_name_that_is_not_this_machines_is_refused() {
    let mut up = up(&["--no-sweep"]);
    for service in ["DYNAMODB", "LAMBDA", "SFN"] {
        let address = up.endpoint(service).replace("http://", "");
        let port = address.rsplit(':').next().unwrap();
        let status = |host: &str| {
            let mut stream = std::net::TcpStream::connect(&address).unwrap();
            write!(
                stream,
                "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            )
            .unwrap();
            let mut text = String::new();
            BufReader::new(stream).read_line(&mut text).unwrap();
            text
        };
        assert!(
            status(&format!("example.org:{port}")).contains(" 403 "),
            "{service}"
        );
        for own in [address.clone(), format!("localhost:{port}")] {
            assert!(!status(&own).contains(" 403 "), "{service} {own}");
        }
    }
    up.signal(Signal::TERM);
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn killed_it_leaves_no_process_behind() {
    let mut up = up(&["--no-sweep"]);
    up.invoke_echo().await;
    let children = up.children();
    assert_eq!(children.len(), 2, "the function and the engine");
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    wait_until_gone(&children);
}

#[tokio::test]
async fn when_the_engine_dies_it_says_so_and_ends() {
    let mut up = up(&["--no-sweep"]);
    let engine = up.children();
    assert_eq!(engine.len(), 1);
    kill_process(
        Pid::from_raw(i32::try_from(engine[0]).unwrap()).unwrap(),
        Signal::KILL,
    )
    .unwrap();
    assert_eq!(up.child.wait().unwrap().code(), Some(1));
    let mut why = String::new();
    up.child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut why)
        .unwrap();
    assert!(
        why.contains("the state machine engine: ended unexpectedly"),
        "{why}"
    );
}

#[test]
fn what_it_cannot_do_is_reported_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        (
            ["--parameter", "Nobody=1"],
            1,
            "there is no parameter Nobody",
        ),
        (["--parameter", "Nobody"], 2, "expected NAME=VALUE"),
        (["--sweep-every", "0"], 2, "0 is not in 1.."),
    ];
    for (arguments, code, expected) in cases {
        let output = command(UP, directory.path())
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code));
        let output_text = String::from_utf8(output.stderr).unwrap();
        assert!(output_text.contains(expected), "{output_text}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = command(UP, directory.path())
        .args(["--no-engine", "--lambda-port", &port])
        .output()
        .unwrap();
    let output_text = String::from_utf8(output.stderr).unwrap();
    assert!(
        output_text.starts_with(&format!(
            "leasehold-local: could not bind port {port} of 127.0.0.1 for Lambda: "
        )),
        "{output_text}"
    );
    let advice = "; choose another port, or omit the option\n";
    assert!(output_text.ends_with(advice), "{output_text}");
}
