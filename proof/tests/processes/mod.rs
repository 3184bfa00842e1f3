//! Processes as the kernel sees them: who started whom, and who is gone.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A program that every signal ends by default. Under `nohup` and a shell's `&` these tests ignore some, and what they start
/// would ignore them too.
pub fn program(path: &Path) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(path);
    command
}

/// The processes that `of` has started itself.
pub fn children(of: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent(*pid) == Some(of)).collect()
}

/// The parent of a process that runs; a zombie does not.
pub fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(") ").next()?.split(' ');
    let state = fields.next()?;
    (state != "Z").then_some(())?;
    fields.next()?.parse().ok()
}

pub fn wait_until_gone(pids: &[u32]) {
    let start = Instant::now();
    while pids.iter().any(|pid| parent(*pid).is_some()) {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "left behind: {pids:?}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}
