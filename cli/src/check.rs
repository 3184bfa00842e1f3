//! `leasehold check`: reads files, checks the state machines in them, and prints the findings.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use leasehold_asl::{
    Options, Report, Rule, Source, Unreadable, Verb, confine_path, definitions, report,
};

use crate::environment::variable;
use crate::exit::{Code, Failure};
use crate::output::{json_in_lines, print_lines, write};

const EXAMPLES: &str = "\
Examples:
  leasehold check statemachines/*.asl.json      check definitions
  leasehold check template.yaml                 check every state machine of a SAM template, by what the template calls
  leasehold check --format sarif template.yaml  print SARIF for code scanning
  leasehold check --acquire lock --release unlock order.asl.json
                                                name functions that the definitions call by other names
  leasehold check --explain outlasts            explain a rule, with a bad and a good example

Exit codes: 0 no findings, 1 findings, 2 a file could not be read. Where no call of Leasehold is recognised, a line says that no lease
was checked.";

/// Check state machines before they run: find leases that can expire, leak or be used after their end
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// State machines (JSON or YAML), SAM or CloudFormation templates, or Markdown files that contain state machines
    #[arg(required_unless_present = "explain")]
    files: Vec<String>,
    /// How to print the findings
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// A function that acquires, by its name in the definitions; may be repeated
    #[arg(long, value_name = "NAME")]
    acquire: Vec<String>,
    /// A function that extends; may be repeated
    #[arg(long, value_name = "NAME")]
    extend: Vec<String>,
    /// A function that releases; may be repeated
    #[arg(long, value_name = "NAME")]
    release: Vec<String>,
    #[command(flatten)]
    limits: Limits,
    /// A rule to leave out; may be repeated
    #[arg(long, value_name = "RULE", value_parser = rule)]
    allow: Vec<Rule>,
    /// Read the files that a template names only from within this directory [default: the template's own]
    #[arg(long, value_name = "DIRECTORY")]
    within: Option<PathBuf>,
    /// Explain a rule; of files also where they break it, and nothing else
    #[arg(long, value_name = "RULE", value_parser = rule)]
    explain: Option<Rule>,
}

// Of the functions that the machines call. No doc comment, which would be the command's.
#[derive(Args, Debug)]
pub(crate) struct Limits {
    /// `LEASE_CLOCK_MARGIN_MS` of the functions, subtracted from every lease
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    margin_ms: u64,
    /// `LEASE_GUARD_MS` of the functions, subtracted from every lease
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    guard_ms: u64,
}

impl Limits {
    pub(crate) fn options(&self) -> Options {
        Options {
            margin_ms: self.margin_ms,
            guard_ms: self.guard_ms,
            ..Options::default()
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
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

impl Check {
    fn options(&self) -> Options {
        let mut options = self.limits.options();
        for (names, verb) in [
            (&self.acquire, Verb::Acquire),
            (&self.extend, Verb::Extend),
            (&self.release, Verb::Release),
        ] {
            let names = names.iter().map(|name| (name.clone(), Some(verb)));
            options.names.extend(names);
        }
        options
    }

    pub(crate) fn run(&self) -> Result<Code, Failure> {
        if let Some(rule) = self.explain {
            write(&leasehold_asl::explain(rule))?;
            if self.files.is_empty() {
                return Ok(Code::DONE);
            }
        }
        let options = self.options();
        let (mut reports, mut unreadable) = (Vec::new(), Vec::new());
        for file in &self.files {
            let open = self.open(file);
            match read(file).and_then(|source| definitions(&source, &options, &open)) {
                Ok(found) => reports.extend(found.into_iter().filter_map(|definition| {
                    let definition = definition.map_err(|error| unreadable.push(error)).ok()?;
                    let mut checked = leasehold_asl::check(&definition.node, &definition.options);
                    checked.findings.retain(|finding| {
                        let is_asked = self.explain.is_none_or(|rule| rule == finding.rule);
                        is_asked && !self.allow.contains(&finding.rule)
                    });
                    Some(Report {
                        source: definition.source,
                        resource: definition.resource,
                        checked,
                    })
                })),
                Err(error) => unreadable.push(error),
            }
        }
        match self.format {
            Format::Human => write(&report::human(&reports, &unreadable, coloured()))?,
            Format::Json => print_lines(&json_in_lines(&report::json(&reports, &unreadable))?)?,
            Format::Sarif => print_lines(&json_in_lines(&report::sarif(&reports, &unreadable))?)?,
        }
        let any = |is: fn(&Report) -> bool| reports.iter().any(is);
        if !unreadable.is_empty() {
            Ok(Code::USAGE)
        } else if any(|report| !report.checked.findings.is_empty()) {
            Ok(Code::FAILURE)
        } else if any(|report| report.checked.calls > 0) {
            Ok(Code::DONE)
        } else {
            // No fault; but a function of a name that is not known would hide every one.
            eprintln!(
                "check: no lease was checked, because no call of Leasehold was recognised; if there is one, name its function with --acquire NAME, --extend NAME or --release NAME"
            );
            Ok(Code::DONE)
        }
    }

    /// Reads the files that a template names. Others may have written the template, so files elsewhere are refused.
    fn open(&self, file: &str) -> impl Fn(&Path) -> std::io::Result<String> {
        let beside = Path::new(file).parent().map(Path::to_owned);
        let tree = self.within.clone().or(beside).unwrap_or_default();
        move |path| std::fs::read_to_string(confine_path(&tree, path)?)
    }
}

fn read(file: &str) -> Result<Source, Unreadable> {
    let text = std::fs::read_to_string(file).map_err(|error| Unreadable {
        name: file.to_owned(),
        place: None,
        message: error.to_string(),
    })?;
    Ok(Source::new(file, text))
}

/// Colour is for terminals only, and can be switched off.
fn coloured() -> bool {
    std::io::stdout().is_terminal() && variable("NO_COLOR").is_none()
}
