//! Every command and every option says what it is for, and the page of the command line names what the program knows.

use std::collections::BTreeSet;

use clap::Command;

/// The program and all commands below it that are shown, each with its full name.
fn commands() -> Vec<(String, Command)> {
    let mut command = leasehold_cli::command();
    command.build();
    let mut open = vec![("leasehold".to_owned(), command)];
    let mut found = Vec::new();
    while let Some((name, command)) = open.pop() {
        let below = command.get_subcommands();
        let below = below.filter(|one| !one.is_hide_set() && one.get_name() != "help");
        open.extend(below.map(|one| (format!("{name} {}", one.get_name()), one.clone())));
        found.push((name, command));
    }
    found
}

fn page() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/operate/command-line.md"
    );
    std::fs::read_to_string(path).unwrap()
}

fn help(command: &Command) -> String {
    command.clone().render_long_help().to_string()
}

#[test]
fn every_option_has_help() {
    for (name, command) in commands() {
        assert!(command.get_about().is_some(), "{name}");
        for option in command.get_arguments().filter(|one| !one.is_hide_set()) {
            let help = option.get_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            assert!(
                help.len() > 5 && !help.ends_with('.'),
                "{name} {}: {help:?}",
                option.get_id()
            );
        }
    }
}

#[test]
fn page_names_each_command() {
    let shown: BTreeSet<String> = page()
        .lines()
        .filter_map(|line| line.strip_prefix("| `leasehold ")?.split(" | ").next())
        .flat_map(|cell| {
            let names = format!("`leasehold {cell}");
            let names = names.split('`').skip(1).step_by(2).map(str::to_owned);
            names.collect::<Vec<_>>()
        })
        .collect();
    let all = commands();
    let leaves = all.iter().filter(|(name, _)| {
        let below = format!("{name} ");
        !all.iter().any(|(other, _)| other.starts_with(&below))
    });
    let known: BTreeSet<String> = leaves.map(|(name, _)| name.clone()).collect();
    assert_eq!(shown, known);
}

#[test]
fn page_has_the_exit_codes() {
    let help = help(&leasehold_cli::command());
    let (_, codes) = help.split_once("Exit codes:\n").unwrap();
    let codes = codes.lines().take_while(|line| line.starts_with("  "));
    let mut count = 0;
    for line in codes.filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())) {
        let (code, says) = line.trim_start().split_once("   ").unwrap();
        let row = format!("| {} | ", code.trim());
        let page = page();
        let row = page.lines().find(|line| line.starts_with(&row));
        // The page says of which command the last are.
        let says = says.trim_start().trim_start_matches("the command ");
        assert!(row.is_some_and(|row| row.contains(says)), "{line}");
        count += 1;
    }
    assert!(count >= 7, "{help}");
}

#[test]
fn page_names_each_variable() {
    let page = page();
    for (name, command) in commands() {
        let help = help(&command);
        let words = help.split(|c: char| !c.is_ascii_uppercase() && c != '_');
        let is_variable = |word: &&str| word.starts_with("LEASE") || word.starts_with("AWS_");
        for word in words.filter(|word| word.contains('_')).filter(is_variable) {
            assert!(page.contains(word), "{name}: {word}");
        }
    }
}
