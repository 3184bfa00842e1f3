//! `leasehold weave`: reads the files, weaves, and writes, shows or compares the woven machine.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use leasehold_asl::weave::{Refusal, Spec, is_woven, weave};
use leasehold_asl::{Source, confine_path, plain, plain_lines};
use similar::TextDiff;

use crate::check::Limits;

const EXAMPLES: &str = "\
Examples:
  leasehold weave order.weave.yaml              write the woven machine to where the specification says
  leasehold weave --dry-run order.weave.yaml    show the changes to the machine
  leasehold weave --check order.weave.yaml      for CI: exit code 1 unless the woven machine is up to date
  leasehold weave --output - order.weave.yaml   print it

A specification:
  machine: order.asl.json
  output: order-guarded.asl.json
  sections:
    - name: Order
      states: [Charge, Book]
      key: \"{% 'orders/' & $states.input.order %}\"

docs/guides/weave.md describes all fields.

Exit codes: 0 done, 1 the output would change (with --check), 2 refused, 3 a fault of the program.";

/// Write acquire, extend, release and their catches into a plain state machine
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Weave {
    /// The specification: YAML or JSON
    #[arg(value_name = "SPEC")]
    spec: PathBuf,
    /// Write the woven machine to this file instead of the specification's output; - prints it
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Accept only a machine and an output within this directory [default: the specification's own]
    #[arg(long, value_name = "DIRECTORY")]
    within: Option<PathBuf>,
    /// Show the difference between the machine and the woven one, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write nothing; exit code 1 if the output is not up to date
    #[arg(long)]
    check: bool,
    /// Overwrite a file that was not written by this program
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    limits: Limits,
}

impl Weave {
    /// Runs the command and prints a refusal.
    pub(crate) fn run(&self) -> ExitCode {
        match self.done() {
            Ok(code) => code,
            Err(refusal) => {
                eprintln!("{}", plain(&refusal.to_string()));
                ExitCode::from(if refusal.internal { 3 } else { 2 })
            }
        }
    }

    fn done(&self) -> Result<ExitCode, Refusal> {
        let spec_source = read(&self.spec)?;
        let spec = Spec::read(&spec_source)?;
        // Others may have written the specification, so files elsewhere are refused.
        let own = self.spec.parent().unwrap_or(Path::new(""));
        let tree = self.within.as_deref().unwrap_or(own);
        let beside = |file: &str| match confine_path(tree, &own.join(file)) {
            Ok(_) => Ok(own.join(file)),
            Err(error) => Err(Refusal::of(&spec_source.name, format!("{file}: {error}"))),
        };
        let machine = read(&beside(&spec.machine)?)?;
        let output = match (&self.output, &spec.output) {
            (Some(output), _) => Some(output.clone()),
            (None, Some(output)) => Some(beside(output)?),
            (None, None) => None,
        };
        let woven = weave(&machine, &spec, &self.limits.options())?;
        let output = output.filter(|output| output.as_os_str() != "-");
        if self.dry_run {
            let to = output
                .as_deref()
                .map_or_else(|| "-".into(), Path::to_string_lossy);
            print(&plain_lines(&difference(&machine, &to, &woven)))?;
        }
        if self.check {
            let output = output.ok_or_else(|| {
                Refusal::of(&spec_source.name, "no output to compare with: name one")
            })?;
            let there = std::fs::read_to_string(&output).ok();
            let is_same = there.as_ref() == Some(&woven);
            if is_same {
                tell(&output, "is up to date");
            } else {
                let how = if there.is_some() {
                    "is not up to date"
                } else {
                    "does not exist"
                };
                eprintln!("{}: {how}", plain(&output.to_string_lossy()));
            }
            return Ok(ExitCode::from(u8::from(!is_same)));
        }
        if !self.dry_run {
            match output {
                None => print_whole(&machine.name, &woven)?,
                Some(output) => {
                    let is_new = write(&output, &woven, self.force)?;
                    tell(&output, if is_new { "written" } else { "is up to date" });
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read(file: &Path) -> Result<Source, Refusal> {
    let name = file.to_string_lossy();
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Source::new(name, text)),
        Err(error) => Err(Refusal::of(&name, error.to_string())),
    }
}

/// The changes to the machine, as a patch.
fn difference(machine: &Source, to: &str, woven: &str) -> String {
    let diff = TextDiff::from_lines(machine.text.as_str(), woven);
    let mut unified = diff.unified_diff();
    unified
        .context_radius(3)
        .header(&machine.name, to)
        .to_string()
}

/// Says on standard error what became of the output, and leaves standard output to what is asked for.
fn tell(output: &Path, what: &str) {
    eprintln!("{}: {what}", plain(&output.to_string_lossy()));
}

/// Writes the file whole or not at all, and never over a file that this program did not write, unless `force` is set. Returns whether it
/// is another one than before.
fn write(output: &Path, woven: &str, force: bool) -> Result<bool, Refusal> {
    let name = output.to_string_lossy();
    let failed = |error: std::io::Error| Refusal::of(&name, error.to_string());
    match std::fs::read_to_string(output) {
        Ok(there) if there == woven => return Ok(false),
        Ok(there) if !force && !is_woven(&Source::new(name.clone(), there.as_str())) => {
            return Err(Refusal::of(
                &name,
                "exists already, and was not woven: remove it, name another output, or use --force",
            ));
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(_) if force => {}
        Err(error) => return Err(failed(error)),
    }
    let parent = output
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".leasehold-weave-")
        .tempfile_in(parent.unwrap_or(Path::new(".")))
        .map_err(failed)?;
    file.write_all(woven.as_bytes()).map_err(failed)?;
    // An existing file keeps its permissions. A new one gets those of an ordinary file instead of a temporary one.
    let rights = match std::fs::metadata(output) {
        Ok(there) => there.permissions(),
        Err(_) => std::fs::Permissions::from_mode(0o644),
    };
    file.as_file().set_permissions(rights).map_err(failed)?;
    file.persist(output).map_err(|error| failed(error.error))?;
    Ok(true)
}

/// Prints the machine byte by byte, or refuses if a terminal or a build's log could read a part of it as a command.
fn print_whole(name: &str, woven: &str) -> Result<(), Refusal> {
    let mut lines = woven.split_inclusive('\n');
    match lines.position(|line| plain_lines(line) != line) {
        None => print(woven),
        Some(nth) => Err(Refusal::of(
            name,
            format!(
                "line {} of the woven machine could control a terminal or a build's log: write it to a file (--output FILE)",
                nth + 1
            ),
        )),
    }
}

/// A closed pipe is no error: the reader has read enough.
fn print(text: &str) -> Result<(), Refusal> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Refusal::of("standard output", error.to_string()))
        }
        _ => Ok(()),
    }
}
