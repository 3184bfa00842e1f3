//! The console of the stack: that of the command line, as a program beside this one.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use leasehold_local::{Stack, installation, process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// The console, which ends when this is dropped, and its address.
pub(crate) struct Console {
    _program: Child,
    address: String,
}

impl Console {
    /// Starts it, at this port. None if the stack has no table of leases.
    ///
    /// # Errors
    /// Why it is not served, in words.
    pub(crate) async fn serve(stack: &Stack, port: u16) -> Result<Option<Self>, &'static str> {
        let variables = stack.variables();
        if !variables.contains_key("LEASE_TABLE") {
            return Ok(None);
        }
        let program = program().ok_or(
            "not served: there is no `leasehold` beside this program, in target/debug or on the PATH",
        )?;
        let mut command = process::command_ending_with_us(program.as_os_str(), "TERM");
        command
            .args(["console", "--allow-changes", "--port", &port.to_string()])
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        for name in installation::VARIABLES.iter().chain(&installation::HIDING) {
            command.env_remove(name);
        }
        let failed = "not served: `leasehold console` has failed";
        let mut program = process::spawn(command).map_err(|_| failed)?;
        let mut lines = BufReader::new(program.stdout.take().ok_or(failed)?).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        match line {
            Ok(Ok(Some(address))) => Ok(Some(Self {
                _program: program,
                address,
            })),
            _ => Err(failed),
        }
    }

    /// The address to open.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

/// The command line: built or installed with this program, built by hand in a clone, or installed.
fn program() -> Option<PathBuf> {
    const NAME: &str = "leasehold";
    let beside = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name(NAME));
    let built = (!installation::is_packaged())
        .then(|| installation::home().join("target/debug").join(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|directory| directory.join(NAME));
    let mut all = beside.into_iter().chain(built).chain(installed);
    all.find(|path| path.is_file())
}
