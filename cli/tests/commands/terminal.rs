//! The program on a terminal, which `script` provides: the command can read from it and receives Ctrl-C, and the terminal's state is
//! restored at the end.

use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fixture::{Fixture, until};
use leasehold::LeaseState;

const LONG: Duration = Duration::from_secs(600);

/// A shell's command line on a terminal.
struct Session {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Session {
    fn start(fixture: &Fixture, shell: &str) -> Self {
        let mut command = fixture.program("script");
        command
            .args(["--quiet", "--return", "--command", shell, "/dev/null"])
            .stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut some) {
                *heard.lock().unwrap() += &String::from_utf8_lossy(&some[..n]);
            }
        });
        Self { child, said }
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    async fn until_it_says(&self, text: &str) {
        until(text, || self.said().contains(text)).await;
    }

    fn types(&mut self, text: &str) {
        let mut keys = self.child.stdin.as_ref().unwrap();
        keys.write_all(text.as_bytes()).unwrap();
    }

    async fn code(mut self) -> Option<i32> {
        let mut status = None;
        until("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap().code()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn command_may_use_the_terminal() {
    let fixture = Fixture::start().await;
    let line = "sh -c '$LEASEHOLD acquire k -- sh -c \"echo asks; read -r a; echo heard \\$a\"; echo then; read -r b; echo back $b; exit 5'";
    let mut session = Session::start(&fixture, line);
    session.until_it_says("asks").await;
    session.types("yes\n");
    session.until_it_says("heard yes").await;
    session.until_it_says("then").await;
    session.types("again\n");
    session.until_it_says("back again").await;
    assert_eq!(session.code().await, Some(5));
}

#[tokio::test]
async fn ctrl_c_is_the_commands() {
    let fixture = Fixture::start().await;
    let line = "$LEASEHOLD acquire k -- sh -c 'trap \"echo caught; exit 9\" INT; echo waits; sleep 60 & wait'";
    let mut session = Session::start(&fixture, line);
    session.until_it_says("waits").await;
    session.types("\u{3}");
    session.until_it_says("caught").await;
    assert_eq!(session.code().await, Some(9));
}

#[tokio::test]
async fn ctrl_z_stops_no_lease_holder() {
    let fixture = Fixture::start().await;
    let line = "$LEASEHOLD acquire k -- sh -c 'echo waits; read -r a; echo heard $a'";
    let mut session = Session::start(&fixture, line);
    session.until_it_says("waits").await;
    session.types("\u{1a}");
    session.types("on\n");
    session.until_it_says("heard on").await;
    assert_eq!(session.code().await, Some(0));
}

#[tokio::test]
async fn terminal_shows_whom_and_asks() {
    let fixture = Fixture::start().await;
    fixture.grant("k", "worker 7", LONG).await;
    for (answer, code, state) in [
        ("n\n", 1, LeaseState::Held),
        ("\n", 1, LeaseState::Held),
        ("y\n", 0, LeaseState::Free),
    ] {
        let line = "$LEASEHOLD force-release k --who alice --why test";
        let mut session = Session::start(&fixture, line);
        session.until_it_says("Evict worker 7? [y/N]").await;
        session.types(answer);
        assert_eq!(session.code().await, Some(code));
        assert_eq!(fixture.inspect("k").await.state, state);
    }
}

#[tokio::test]
async fn long_arn_fits_a_row() {
    let fixture = Fixture::start().await;
    let execution = "arn:aws:states:eu-west-1:123456789012:execution:orders:7f3c";
    fixture.grant("k", execution, LONG).await;
    let session = Session::start(&fixture, "$LEASEHOLD ls; $LEASEHOLD holders; echo over");
    session.until_it_says("over").await;
    let said = session.said();
    assert!(
        said.contains("orders:7f3c") && !said.contains("arn:"),
        "{said}"
    );
    fixture.run("ls").await.out_has(execution);
}

#[tokio::test]
async fn only_shown_holder_is_evicted() {
    let fixture = Fixture::start().await;
    let lease = fixture.grant("k", "worker 7", LONG).await.lease;
    let line = "$LEASEHOLD force-release k --who alice --why test";
    let mut session = Session::start(&fixture, line);
    session.until_it_says("Evict worker 7? [y/N]").await;
    let _ = fixture.leases().release(&lease).await.unwrap();
    fixture.grant("k", "worker 8", LONG).await;
    session.types("y\n");
    session.until_it_says("worker 7 no longer holds k").await;
    assert_eq!(session.code().await, Some(1));
    fixture.run("show k").await.out_has("worker 8");
}
