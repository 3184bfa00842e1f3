//! A process is stopped between reading and writing until its lease has run out and another one
//! works in its place; then it goes on. With a guard its write is refused, whenever it comes;
//! without one an update is lost.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use leasehold_proof::fixture::{TABLE, Table, s};
use rustix::process::{Pid, Signal, kill_process};

/// The table of the counter.
const RESOURCE: &str = "resource";
const REFUSED: i32 = 3;
/// Far more than anything here takes, so that a test ends whose wait would never end.
const IN_VAIN: Duration = Duration::from_secs(30);

/// A process that does not outlive the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Writer {
    program: Program,
    input: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Writer {
    fn start(table: &Table, guard: &str) -> Self {
        let mut command = Command::new(leasehold_proof::example("late_writer"));
        // Margins that suit a lease of a second, and nothing else of this process's environment.
        command.env_clear().envs([
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL_DYNAMODB", table.proxy.url().as_str()),
            ("LEASE_TABLE", TABLE),
            ("LEASE_CLOCK_MARGIN_MS", "100"),
            ("LEASE_GUARD_MS", "100"),
            ("RESOURCE_TABLE", RESOURCE),
        ]);
        command.args(["--guard", guard, "--ttl-seconds", "1"]);
        command.args(["--patience-seconds", "20"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Program(command.spawn().unwrap());
        let input = program.0.stdin.take().unwrap();
        let output = BufReader::new(program.0.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            output
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Self {
            program,
            input,
            lines,
        }
    }

    /// Passes over lines until this one.
    fn says(&self, wanted: &str) {
        let mut said = Vec::new();
        while said.last().is_none_or(|line| line != wanted) {
            match self.lines.recv_timeout(IN_VAIN) {
                Ok(line) => said.push(line),
                Err(error) => panic!("{error}: {wanted:?} after {said:?}"),
            }
        }
    }

    /// It has the lease and has read the counter.
    fn has_read(&self, value: u64) {
        self.says(&format!("read {value}"));
        self.says("waiting for Enter");
    }

    /// Stops it where it is; what makes it go on is there when it wakes up.
    fn stop(&mut self) {
        self.signal(Signal::STOP);
        self.enter();
        while self.state() != "T" {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn enter(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }

    fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Its exit code.
    fn ends(mut self) -> Option<i32> {
        let lines: Vec<String> = self.lines.iter().collect();
        let code = self.program.0.wait().unwrap().code();
        println!("{lines:?}, {code:?}");
        code
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.program.0);
        kill_process(pid, signal).unwrap();
    }

    /// As the kernel names it: T is stopped.
    fn state(&self) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.program.0.id()));
        let stat = stat.unwrap();
        let after_name = stat.rsplit(") ").next().unwrap();
        after_name[..1].to_owned()
    }
}

async fn create_resource(table: &Table) {
    leasehold_local::create_table(&table.client, RESOURCE, &["pk", "sk"], None)
        .await
        .unwrap();
}

async fn counter(table: &Table) -> u64 {
    let get = table.client.get_item().table_name(RESOURCE);
    let get = get
        .key("pk", s("counters/visits"))
        .key("sk", s("COUNTER"))
        .consistent_read(true);
    let item = get.send().await.unwrap().item.unwrap();
    item["count"].as_n().unwrap().parse().unwrap()
}

/// The sleeper wakes up when its successor is done. Its exit code, and the counter in the end.
async fn after_the_successor_wrote(guard: &str) -> (Option<i32>, u64) {
    let table = Table::start().await;
    create_resource(&table).await;
    let mut sleeper = Writer::start(&table, guard);
    sleeper.has_read(0);
    sleeper.stop();
    let mut successor = Writer::start(&table, guard);
    // It asked again and again until the lease had run out.
    successor.has_read(0);
    successor.enter();
    assert_eq!(successor.ends(), Some(0), "the successor writes");
    assert_eq!(counter(&table).await, 1);
    sleeper.wake();
    (sleeper.ends(), counter(&table).await)
}

/// The sleeper wakes up when its successor has read and not yet written.
async fn before_the_successor_writes(guard: &str) -> (Option<i32>, u64) {
    let table = Table::start().await;
    create_resource(&table).await;
    let mut sleeper = Writer::start(&table, guard);
    sleeper.has_read(0);
    sleeper.stop();
    let mut successor = Writer::start(&table, guard);
    successor.has_read(0);
    sleeper.wake();
    let late = sleeper.ends();
    successor.enter();
    assert_eq!(successor.ends(), Some(0), "the successor writes");
    (late, counter(&table).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_guard_refuses_whoever_wakes_up_late() {
    assert_eq!(after_the_successor_wrote("lease").await, (Some(REFUSED), 1));
    assert_eq!(
        before_the_successor_writes("lease").await,
        (Some(REFUSED), 1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fence_refuses_whoever_wakes_up_late() {
    assert_eq!(after_the_successor_wrote("fence").await, (Some(REFUSED), 1));
    assert_eq!(
        before_the_successor_writes("fence").await,
        (Some(REFUSED), 1)
    );
}

/// Two updates were reported as written, and the counter shows one: the script above is a real danger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_guard_an_update_is_lost() {
    assert_eq!(after_the_successor_wrote("none").await, (Some(0), 1));
    assert_eq!(before_the_successor_writes("none").await, (Some(0), 1));
}
