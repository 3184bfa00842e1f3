//! `leasehold-local rehearse`: what `make rehearsal` runs. The translated template's stack is created through `CloudFormation`;
//! from what the services tell of it afterwards a local stack is made, which holds everybody to the roles; then all workflows
//! run there, and everything that a role may do has to have been done.

mod acts;
mod faults;
mod line;
mod usage;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use leasehold_local::{CloudFormation, Error, Options, Schedules, Stack};
use serde_json::Value;

use world::World;

/// Instead of the template's 2000, so that an expired lease need not be waited for.
const MARGIN_MS: &str = "500";
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Instead of the minute after which reap hears a second time.
const QUEUE_DELAY: Duration = Duration::from_secs(2);

const NOT_SHOWN: &str = "Only AWS can show:
  * what service control policies or permission boundaries of the account forbid besides
  * that IAM limits SendTaskSuccess and SendTaskFailure to state machines as it is documented
  * what Step Functions demands of a role when a machine is created, beyond the managed rule of startExecution.sync
  * that the uploaded code starts on provided.al2023 with the chosen architecture, and how long that takes
  * log format and level, retention, encryption, point-in-time recovery: they are set, and nothing here obeys them
  * alarms and the dashboard, of which the references alone are looked at; a customer's key and X-Ray, which are off here
  * names that are taken, quotas of the account, and how CloudFormation rolls back";

const EXAMPLES: &str = "Examples:
  leasehold-local rehearse
  leasehold-local rehearse --seeded-faults

Exit codes: 0 it would work as far as this machine can tell, 1 something is wrong and was told, 2 wrong arguments.";

/// Creates the translated template's stack, and runs the workflows on what was created.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rehearse {
    /// The translated template [default: target/template.json, which `make template` writes]
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Where what was created is written down, with logs [default: target/rehearsal]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// Then make the template wrong in many ways, one at a time, and see that each is found
    #[arg(long)]
    seeded_faults: bool,
}

/// Rehearses the deployment.
pub(crate) async fn run(rehearse: Rehearse) -> Result<ExitCode, Error> {
    let began = Instant::now();
    let root = Options::default().root;
    let template = rehearse
        .template
        .unwrap_or_else(|| root.join("target/template.json"));
    let out = rehearse
        .out
        .unwrap_or_else(|| root.join("target/rehearsal"));
    let cloudformation = CloudFormation::start(&root, &out.join("cloudformation")).await?;
    let created = cloudformation
        .create(&template, &parameters(), &out.join("stack"))
        .await?;
    let resources = tell_created(&created)?;

    let plain = plain(&cloudformation, &template, &out.join("defaults")).await?;
    println!(
        "With every parameter at its default: {plain}, and what happens by itself is allowed.\n"
    );

    let stack = Stack::start(options(&created, &out)).await?;
    let world = World::open(&stack, &created).await?;
    let mut wrong = Box::pin(acts::play(&world)).await;
    let usage = usage::Usage::of(stack.roles());
    stack.stop().await;
    wrong.extend(usage.wrong());
    if rehearse.seeded_faults {
        println!("\nMade wrong on purpose:");
        let (missed, seeded) = faults::play(&cloudformation, &template, &out).await;
        println!("{seeded} seeded faults, {} found", seeded - missed.len());
        wrong.extend(missed);
    }
    cloudformation.stop().await;

    println!("\n{NOT_SHOWN}\n");
    for wrong in &wrong {
        println!("WRONG: {wrong}");
    }
    println!(
        "in {} s; what was created: {}",
        began.elapsed().as_secs(),
        created.display()
    );
    println!("rehearsal: {resources} resources, {usage}");
    Ok(if wrong.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Creates the stack as it is without any parameter; answers how many resources it has.
async fn plain(
    cloudformation: &CloudFormation,
    template: &Path,
    out: &Path,
) -> Result<usize, Error> {
    let created = cloudformation
        .create(template, &BTreeMap::new(), out)
        .await?;
    let stack = Stack::start(Options {
        engine: false,
        ..options(&created, out)
    });
    stack.await?.stop().await;
    Ok(world::created(&created)?.len())
}

/// Values for those parameters without which parts of the stack are not created.
fn parameters() -> BTreeMap<String, String> {
    [
        ("StepFunctionArn", world::STEP),
        ("AccountsTableName", world::ACCOUNTS),
        ("ClockMarginMs", MARGIN_MS),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn options(created: &Path, out: &Path) -> Options {
    Options {
        template: Some(created.to_owned()),
        run_directory: Some(out.to_owned()),
        engine: true,
        schedules: Schedules::Every(SWEEP_EVERY),
        queue_delay: Some(QUEUE_DELAY),
        ..Options::default()
    }
}

/// Prints what was created, by kind; answers how many there are.
fn tell_created(created: &Path) -> Result<usize, Error> {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let created = world::created(created)?;
    for (id, kind, _) in &created {
        kinds.entry(kind.clone()).or_default().push(id.clone());
    }
    println!("Created, in the order of their references:");
    for (kind, ids) in kinds {
        println!("  {kind} {}: {}", ids.len(), ids.join(", "));
    }
    println!();
    Ok(created.len())
}

/// The text of a field.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
