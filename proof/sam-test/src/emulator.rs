//! AWS's runtime interface emulator, which comes with SAM: what stands in for a container where there is no engine. The same
//! program runs in SAM's containers.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_local::scenes::Stage;
use tokio::net::{TcpListener, TcpStream};

use crate::caller;
use crate::error::{Error, io};
use crate::program::command;

const TO_START: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The emulator, and where SAM has put what it built.
pub(crate) struct Emulator {
    program: PathBuf,
    built: PathBuf,
    // The copy that may be run goes with it.
    _directory: tempfile::TempDir,
}

impl Emulator {
    /// Finds it beside `sam`.
    pub(crate) fn find(sam: &Path, root: &Path, architecture: &str) -> Result<Self, Error> {
        let name = format!("aws-lambda-rie-{architecture}");
        let libraries = sam.ancestors().nth(2).unwrap_or(sam).join("lib");
        let found =
            std::fs::read_dir(&libraries).map_err(io(format!("read {}", libraries.display())))?;
        let within = |python: PathBuf| python.join("site-packages/samcli/local/rapid").join(&name);
        let mut found = found.flatten().map(|entry| within(entry.path()));
        let Some(found) = found.find(|path| path.exists()) else {
            return Err(Error::Program {
                program: name,
                told: format!("not found in {}", libraries.display()),
            });
        };
        // The package does not say that it is a program.
        let directory = tempfile::tempdir().map_err(io("create a temporary directory"))?;
        let program = directory.path().join(name);
        std::fs::copy(found, &program).map_err(io("copy the emulator"))?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))
            .map_err(io("let the emulator be run"))?;
        Ok(Self {
            program,
            built: root.join(".aws-sam/build"),
            _directory: directory,
        })
    }

    /// Sends the event of a scene to its function, and answers its text.
    pub(crate) async fn invoke(&self, stage: &Stage) -> Result<String, Error> {
        let (front, runtime) = (free_port().await?, free_port().await?);
        let id = stage.logical_id();
        let mut emulator = command(&self.program)
            .args(["--log-level", "error"])
            .args(["--runtime-interface-emulator-address", &front.to_string()])
            .args(["--runtime-api-address", &runtime.to_string()])
            .arg(self.built.join(&id).join("bootstrap"))
            .env_clear()
            .envs(stage.environment("127.0.0.1"))
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_LAMBDA_FUNCTION_NAME", &id)
            .env("AWS_LAMBDA_FUNCTION_TIMEOUT", "10")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(io("start the emulator"))?;
        let pid = emulator.id();
        let invoked = async {
            let listening = tokio::time::timeout(TO_START, until_listening(front)).await;
            listening.map_err(|_| Error::Invoke {
                function: id.clone(),
                told: "the emulator does not listen".to_owned(),
            })?;
            let client = caller::client(front);
            let answer = caller::invoke(&client, "function", stage.payload()).await?;
            Ok::<_, Error>(answer.text)
        };
        let answer = invoked.await;
        // With the function that it has started.
        let group = pid.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = emulator.wait().await;
        answer
    }
}

async fn free_port() -> Result<SocketAddr, Error> {
    let bound = TcpListener::bind("127.0.0.1:0").await;
    bound
        .and_then(|listener| listener.local_addr())
        .map_err(io("find a free port"))
}

pub(crate) async fn until_listening(address: SocketAddr) {
    while TcpStream::connect(address).await.is_err() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
