//! A container engine: the one that is there, or one of our own for as long as the test takes.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::error::{Error, io};
use crate::program::{command, run};

/// This machine, as containers on Docker's default network see it.
const BRIDGE: IpAddr = IpAddr::V4(Ipv4Addr::new(172, 17, 0, 1));
/// How Docker Desktop calls it.
const DESKTOP: &str = "host.docker.internal";

const TO_ASK: Duration = Duration::from_secs(10);
const TO_INSTALL: Duration = Duration::from_mins(5);
const TO_START: Duration = Duration::from_secs(30);
const TO_STOP: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// An engine that answers.
pub(crate) struct Engine {
    /// Of an engine of our own, where it listens.
    socket: Option<PathBuf>,
    daemon: Option<Child>,
    /// How its containers reach this machine: at an address of its own, or by a name.
    pub(crate) bridge: Option<IpAddr>,
}

impl Engine {
    /// Finds an engine, or starts one with its data below `directory`.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn find(directory: &Path) -> Result<Self, Error> {
        let ambient = Self::at(None);
        if ambient.answers().await {
            println!("engine: Docker, as it runs here");
            return Ok(ambient.with_bridge().await);
        }
        // Of a run that was killed, and could not end it.
        let own = Self::at(Some(directory.join("docker.sock")));
        if own.answers().await {
            println!(
                "engine: Docker, started by an earlier run, which was killed; it is left as it is"
            );
            return Ok(own.with_bridge().await);
        }
        if !rustix::process::geteuid().is_root() {
            return Err(no("no Docker answers, and only root can start one"));
        }
        install().await?;
        let own = own.start(directory).await?;
        println!(
            "engine: Docker, of our own, data in {}",
            directory.display()
        );
        Ok(own.with_bridge().await)
    }

    fn at(socket: Option<PathBuf>) -> Self {
        Self {
            socket,
            daemon: None,
            bridge: None,
        }
    }

    /// How containers call this machine.
    pub(crate) fn host(&self) -> String {
        self.bridge
            .map_or_else(|| DESKTOP.to_owned(), |bridge| bridge.to_string())
    }

    /// Has a program talk to this engine.
    pub(crate) fn serve(&self, command: &mut Command) {
        if let Some(socket) = &self.socket {
            command.env("DOCKER_HOST", format!("unix://{}", socket.display()));
        }
    }

    /// A command of Docker's.
    pub(crate) fn docker(&self, arguments: &[&str]) -> Command {
        let mut docker = command("docker");
        docker.args(arguments);
        self.serve(&mut docker);
        docker
    }

    async fn answers(&self) -> bool {
        if self.socket.as_ref().is_some_and(|socket| !socket.exists()) {
            return false;
        }
        // `info` ends well even if nobody answers; the server's version does not.
        let mut asked = self.docker(&["version", "--format", "{{.Server.Version}}"]);
        run(&mut asked, TO_ASK)
            .await
            .is_ok_and(|ended| ended.well().is_ok())
    }

    async fn with_bridge(mut self) -> Self {
        let bound = TcpListener::bind(SocketAddr::new(BRIDGE, 0)).await;
        self.bridge = bound.is_ok().then_some(BRIDGE);
        self
    }

    async fn start(mut self, directory: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(directory)
            .map_err(io(format!("create {}", directory.display())))?;
        let log = directory.join("dockerd.log");
        let output = File::create(&log).map_err(io(format!("create {}", log.display())))?;
        let errors = output.try_clone().map_err(io("share the engine's log"))?;
        let within = |name: &str| directory.join(name).display().to_string();
        let child = command("dockerd")
            .args(["--data-root", &within("data")])
            .args(["--exec-root", &within("exec")])
            .args(["--pidfile", &within("dockerd.pid")])
            .args(["--host", &format!("unix://{}", within("docker.sock"))])
            .stdout(output)
            .stderr(errors)
            // A Ctrl-C in the terminal is for us, who then end it in order.
            .process_group(0)
            .kill_on_drop(false)
            .spawn()
            .map_err(io("start dockerd"))?;
        self.daemon = Some(child);
        let up = async {
            while !self.answers().await {
                if !self.lives() {
                    return Err(no(&format!("dockerd ended; see {}", log.display())));
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(())
        };
        match tokio::time::timeout(TO_START, up).await {
            Ok(Ok(())) => Ok(self),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                let slow = format!("dockerd does not answer; see {}", log.display());
                self.stop().await;
                Err(no(&slow))
            }
        }
    }

    fn lives(&mut self) -> bool {
        let daemon = self.daemon.as_mut();
        daemon.is_some_and(|daemon| matches!(daemon.try_wait(), Ok(None)))
    }

    /// Ends an engine that was started here, with everything in it; any other is left alone.
    pub(crate) async fn stop(mut self) {
        self.end();
        if let Some(mut daemon) = self.daemon.take() {
            // It ends its containers and its helpers first.
            let _ = tokio::time::timeout(TO_STOP, daemon.wait()).await;
        }
    }

    fn end(&self) {
        let daemon = self.daemon.as_ref().and_then(Child::id);
        let pid = daemon.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}

/// On Debian and what comes from it.
async fn install() -> Result<(), Error> {
    let there = |program: &'static str| async move {
        let mut asked = command(program);
        run(asked.arg("--version"), TO_ASK).await.is_ok()
    };
    if there("dockerd").await && there("docker").await && there("iptables").await {
        return Ok(());
    }
    if !Path::new("/etc/debian_version").exists() {
        return Err(no(
            "Docker is not installed, and this is no Debian to install it on",
        ));
    }
    println!("engine: installing docker.io and iptables (apt-get)");
    for arguments in [
        &["update", "-qq"][..],
        &[
            "install",
            "-y",
            "-qq",
            "--no-install-recommends",
            "docker.io",
            "iptables",
        ],
    ] {
        let mut apt = command("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        run(&mut apt, TO_INSTALL).await?.well()?;
    }
    Ok(())
}

fn no(why: &str) -> Error {
    Error::Program {
        program: "no container engine".to_owned(),
        told: why.to_owned(),
    }
}
