//! `leasehold completions` and `man`, generated from the description of the command line.

use std::path::{Path, PathBuf};

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
  leasehold man acquire | man -l -              the page of a command
  leasehold man --to ~/.local/share/man/man1    this page, and one for each command")]
pub(crate) struct Man {
    /// The command whose page is printed, such as `acquire` or `table create` [default: the page of the program]
    #[arg(value_name = "COMMAND", conflicts_with = "to")]
    of: Vec<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIRECTORY")]
    to: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self, command: &Command) -> Result<Code, Failure> {
        let failed = |error: std::io::Error| Failure::new(Code::FAILURE, error);
        let mut all = shown(command).disable_help_subcommand(true);
        all.build();
        if let Some(directory) = &self.to {
            std::fs::create_dir_all(directory).map_err(failed)?;
            write_all(all, directory).map_err(failed)?;
            return Ok(Code::DONE);
        }
        let mut text = Vec::new();
        let one = named(&all, &self.of)?.clone();
        page(one).render(&mut text).map_err(failed)?;
        output::write(&String::from_utf8_lossy(&text))?;
        Ok(Code::DONE)
    }
}

fn page(command: Command) -> clap_mangen::Man {
    clap_mangen::Man::new(command).source(concat!("leasehold ", env!("CARGO_PKG_VERSION")))
}

/// The page of this command, and of each below it.
fn write_all(command: Command, directory: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands() {
        write_all(below.clone(), directory)?;
    }
    page(command).generate_to(directory).map(drop)
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

/// The command that these words name, below the program.
fn named<'a>(program: &'a Command, words: &[String]) -> Result<&'a Command, Failure> {
    words.iter().try_fold(program, |of, word| {
        of.find_subcommand(word).ok_or_else(|| {
            let known: Vec<_> = of.get_subcommands().map(Command::get_name).collect();
            let problem = format!("there is no command {word:?}");
            let advice = match &known[..] {
                [] => format!("{} has no commands below it", of.get_name()),
                known => format!("the commands are {}", known.join(", ")),
            };
            Failure::usage(problem).advice(advice)
        })
    })
}
