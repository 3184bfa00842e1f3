//! `leasehold-local rehearse`, run by `make rehearsal`. A local stack of the translated template enforces the roles. All workflows
//! run on it, and every permission of a role must be needed at least once.

mod fixture;
mod isolation;
mod queue;
mod scenarios;
mod teams;
mod usage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use leasehold_local::{Error, Options, Schedules, Stack};

use fixture::Fixture;

/// Instead of the template's 2000, so that expired leases are taken over soon.
const MARGIN_MS: &str = "500";
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Instead of the minute after which reap receives an event a second time.
const QUEUE_DELAY: Duration = Duration::from_secs(2);

/// Values for every parameter that is empty or off by default. A local stack fills in those of the samples.
const EVERY: [(&str, &str); 17] = [
    ("AcquireConcurrency", "10"),
    ("AlarmTopicArn", "arn:aws:sns:us-east-1:123456789012:alarms"),
    ("DeletionProtection", "false"),
    ("ExtendConcurrency", "10"),
    ("InspectConcurrency", "1"),
    ("KmsKeyArn", "arn:aws:kms:us-east-1:123456789012:key/a"),
    ("MachineLogging", "ERROR"),
    ("NamePrefix", "ours"),
    ("OperateConcurrency", "1"),
    (
        "PermissionsBoundaryArn",
        "arn:aws:iam::123456789012:policy/boundary",
    ),
    ("ReapConcurrency", "5"),
    ("ReapStatuses", "FAILED,TIMED_OUT,ABORTED"),
    ("ReleaseConcurrency", "10"),
    ("SecurityGroupIds", "sg-1"),
    ("SubnetIds", "subnet-1,subnet-2"),
    ("SweepConcurrency", "1"),
    ("Tracing", "Active"),
];

const NOT_SHOWN: &str = "Only AWS can show:
  * what service control policies and permissions boundaries of the account forbid
  * that IAM limits SendTaskSuccess and SendTaskFailure to the ARNs of state machines: others report it, AWS does not document it
  * what Step Functions requires of a role when a machine is created, beyond the managed rule of startExecution.sync
  * that the uploaded code starts on provided.al2023 with the chosen architecture, and how long that takes
  * log format and level, retention, encryption, point-in-time recovery: they are set, but have no effect here
  * alarms and the dashboard, of which only the references are checked; a customer's key and X-Ray, which are off here
  * properties that cfn-lint accepts and a service refuses, names already in use, quotas of the account, and
    CloudFormation's rollbacks";

const EXAMPLES: &str = "Examples:
  leasehold-local rehearse
  leasehold-local rehearse --template target/changed.json

Exit codes: 0 no fault found, 1 faults found and printed, 2 wrong arguments.";

/// Runs every workflow on a stack of the translated template, with the permissions of its roles and no others.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rehearse {
    /// The translated template [default: local/template.json]
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Directory for logs [default: target/rehearsal]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// Rehearses the deployment.
pub(crate) async fn run(rehearse: Rehearse) -> Result<ExitCode, Error> {
    let began = Instant::now();
    let root = Options::default().root;
    let template = rehearse
        .template
        .unwrap_or_else(|| root.join("local/template.json"));
    let out = rehearse
        .out
        .unwrap_or_else(|| root.join("target/rehearsal"));

    for (parameters, what) in [
        // A local stack would fill in the samples' parameters.
        (
            &[("StepFunctionArn", ""), ("AccountsTableName", "")][..],
            "at its default",
        ),
        (&EVERY, "that is empty by default"),
    ] {
        let stack = Stack::start(Options {
            engine: false,
            parameters: texts(parameters),
            ..options(&template, &out.join("parameters"))
        });
        let stack = stack.await?;
        let resources: usize = stack.resources().values().sum();
        println!("With every parameter {what}: {resources} resources.");
        stack.stop().await;
    }

    let stack = Stack::start(options(&template, &out)).await?;
    let resources: usize = stack.resources().values().sum();
    println!("With the samples' parameters: {resources} resources:");
    for (kind, count) in stack.resources() {
        println!("  {kind} {count}");
    }
    println!();
    let fixture = Fixture::open(&stack).await?;
    let mut wrong = Box::pin(scenarios::play(&fixture)).await;
    let usage = usage::Usage::of(stack.roles());
    stack.stop().await;
    wrong.extend(usage.wrong(queue::STRANGER));
    let (cross_stack_permissions, tried) =
        isolation::cross_stack_permissions(&template, &out).await?;
    println!(
        "\nOf two stacks whose names begin alike, neither may do any of {tried} things to the other."
    );
    wrong.extend(cross_stack_permissions);
    let teams = teams::play(&template, &out).await?;
    println!(
        "Of two teams on one table, neither can reach the other's leases, by its functions or by its role."
    );
    wrong.extend(teams);
    wrong.extend(usage::seeded(&template, &out).await?);
    wrong.extend(isolation::seeded(&template, &out).await?);
    println!("Seeded, and to be found: a missing right, and names that two stacks share.");

    println!("\n{NOT_SHOWN}\n");
    for wrong in &wrong {
        println!("WRONG: {wrong}");
    }
    println!("in {} s", began.elapsed().as_secs());
    println!("rehearsal: {resources} resources, {usage}");
    Ok(if wrong.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn texts(parameters: &[(&str, &str)]) -> BTreeMap<String, String> {
    let parameters = parameters.iter();
    parameters
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn read(file: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(file);
    text.map_err(|error| Error::call(file.display(), error))
}

/// Writes a changed template, and returns where.
fn write(file: &Path, text: &str) -> Result<PathBuf, Error> {
    let made = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(file, text))
        .map_err(|error| Error::call(file.display(), error))?;
    Ok(file.to_owned())
}

fn options(template: &Path, out: &Path) -> Options {
    Options {
        template: Some(template.to_owned()),
        parameters: texts(&[
            ("ClockMarginMs", MARGIN_MS),
            ("LookSeconds", "1"),
            ("ReapStatuses", "SUCCEEDED,FAILED,TIMED_OUT,ABORTED"),
        ]),
        run_directory: Some(out.to_owned()),
        engine: true,
        schedules: Schedules::Every(SWEEP_EVERY),
        queue_delay: Some(QUEUE_DELAY),
        ..Options::default()
    }
}
