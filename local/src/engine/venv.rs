//! The engine's Python environment: made once per set of requirements, shared by all who start the stack.

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, io};

/// Makes sure that the environment in `target/asl-venv` has exactly what `requirements` lists, and answers its
/// Python. Blocks: on first use for about half a minute, and while another process is making it.
pub(super) fn prepare(root: &Path, requirements: &Path) -> Result<PathBuf, Error> {
    let target = root.join("target");
    let venv = target.join("asl-venv");
    let python = venv.join("bin/python");
    let stamp = venv.join("leasehold-requirements");
    let wanted = fingerprint(requirements)?;
    let is_ready = || std::fs::read_to_string(&stamp).is_ok_and(|stamped| stamped == wanted);
    if is_ready() {
        return Ok(python);
    }

    std::fs::create_dir_all(&target).map_err(io(format!("create {}", target.display())))?;
    let lock = target.join("asl-venv.lock");
    let lock = File::create(&lock).map_err(io(format!("create {}", lock.display())))?;
    // Test programs start at once and all want it. The lock goes when the file is closed, also by a crash.
    lock.lock().map_err(io("wait for the Python environment"))?;
    if is_ready() {
        return Ok(python);
    }
    eprintln!(
        "leasehold: preparing the state machine engine in {} (once, about half a minute)",
        venv.display()
    );
    // Half an environment, or an old one, is not worth repairing.
    match std::fs::remove_dir_all(&venv) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io(format!("remove {}", venv.display()))(error));
        }
        _ => {}
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "-r",
    ];
    run(Command::new(&python).args(install).arg(requirements))?;
    // Compiled once here instead of at every first start of a test program.
    run(Command::new(&python)
        .args(["-m", "compileall", "-q"])
        .arg(venv.join("lib")))?;
    std::fs::write(&stamp, wanted).map_err(io(format!("write {}", stamp.display())))?;
    eprintln!("leasehold: the state machine engine is ready");
    Ok(python)
}

fn run(command: &mut Command) -> Result<(), Error> {
    let shown = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(io(format!("run {shown}")))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(Error::Engine(format!(
        "{shown} failed ({}): {}",
        output.status,
        told.trim()
    )))
}

/// Changes with every change of the requirements. It guards against a forgotten update, not against an attacker:
/// what is installed is checked by pip against the hashes in the file.
fn fingerprint(requirements: &Path) -> Result<String, Error> {
    let text =
        std::fs::read(requirements).map_err(io(format!("read {}", requirements.display())))?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
