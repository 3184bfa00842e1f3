//! The stage: starts the executions, stops one, has a process of another killed, and watches how they end.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_sfn::error::DisplayErrorContext;
use leasehold_local::{Counts, Error, Invocation, Options, Schedules, Stack};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::UnboundedSender;

use super::facts::{self, Fact, What};
use super::plan::{self, Part, Role};
use super::{MARGIN_MS, SWEEP_EVERY};

/// How often executions are asked how they are.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// When the demo stops to wait for an execution; one that still runs then is a violation.
const PATIENCE_MS: u64 = 100_000;
/// How long a fact that must come may take.
const FACT_LIMIT: Duration = Duration::from_secs(20);

/// The stack as the demo wants it: a small margin, so that a take-over need not be waited for, and sweep in a hurry.
pub(crate) fn options(out: &std::path::Path) -> Options {
    Options {
        parameters: BTreeMap::from([("ClockMarginMs".to_owned(), MARGIN_MS.to_string())]),
        run_directory: Some(out.to_owned()),
        engine: true,
        schedules: Schedules::Every(SWEEP_EVERY),
        canary: false,
        ..Options::default()
    }
}

/// The machines that were deployed, and whom to tell what happens.
pub(super) struct Stage<'a> {
    stack: &'a Stack,
    sfn: aws_sdk_sfn::Client,
    /// ARNs of the machines by name.
    machines: BTreeMap<String, String>,
    told: UnboundedSender<Fact>,
}

impl<'a> Stage<'a> {
    /// Deploys the template's machines, and the one to be wrapped.
    pub(super) async fn set(stack: &'a Stack, told: UnboundedSender<Fact>) -> Result<Self, Error> {
        let mut machines = stack.deploy().await?;
        let sfn = stack.sfn();
        let step = stack.functions().function("step")?.arn();
        let created = sfn
            .create_state_machine()
            .name(plan::WRAPPED)
            .definition(plan::wrapped_definition(&step))
            .role_arn("arn:aws:iam::123456789012:role/demo")
            .send()
            .await
            .map_err(|error| failed("CreateStateMachine", &error))?;
        machines.insert(
            plan::WRAPPED.to_owned(),
            created.state_machine_arn().to_owned(),
        );
        Ok(Self {
            stack,
            sfn,
            machines,
            told,
        })
    }

    /// The ARN that an execution will have.
    pub(super) fn arn(&self, role: &Role) -> String {
        let machine = self.machine(role.machine());
        format!(
            "{}:{}",
            machine.replacen(":stateMachine:", ":execution:", 1),
            role.name
        )
    }

    /// What another act starts executions of a machine with.
    pub(super) fn client(&self, machine: &str) -> (aws_sdk_sfn::Client, &str) {
        (self.sfn.clone(), self.machine(machine))
    }

    fn machine(&self, name: &str) -> &str {
        self.machines.get(name).map_or("", String::as_str)
    }

    /// Runs the whole cast to its end; answers what the uncontended execution has cost.
    pub(super) async fn direct(&self, cast: &[Role]) -> Result<Counts, Error> {
        let with = |part| cast.iter().find(move |role| role.part == part);
        let mut heard = self.stack.functions().invocations();
        let mut running = Vec::new();

        let mut uncontended = Counts::default();
        if let Some(alone) = with(Part::Alone) {
            let before = self.stack.proxy().counts();
            running.push(self.start(alone).await?);
            let began = facts::now();
            while !running.is_empty() && facts::now() - began < PATIENCE_MS {
                tokio::time::sleep(ASK_EVERY).await;
                self.ask(&mut running).await?;
            }
            uncontended = self.stack.proxy().counts().since(&before);
        }

        let mut stop_at = None;
        if let Some(stopped) = with(Part::Stopped) {
            let arn = self.start(stopped).await?;
            let granted = |what: &What| matches!(what, What::Granted(_));
            let fact = self.fact(&mut heard, &arn, granted).await?;
            stop_at = Some((fact.at + plan::STOP_AFTER_MS, arn.clone()));
            running.push(arn);
        }
        if let Some(killed) = with(Part::Killed) {
            // Nobody else asks for anything now, so it is this execution's process that dies.
            self.stack.functions().kill_before_answer("acquire", 1)?;
            let arn = self.start(killed).await?;
            let died = |what: &What| matches!(what, What::Killed { .. });
            self.fact(&mut heard, &arn, died).await?;
            running.push(arn);
        }
        self.crowd(cast, stop_at, running).await?;
        Ok(uncontended)
    }

    /// Starts the others at their times, and sees all of them to their ends.
    async fn crowd(
        &self,
        cast: &[Role],
        mut stop_at: Option<(u64, String)>,
        mut running: Vec<String>,
    ) -> Result<(), Error> {
        let began = facts::now();
        let in_crowd = |role: &&Role| matches!(role.part, Part::Section | Part::Wrapping);
        let mut waiting: Vec<_> = cast.iter().filter(in_crowd).collect();
        waiting.sort_by_key(|role| std::cmp::Reverse(role.after_ms));
        while !(running.is_empty() && waiting.is_empty()) && facts::now() - began < PATIENCE_MS {
            let now = facts::now();
            while let Some(role) = waiting.pop_if(|role| began + role.after_ms <= now) {
                running.push(self.start(role).await?);
            }
            if let Some((_, arn)) = stop_at.take_if(|(at, _)| *at <= now) {
                self.stop(&arn).await?;
            }
            self.ask(&mut running).await?;
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    async fn start(&self, role: &Role) -> Result<String, Error> {
        let arn = self.arn(role);
        // Before its first invocation is heard of.
        self.tell(Fact::now(&arn, What::Started));
        self.sfn
            .start_execution()
            .state_machine_arn(self.machine(role.machine()))
            .name(&role.name)
            .input(role.input(self.machine(plan::WRAPPED)).to_string())
            .send()
            .await
            .map_err(|error| failed("StartExecution", &error))?;
        Ok(arn)
    }

    async fn stop(&self, arn: &str) -> Result<(), Error> {
        let stop = self.sfn.stop_execution().execution_arn(arn);
        stop.cause("the demo stops it in the middle of its section")
            .send()
            .await
            .map_err(|error| failed("StopExecution", &error))?;
        self.tell(Fact::now(arn, What::Stopped));
        Ok(())
    }

    /// Asks all that run how they are, and forgets those that have ended.
    async fn ask(&self, running: &mut Vec<String>) -> Result<(), Error> {
        let mut left = Vec::new();
        for arn in running.drain(..) {
            let asked = self.sfn.describe_execution().execution_arn(&arn);
            let described = asked
                .send()
                .await
                .map_err(|error| failed("DescribeExecution", &error))?;
            if described.status().as_str() == "RUNNING" {
                left.push(arn);
                continue;
            }
            let what = What::Ended {
                status: described.status().as_str().to_owned(),
                error: described.error().map(str::to_owned),
            };
            self.tell(Fact::now(&arn, what));
        }
        *running = left;
        Ok(())
    }

    /// Waits for a fact about an execution.
    async fn fact(
        &self,
        heard: &mut Receiver<Invocation>,
        arn: &str,
        is_it: impl Fn(&What) -> bool,
    ) -> Result<Fact, Error> {
        let search = async {
            loop {
                match heard.recv().await {
                    Ok(invocation) => {
                        let fact = Fact::read(&invocation);
                        if let Some(fact) =
                            fact.filter(|fact| fact.holder == arn && is_it(&fact.what))
                        {
                            return Some(fact);
                        }
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        };
        let found = tokio::time::timeout(FACT_LIMIT, search).await;
        found.ok().flatten().ok_or_else(|| Error::Call {
            what: format!("wait for {arn}"),
            message: format!("nothing came within {FACT_LIMIT:?}; see the logs"),
        })
    }

    fn tell(&self, fact: Fact) {
        // Who listens no more has ended the run.
        let _ = self.told.send(fact);
    }
}

fn failed(what: &str, error: &(impl std::error::Error + 'static)) -> Error {
    Error::Call {
        what: what.to_owned(),
        message: DisplayErrorContext(error).to_string(),
    }
}
