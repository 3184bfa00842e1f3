//! `leasehold completions` and `man`, and the page `docs/reference/cli.md`, generated from the description of the command line.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::{Code, Failure};
use crate::output;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold completions bash >~/.local/share/bash-completion/completions/leasehold
  leasehold completions zsh >~/.zfunc/_leasehold
  leasehold completions fish >~/.config/fish/completions/leasehold.fish")]
pub(crate) struct Completions {
    /// The shell to print completions for
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, command: &Command) -> Result<Code, Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut shown(command), "leasehold", &mut text);
        output::write(&String::from_utf8_lossy(&text))?;
        Ok(Code::DONE)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold man | man -l -
  leasehold man --to ~/.local/share/man/man1    this page, and one for each command")]
pub(crate) struct Man {
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIRECTORY")]
    to: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self, command: &Command) -> Result<Code, Failure> {
        let failed = |error: std::io::Error| Failure::new(Code::FAILURE, error);
        if let Some(directory) = &self.to {
            std::fs::create_dir_all(directory).map_err(failed)?;
            clap_mangen::generate_to(shown(command), directory).map_err(failed)?;
            return Ok(Code::DONE);
        }
        let mut text = Vec::new();
        clap_mangen::Man::new(shown(command))
            .render(&mut text)
            .map_err(failed)?;
        output::write(&String::from_utf8_lossy(&text))?;
        Ok(Code::DONE)
    }
}

/// The command line without the hidden commands by which the program calls itself.
fn shown(command: &Command) -> Command {
    let mut shown = Command::new("leasehold")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true);
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(codes) = command.get_after_help() {
        shown = shown.after_help(codes.clone());
    }
    shown.subcommands(
        command
            .get_subcommands()
            .filter(|one| !one.is_hide_set())
            .cloned(),
    )
}

/// `docs/reference/cli.md`.
#[must_use]
pub fn manual(command: &Command) -> String {
    let mut text = String::from(HEAD);
    let mut command = shown(command);
    command.build();
    page(&mut text, &command, "leasehold");
    text + "\nRead next: [operate leases](../operate/keys.md) · [runbook](../operate/alarms.md) · [check rules](check-rules.md)\n"
}

const HEAD: &str = include_str!("manual.md");

fn page(text: &mut String, command: &Command, name: &str) {
    let mut one = command.clone().bin_name(name).term_width(100);
    let help = one.render_long_help().to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    let _ = writeln!(
        text,
        "\n## {name}\n\n```\n{}\n```",
        lines.join("\n").trim_end()
    );
    for below in command
        .get_subcommands()
        .filter(|one| one.get_name() != "help")
    {
        page(text, below, &format!("{name} {}", below.get_name()));
    }
}
