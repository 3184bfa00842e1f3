//! The command: reads files, checks what is in them, and says what it found.

use clap::{Parser, ValueEnum};
use leasehold_check::{
    Options, Report, Rule, Source, Unreadable, Verb, check, definitions, draw, pictures, report,
};
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  leasehold-check statemachines/*.asl.json      check definitions
  leasehold-check template.yaml                 check every state machine of a SAM template, by what the template calls
  leasehold-check --format sarif template.yaml  for code scanning
  leasehold-check --acquire lock --release unlock order.asl.json
                                                functions that go by other names
  leasehold-check --draw order.asl.json         a picture of it, in Mermaid's language
  leasehold-check --explain outlasts            what a rule is about, with a bad and a good example

Exit codes: 0 nothing found, 1 findings, 2 something could not be read.";

/// Finds leases that can lapse, leak or be used after their end, in state machines that have not run yet.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    /// State machines (JSON or YAML), SAM or CloudFormation templates, or Markdown with state machines in it
    #[arg(required_unless_present_any = ["explain", "manual", "pictures"])]
    files: Vec<String>,
    /// How to say what was found
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// A function that acquires, as the definitions name it; may be repeated
    #[arg(long, value_name = "NAME")]
    acquire: Vec<String>,
    /// A function that extends
    #[arg(long, value_name = "NAME")]
    extend: Vec<String>,
    /// A function that releases
    #[arg(long, value_name = "NAME")]
    release: Vec<String>,
    /// `LEASE_CLOCK_MARGIN_MS` of the functions: taken off every lease
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    margin_ms: u64,
    /// `LEASE_GUARD_MS` of the functions: taken off every lease
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    guard_ms: u64,
    /// A rule to leave out; may be repeated
    #[arg(long, value_name = "RULE", value_parser = rule)]
    allow: Vec<Rule>,
    /// Say what a rule is about, and check nothing
    #[arg(long, value_name = "RULE", value_parser = rule)]
    explain: Option<Rule>,
    /// Draw the state machines, as flowcharts in Mermaid's language, and check nothing
    #[arg(long)]
    draw: bool,
    /// Print a document, its pictures drawn anew
    #[arg(long, hide = true, value_name = "FILE")]
    pictures: Option<String>,
    /// Print docs/CHECK.md
    #[arg(long, hide = true)]
    manual: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Human,
    Json,
    Sarif,
}

fn rule(id: &str) -> Result<Rule, String> {
    let known = || {
        Rule::ALL
            .iter()
            .map(|rule| rule.id())
            .collect::<Vec<_>>()
            .join(", ")
    };
    Rule::of(id).ok_or_else(|| format!("the rules are {}", known()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(rule) = arguments.explain {
        print!("{}", leasehold_check::explain(rule));
        return ExitCode::SUCCESS;
    }
    if arguments.manual {
        print!("{}", leasehold_check::manual());
        return ExitCode::SUCCESS;
    }
    let mut options = Options {
        margin_ms: arguments.margin_ms,
        guard_ms: arguments.guard_ms,
        ..Options::default()
    };
    let verbs = [
        (&arguments.acquire, Verb::Acquire),
        (&arguments.extend, Verb::Extend),
        (&arguments.release, Verb::Release),
    ];
    for (names, verb) in verbs {
        options
            .names
            .extend(names.iter().map(|name| (name.clone(), Some(verb))));
    }
    if arguments.draw {
        return print(draw_all(&arguments.files, &options));
    }
    if let Some(file) = &arguments.pictures {
        return print(read(file).and_then(|document| pictures(&document, &options, &open)));
    }
    let (mut reports, mut unreadable) = (Vec::new(), Vec::new());
    for file in &arguments.files {
        match read(file).and_then(|source| definitions(&source, &options, &open)) {
            Ok(found) => reports.extend(found.into_iter().map(|definition| {
                let mut checked = check(&definition.node, &definition.options);
                checked
                    .findings
                    .retain(|finding| !arguments.allow.contains(&finding.rule));
                Report {
                    source: definition.source,
                    resource: definition.resource,
                    checked,
                }
            })),
            Err(error) => unreadable.push(error),
        }
    }
    // In one piece: standard output would be written line by line.
    let said = match arguments.format {
        Format::Human => report::human(&reports, &unreadable, coloured()),
        Format::Json => format!("{:#}\n", report::json(&reports, &unreadable)),
        Format::Sarif => format!("{:#}\n", report::sarif(&reports, &unreadable)),
    };
    print!("{said}");
    if !unreadable.is_empty() {
        return ExitCode::from(2);
    }
    ExitCode::from(u8::from(
        reports
            .iter()
            .any(|report| !report.checked.findings.is_empty()),
    ))
}

/// The pictures of all state machines; those of a template go by the names of their resources.
fn draw_all(files: &[String], options: &Options) -> Result<String, Unreadable> {
    let mut drawn = String::new();
    for file in files {
        for definition in definitions(&read(file)?, options, &open)? {
            if let Some(resource) = &definition.resource {
                drawn.extend(["%% ", resource, "\n"]);
            }
            drawn.push_str(&draw(&definition.node, &definition.options));
        }
    }
    Ok(drawn)
}

fn print(made: Result<String, Unreadable>) -> ExitCode {
    match made {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn open(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

fn read(file: &str) -> Result<Source, Unreadable> {
    let text = std::fs::read_to_string(file).map_err(|error| Unreadable {
        name: file.to_owned(),
        place: None,
        message: error.to_string(),
    })?;
    Ok(Source::new(file, text))
}

/// On a terminal, unless the user wants none.
#[expect(
    clippy::disallowed_methods,
    reason = "NO_COLOR is the terminal's, not a setting"
)]
fn coloured() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}
