//! `leasehold-local up` as a person runs it: what it tells, and that nothing stays behind however it ends.
#![allow(clippy::unwrap_used, missing_docs)]

mod processes;

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use processes::{parent, signal, wait_until_gone};
use rustix::process::Signal;
use serde_json::Value;

struct Up {
    child: Child,
    output_text: String,
    directory: tempfile::TempDir,
}

const PROGRAM: &str = "leasehold-local";

fn command(directory: &Path) -> Command {
    let mut command = processes::program(&leasehold_proof::program(PROGRAM));
    command.arg("up");
    stack(command, directory)
}

fn stack(mut command: Command, directory: &Path) -> Command {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let echo = leasehold_proof::example("echo");
    let binaries = echo.parent().unwrap();
    command
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
    let directory = tempfile::tempdir().unwrap();
    started(command(directory.path()), arguments, directory)
}

fn started(mut command: Command, arguments: &[&str], directory: tempfile::TempDir) -> Up {
    let mut child = command.args(arguments).spawn().unwrap();
    let mut output_text = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !output_text.contains("sam local invoke") {
        let Some(line) = lines.next() else {
            let why = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
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

    /// What it demands of every request.
    fn token(&self) -> String {
        let mut lines = self.output_text.lines();
        let token = lines.find_map(|line| line.strip_prefix("export AWS_SESSION_TOKEN="));
        token.unwrap().to_owned()
    }

    /// The file for `sam local invoke`.
    fn env_json(&self) -> Value {
        let text = std::fs::read(self.directory.path().join("env.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    fn invoke_echo(&self) {
        let address = self.endpoint("LAMBDA").replace("http://", "");
        let path = "/2015-03-31/functions/EchoFunction/invocations";
        let token = self.token();
        let answer = post(&address, path, &[("Host", &address), (TOKEN, &token)]);
        assert!(
            answer.contains(" 200 OK") && answer.contains("\"echo\""),
            "{answer}"
        );
    }

    fn children(&self) -> Vec<u32> {
        processes::children(self.child.id())
    }

    /// Ends it as a person does.
    fn end(&mut self, by: Signal) {
        signal(self.child.id(), by);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

const TOKEN: &str = "X-Amz-Security-Token";

/// The answer to an empty event that is sent to this address with these headers.
fn post(address: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let headers = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers = headers.collect::<String>() + "Content-Length: 2\r\nConnection: close";
    write!(stream, "POST {path} HTTP/1.1\r\n{headers}\r\n\r\n{{}}").unwrap();
    std::io::read_to_string(stream).unwrap()
}

#[test]
fn up_tells_addresses_and_ends_cleanly() {
    for ending in [Signal::INT, Signal::TERM] {
        let mut up = up(&["--no-engine", "--no-sweep"]);
        up.invoke_echo();
        let script = std::fs::read_to_string(up.directory.path().join("env.sh")).unwrap();
        assert!(up.output_text.contains(&script), "{}", up.output_text);
        assert!(script.contains("export TABLE=Rows\n"), "{script}");
        // Either is right: it depends on whether this machine runs Docker.
        let endpoint = &up.env_json()["EchoFunction"]["AWS_ENDPOINT_URL_DYNAMODB"];
        let expected = ["172.17.0.1", "host.docker.internal"]
            .map(|host| up.endpoint("DYNAMODB").replace("127.0.0.1", host));
        assert!(expected.iter().any(|url| endpoint == url), "{endpoint}");

        let children = up.children();
        assert_eq!(children.len(), 1);
        up.end(ending);
        assert!(children.iter().all(|pid| parent(*pid).is_none()));
        assert!(!up.directory.path().join("env.sh").exists());
    }
}

/// The console of its table, at an address that a browser can open.
#[test]
fn up_serves_a_console() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = processes::program(&leasehold_proof::program(PROGRAM));
    let template = leasehold_proof::root().join("local/minimal.json");
    command
        .args(["up", "--run-directory"])
        .arg(directory.path());
    command.arg("--template").arg(template);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut up = started(command, &["--no-engine", "--no-sweep"], directory);
    let mut lines = up.output_text.lines();
    let opened = lines.find_map(|line| line.strip_prefix("  console         http://"));
    let (address, path) = opened.unwrap().split_once('/').unwrap();
    let get = |path: &str, cookie: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{cookie}Connection: close");
        write!(stream, "{head}\r\n\r\n").unwrap();
        std::io::read_to_string(stream).unwrap()
    };
    let answer = get(&format!("/{path}"), "");
    let header = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name));
    let cookie = header("set-cookie: ").unwrap();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
    let page = header("location: ").unwrap();
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let list = get(page, &cookie);
    assert!(list.contains("0 held, 0 waiting"), "{list}");
    assert!(get(page, "").contains(" 403 "));
    let children = up.children();
    assert_eq!(children.len(), 1, "the console");
    up.end(Signal::INT);
    wait_until_gone(&children);
}

fn is_ignored(pid: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
    ignored & (1 << (signal.as_raw() - 1)) != 0
}

#[test]
fn initially_ignored_signals_stay_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let mut nohup = processes::program("env".as_ref());
    let program = leasehold_proof::program(PROGRAM);
    nohup.arg("--ignore-signal=HUP").arg(program).arg("up");
    let nohup = stack(nohup, directory.path());
    let mut up = started(nohup, &["--no-engine", "--no-sweep"], directory);
    assert!(is_ignored(up.child.id(), Signal::HUP));
    assert!(!is_ignored(up.child.id(), Signal::INT));
    up.end(Signal::INT);
}

#[test]
fn second_stack_in_directory_is_refused() {
    let mut first = up(&["--no-engine", "--no-sweep"]);
    let directory = first.directory.path().to_owned();
    let script = std::fs::read(directory.join("env.sh")).unwrap();
    let second = || {
        let mut command = command(&directory);
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
    first.invoke_echo();

    // However the first one ended, its directory is free again.
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut next = second().spawn().unwrap();
    let mut lines = BufReader::new(next.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("Leasehold is up"));
    signal(next.id(), Signal::TERM);
    assert_eq!(next.wait().unwrap().code(), Some(0));
}

#[test]
fn containers_get_reachable_endpoints() {
    // The whole of 127/8 is this machine, and only 127.0.0.1 is listened to anyway.
    let mut up = up(&[
        "--no-engine",
        "--no-sweep",
        "--container-address",
        "127.0.0.2",
    ]);
    let token = up.token();
    let lambda = "/2015-03-31/functions/EchoFunction/invocations";
    for (service, path, expected) in [
        ("DYNAMODB", "/", "server: Dynoxide"),
        ("LAMBDA", lambda, "\"echo\""),
    ] {
        let endpoint = &up.env_json()["EchoFunction"][format!("AWS_ENDPOINT_URL_{service}")];
        let at = up.endpoint(service).replace("127.0.0.1", "127.0.0.2");
        assert_eq!(endpoint, &at);
        let address = at.replace("http://", "");
        let answer = post(&address, path, &[("Host", &address), (TOKEN, &token)]);
        assert!(answer.contains(expected), "{answer}");
    }
    up.end(Signal::TERM);
}

#[test]
fn only_loopback_listens_without_containers() {
    let mut up = up(&["--no-engine", "--no-sweep"]);
    let json = up.env_json().to_string();
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
    assert!(!at.is_empty());
    // 127/8, since the database of another test may have the same port at an address of its own.
    assert!(at.iter().all(|at| at[..8].ends_with("7F")), "{at:?}");
    up.end(Signal::TERM);
}

/// Nobody makes the stack read what it will refuse.
#[test]
fn stranger_is_refused_before_body() {
    let mut up = up(&["--no-engine", "--no-sweep"]);
    for service in ["DYNAMODB", "LAMBDA"] {
        let address = up.endpoint(service).replace("http://", "");
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let timeout = Some(std::time::Duration::from_secs(20));
        stream.set_read_timeout(timeout).unwrap();
        let head = format!("POST / HTTP/1.1\r\nHost: {address}\r\nContent-Length: 1000000\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut status = String::new();
        BufReader::new(stream).read_line(&mut status).unwrap();
        assert!(status.contains(" 403 "), "{service}: {status}");
    }
    up.end(Signal::TERM);
}

/// A page in a browser can send requests here, also by a name of its own that points at this machine. So can other users.
#[test]
fn listeners_refuse_web_pages_and_strangers() {
    let mut up = up(&["--no-sweep"]);
    let token = up.token();
    up.invoke_echo();
    for (service, path) in [
        ("CLOUDFORMATION", "/cloudformation"),
        ("CLOUDFORMATION", "/events"),
        ("CLOUDFORMATION", "/queues"),
        ("DYNAMODB", "/"),
        ("LAMBDA", "/2015-03-31/functions/EchoFunction/invocations"),
        (
            "LAMBDA",
            "/.rt/any/EchoFunction-0/2018-06-01/runtime/init/error",
        ),
        ("SFN", "/"),
    ] {
        let endpoint = up.endpoint(service).replace("http://", "");
        let address = endpoint.split('/').next().unwrap();
        let host = ("Host", address);
        let signed = (TOKEN, &*token);
        let elsewhere = address.replace("127.0.0.1", "example.org");
        let named = address.replace("127.0.0.1", "localhost");
        for (headers, allowed) in [
            (&[host, signed][..], true),
            (&[("Host", &named), signed], true),
            (&[("Host", &elsewhere), signed], false),
            (&[host, signed, ("Origin", "https://example.org")], false),
            (&[host, signed, ("Sec-Fetch-Site", "cross-site")], false),
            (&[host], false),
            (&[host, (TOKEN, "local")], false),
        ] {
            let answer = post(address, path, headers);
            let is_refused = answer.contains(" 403 ") && answer.contains("this local service");
            assert_eq!(
                is_refused, !allowed,
                "{service}{path} {headers:?}: {answer}"
            );
            let reflected = answer.to_lowercase().contains("access-control-allow");
            assert!(allowed || !reflected, "{answer}");
        }
    }
    up.end(Signal::TERM);
}

/// Its port alone does not lead to the database behind the guard.
#[test]
fn database_behind_proxy_is_hidden() {
    let mut up = up(&["--no-engine", "--no-sweep"]);
    let sockets = std::fs::read_to_string(format!("/proc/{}/net/tcp", up.child.id())).unwrap();
    let ours = format!("/proc/{}/fd", up.child.id());
    let ours = std::fs::read_dir(ours).unwrap().filter_map(|one| {
        let target = std::fs::read_link(one.unwrap().path()).ok()?;
        Some(target.to_string_lossy().into_owned())
    });
    let ours: Vec<_> = ours.collect();
    // Columns: local address, remote address, state (0A listens), …, inode.
    let listening = sockets.lines().filter_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let inode = format!("socket:[{}]", columns.get(9)?);
        (columns[3] == "0A" && ours.contains(&inode)).then(|| columns[1].to_owned())
    });
    let listening: Vec<_> = listening.collect();
    let known = listening.iter().filter(|at| at.starts_with("0100007F:"));
    assert_eq!((listening.len(), known.count()), (4, 3), "{listening:?}");
    up.end(Signal::TERM);
}

/// The script has the token, and other users of this machine can reach the ports.
#[test]
fn only_owner_reads_run_files() {
    let mut up = up(&["--no-engine", "--no-sweep"]);
    for name in ["env.sh", "env.json"] {
        let file = up.directory.path().join(name).metadata().unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
    }
    up.end(Signal::TERM);
}

#[test]
fn killed_it_leaves_no_process_behind() {
    let mut up = up(&["--no-sweep"]);
    up.invoke_echo();
    let children = up.children();
    assert_eq!(children.len(), 2, "the function and the engine");
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    wait_until_gone(&children);
}

#[test]
fn dead_engine_ends_stack_with_reason() {
    let mut up = up(&["--no-sweep"]);
    let engine = up.children();
    assert_eq!(engine.len(), 1);
    signal(engine[0], Signal::KILL);
    assert_eq!(up.child.wait().unwrap().code(), Some(1));
    let why = std::io::read_to_string(up.child.stderr.take().unwrap()).unwrap();
    assert!(
        why.contains("the state machine engine: ended unexpectedly"),
        "{why}"
    );
}

#[test]
fn impossible_options_get_one_line() {
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
        let output = command(directory.path()).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        let output_text = String::from_utf8(output.stderr).unwrap();
        assert!(output_text.contains(expected), "{output_text}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = command(directory.path())
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
