//! `leasehold check`: reads files, checks what is in them, and says what it found.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use leasehold_asl::{
    Options, Report, Rule, Source, Unreadable, Verb, definitions, draw, pictures, plain, report,
    within,
};

use crate::environment::variable;
use crate::exit::{Code, Failure};
use crate::output::{json_in_lines, say_lines, write};

const EXAMPLES: &str = "\
Examples:
  leasehold check statemachines/*.asl.json      check definitions
  leasehold check template.yaml                 check every state machine of a SAM template, by what the template calls
  leasehold check --format sarif template.yaml  for code scanning
  leasehold check --draw order.asl.json         a picture of it, in Mermaid's language
  leasehold check --acquire lock --release unlock order.asl.json
                                                functions that go by other names
  leasehold check --explain outlasts            what a rule is about, with a bad and a good example

Exit codes: 0 nothing found, 1 findings, 2 something could not be read.";

/// Find leases that can lapse, leak or be used after their end, in state machines that have not run yet
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
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
    /// The files that a template names have to be within this directory [default: the template's own]
    #[arg(long, value_name = "DIRECTORY")]
    within: Option<PathBuf>,
    /// Say what a rule is about, and check nothing
    #[arg(long, value_name = "RULE", value_parser = rule)]
    explain: Option<Rule>,
    /// Draw the state machines, as flowcharts in Mermaid's language, and check nothing
    #[arg(long)]
    draw: bool,
    /// Print a document, its pictures drawn anew
    #[arg(long, hide = true, value_name = "FILE")]
    pictures: Option<String>,
    /// Print docs/reference/check-rules.md
    #[arg(long, hide = true)]
    manual: bool,
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
    pub(crate) fn run(&self) -> Result<Code, Failure> {
        if let Some(rule) = self.explain {
            write(&leasehold_asl::explain(rule))?;
            return Ok(Code::DONE);
        }
        if self.manual {
            write(&leasehold_asl::manual())?;
            return Ok(Code::DONE);
        }
        let mut options = Options {
            margin_ms: self.margin_ms,
            guard_ms: self.guard_ms,
            ..Options::default()
        };
        let verbs = [
            (&self.acquire, Verb::Acquire),
            (&self.extend, Verb::Extend),
            (&self.release, Verb::Release),
        ];
        for (names, verb) in verbs {
            options
                .names
                .extend(names.iter().map(|name| (name.clone(), Some(verb))));
        }
        if self.draw {
            return print(self.draw_all(&options));
        }
        if let Some(file) = &self.pictures {
            let open = self.open(file);
            return print(read(file).and_then(|document| pictures(&document, &options, &open)));
        }
        let (mut reports, mut unreadable) = (Vec::new(), Vec::new());
        for file in &self.files {
            let open = self.open(file);
            match read(file).and_then(|source| definitions(&source, &options, &open)) {
                Ok(found) => reports.extend(found.into_iter().map(|definition| {
                    let mut checked = leasehold_asl::check(&definition.node, &definition.options);
                    checked
                        .findings
                        .retain(|finding| !self.allow.contains(&finding.rule));
                    Report {
                        source: definition.source,
                        resource: definition.resource,
                        checked,
                    }
                })),
                Err(error) => unreadable.push(error),
            }
        }
        match self.format {
            Format::Human => write(&report::human(&reports, &unreadable, coloured()))?,
            Format::Json => say_lines(&json_in_lines(&report::json(&reports, &unreadable))?)?,
            Format::Sarif => say_lines(&json_in_lines(&report::sarif(&reports, &unreadable))?)?,
        }
        let found = |report: &Report| !report.checked.findings.is_empty();
        Ok(match (unreadable.is_empty(), reports.iter().any(found)) {
            (false, _) => Code::USAGE,
            (true, true) => Code::NO,
            (true, false) => Code::DONE,
        })
    }

    /// The pictures of all state machines; those of a template go by the names of their resources.
    fn draw_all(&self, options: &Options) -> Result<String, Unreadable> {
        let mut drawn = String::new();
        for file in &self.files {
            for definition in definitions(&read(file)?, options, &self.open(file))? {
                if let Some(resource) = &definition.resource {
                    drawn.extend(["%% ", &plain(resource), "\n"]);
                }
                drawn.push_str(&draw(&definition.node, &definition.options));
            }
        }
        Ok(drawn)
    }

    /// Reads what a file names, which others may have written: nothing from anywhere else.
    fn open(&self, file: &str) -> impl Fn(&Path) -> std::io::Result<String> {
        let beside = Path::new(file).parent().map(Path::to_owned);
        let tree = self.within.clone().or(beside).unwrap_or_default();
        move |path| std::fs::read_to_string(within(&tree, path)?)
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

fn print(made: Result<String, Unreadable>) -> Result<Code, Failure> {
    match made {
        Ok(text) => write(&text).map(|()| Code::DONE),
        Err(error) => Err(Failure::usage(error)),
    }
}

/// On a terminal, unless the user wants none.
fn coloured() -> bool {
    std::io::stdout().is_terminal() && variable("NO_COLOR").is_none()
}
