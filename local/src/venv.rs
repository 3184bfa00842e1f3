//! Python environments: each is created once per set of requirements, and shared.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, io};
use crate::process::Program;

/// The polling period of a process that waits for another one's installation.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A Python environment of this repository.
#[derive(Debug)]
pub struct PythonEnvironment<'a> {
    /// The directory in `target` that it is kept in.
    pub name: &'a str,
    /// The file that lists every package with its version and hashes.
    pub requirements: &'a Path,
    /// Its purpose, as in "preparing the …".
    pub purpose: &'a str,
    /// Advice if Python is missing or cannot create environments.
    pub without: &'a str,
}

/// Ensures that the environment has exactly the packages of its requirements, and returns its Python. On first use it
/// takes up to half a minute. If the future is dropped, an unfinished environment does not count as ready.
///
/// # Errors
/// [`Error::Python`] when Python or a package cannot be had, [`Error::Io`] for files.
pub async fn prepare(root: &Path, environment: &PythonEnvironment<'_>) -> Result<PathBuf, Error> {
    let PythonEnvironment {
        name,
        requirements,
        purpose,
        without,
    } = environment;
    let target = root.join("target");
    let venv = target.join(name);
    let python = venv.join("bin/python");
    let stamp = venv.join("leasehold-requirements");
    let wanted = std::fs::read_to_string(requirements)
        .map_err(io(format!("read {}", requirements.display())))?;
    let is_ready = || std::fs::read_to_string(&stamp).is_ok_and(|stamped| stamped == wanted);
    if is_ready() {
        return Ok(python);
    }

    std::fs::create_dir_all(&target).map_err(io(format!("create {}", target.display())))?;
    // Test programs start at once and all need it. Closing the file releases the lock, also after a crash.
    let _lock = lock(&target.join(format!("{name}.lock"))).await?;
    if is_ready() {
        return Ok(python);
    }
    eprintln!(
        "leasehold: preparing {purpose} in {} (once, about half a minute)",
        venv.display()
    );
    // An unfinished or old environment is replaced as a whole.
    match std::fs::remove_dir_all(&venv) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io(format!("remove {}", venv.display()))(error));
        }
        _ => {}
    }
    let log = target.join(format!("{name}.log"));
    run(
        Path::new("/usr/bin/env"),
        &["python3", "-m", "venv"],
        &venv,
        &log,
    )
    .await
    .map_err(|error| match error {
        Error::Python(output) => Error::Python(format!("{output}\n{without}")),
        other => other,
    })?;
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "-r",
    ];
    run(&python, &install, requirements, &log).await?;
    // The Makefile writes the same stamp, because it installs while cargo builds.
    std::fs::write(&stamp, wanted).map_err(io(format!("write {}", stamp.display())))?;
    eprintln!("leasehold: {purpose} is ready");
    Ok(python)
}

async fn lock(path: &Path) -> Result<File, Error> {
    let file = File::create(path).map_err(io(format!("create {}", path.display())))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_EVERY).await,
            Err(TryLockError::Error(error)) => {
                return Err(io(format!("lock {}", path.display()))(error));
            }
        }
    }
}

/// Runs a step with this process's environment, which may contain proxy or index settings for packages.
async fn run(program: &Path, arguments: &[&str], last: &Path, log: &Path) -> Result<(), Error> {
    let mut all: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    all.push(last.into());
    let shown = format!(
        "{} {} {}",
        program.display(),
        arguments.join(" "),
        last.display()
    );
    let program = Program {
        path: program,
        arguments: all,
        environment: std::env::vars().collect(),
        output: File::create(log).map_err(io(format!("create {}", log.display())))?,
    };
    let mut child = program.spawn().map_err(io(format!("run {shown}")))?;
    let status = child.wait().await.map_err(io(format!("run {shown}")))?;
    if status.success() {
        return Ok(());
    }
    let output = std::fs::read_to_string(log).unwrap_or_default();
    Err(Error::Python(format!(
        "{shown} failed ({status}): {}",
        output.trim()
    )))
}
