//! A lease table in the embedded DynamoDB, and the program as people and programs meet it.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(
    clippy::disallowed_methods,
    reason = "processes are waited for, which know no clock but the machine's"
)]

use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use leasehold::{
    Acquire, Connection, DynamoDb, Environment, Granted, Holder, Key, Leases, Settings, Ttl,
};
use leasehold_local::{Canary, Proxy};

pub const TABLE: &str = "leases";
/// What the program has for the functions' variables, so that a short lease is of use, and a busy machine has time to obey.
pub const SETTINGS: [(&str, &str); 3] = [
    ("LEASE_TABLE", TABLE),
    ("LEASE_GUARD_MS", "400"),
    ("LEASE_CLOCK_MARGIN_MS", "100"),
];

pub struct Stand {
    pub proxy: Proxy,
    pub client: aws_sdk_dynamodb::Client,
    _server: leasehold_local::DynamoDb,
    /// Has learnt every lease id that has passed.
    canary: Arc<Canary>,
    home: tempfile::TempDir,
}

impl Stand {
    pub async fn start() -> Self {
        let stand = Self::without_table().await;
        leasehold::table::create(&stand.client, TABLE)
            .await
            .unwrap();
        stand.proxy.reset();
        stand
    }

    pub async fn without_table() -> Self {
        let server = leasehold_local::DynamoDb::start().await.unwrap();
        let proxy = Proxy::start(server.address(), 0).await.unwrap();
        let canary = Arc::new(Canary::default());
        proxy.teach(&canary);
        let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .endpoint_url(proxy.url())
            .load()
            .await;
        Self {
            client: Connection::client(&config),
            proxy,
            _server: server,
            canary,
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// The leases as a colleague's program sees them.
    pub fn leases(&self) -> Leases<DynamoDb> {
        Leases::new(DynamoDb::new(self.client.clone(), TABLE), settings())
    }

    pub async fn grant(&self, key: &str, holder: &str, ttl: Duration) -> Granted {
        let (key, holder) = (Key::new(key).unwrap(), Holder::new(holder).unwrap());
        let request = Acquire::new(key, holder, Ttl::new(ttl).unwrap());
        self.leases()
            .acquire(request)
            .await
            .unwrap()
            .granted()
            .unwrap()
    }

    /// The program, with nothing of this process's environment but the path.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        command
            .args(arguments)
            .env_clear()
            .envs(SETTINGS)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("USER", "alice")
            .env("HOME", self.home.path())
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_ENDPOINT_URL_DYNAMODB", self.proxy.url())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program, which has no secret to tell; `acquire` and `extend` tell one where they are asked to.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        let ran = ended(self.command(arguments)).await;
        if !matches!(arguments, ["acquire", ..] if !arguments.contains(&"--")) {
            self.keeps_secrets(&ran);
        }
        ran
    }

    /// None of the secrets that have passed by is in what a program said.
    pub fn keeps_secrets(&self, ran: &Ran) {
        for said in [&ran.out, &ran.err] {
            assert_eq!(self.canary.finds(said.as_bytes()), None);
        }
    }

    /// How many secrets there were to tell.
    pub fn secrets(&self) -> usize {
        self.canary.secrets()
    }

    pub fn home(&self) -> &std::path::Path {
        self.home.path()
    }
}

pub fn settings() -> Settings {
    let lookup = |name: &str| {
        let (_, value) = SETTINGS.iter().find(|(known, _)| *known == name)?;
        Some((*value).to_owned())
    };
    Environment::from(lookup).unwrap().settings
}

/// What the program said and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The database is in this process: nobody may stand in its way.
pub async fn ended(mut command: Command) -> Ran {
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.unwrap().unwrap().into()
}

/// Waits until something is so, and says what was waited for if that takes too long.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "waited for: {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process runs; a zombie does not.
pub fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap().starts_with(['Z', 'X']))
}

/// The processes that `of` has started and that run.
pub fn children(of: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| runs(*pid) && parent(*pid) == Some(of))
        .collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()
}

/// The guard of a wrapper.
pub fn guard(wrapper: u32) -> Option<u32> {
    children(wrapper).into_iter().find(|pid| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.contains("__guard"))
    })
}

/// The same text whenever it is said: without instants, tokens, the seconds that have passed, and what they do to the
/// distance between columns.
pub fn masked(text: &str) -> String {
    let mut masked = String::new();
    for line in text.lines() {
        let mut words: Vec<String> = Vec::new();
        for word in line.split(' ') {
            let bare = word
                .trim_start_matches('(')
                .trim_end_matches([',', ')', ';', ':']);
            let numeric = bare.chars().all(|c| c.is_ascii_digit() || c == '.') && !bare.is_empty();
            let mask = if bare.len() == 24 && bare.ends_with('Z') {
                "TIME"
            } else if numeric && bare.len() == 13 {
                "TOKEN"
            } else {
                bare
            };
            words.push(word.replace(bare, mask));
        }
        for at in 1..words.len() {
            let is_number = words[at - 1].trim_start_matches('(').parse::<f64>().is_ok();
            if words[at].trim_end_matches(')') == "s" && is_number {
                let number = words[at - 1].trim_start_matches('(').to_owned();
                words[at - 1] = words[at - 1].replace(&number, "N");
            }
        }
        let mut line = words.join(" ");
        while line.contains("   ") {
            line = line.replace("   ", "  ");
        }
        masked += &(line + "\n");
    }
    masked
}
