//! The whole stack: what `template.yaml` describes, on this machine.

mod clients;
mod containers;
mod machines;
mod options;
mod register;
mod table;
mod work;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use options::{EnvironmentChanges, Options, Ports, Schedules};

use crate::canary::Canary;
use crate::dynamodb::DynamoDb;
use crate::engine;
use crate::error::{Error, io};
use crate::events::{Deliveries, Events};
use crate::iam::{self, Roles};
use crate::lambda::{ACCOUNT, LambdaHost};
use crate::proxy::Proxy;
use crate::schedule;
use crate::task::OwnedTask;
use crate::template::Template;
use machines::Machines;

/// Nobody listens here: what is sent to it fails at once instead of leaving the machine.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:9";
/// A running stack. Dropping it kills every process; [`stop`](Self::stop) also waits until they are gone.
pub struct Stack {
    // In the order in which they have to go: first who calls, last who is called.
    schedules: Vec<OwnedTask>,
    machines: Option<Machines>,
    events: Events,
    roles: Arc<Roles>,
    lambda: LambdaHost,
    proxy: Proxy,
    dynamodb: DynamoDb,
    template: Template,
    run_directory: RunDirectory,
}

enum RunDirectory {
    Kept(PathBuf),
    Temporary(tempfile::TempDir),
}

impl RunDirectory {
    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

impl Stack {
    /// Starts everything, with the tables of the template created and its functions registered. State machines
    /// are created by [`deploy`](Self::deploy).
    ///
    /// # Errors
    /// [`Error::Template`], [`Error::MissingBinaries`], [`Error::Engine`], or [`Error::Io`] for ports and files.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let binaries = options.binaries()?;
        let has_work = work::is_built(&binaries);
        let offered = if has_work {
            work::parameters()
        } else {
            BTreeMap::new()
        };
        let template = Template::read(&options.template(), &options.parameters, &offered)?;
        let roles = iam::of(&template).map_err(|refused| Error::Template {
            file: options.template(),
            message: refused.join("\n"),
        })?;
        let roles = Arc::new(roles);
        register::all_are_built(&template, binaries.clone())?;
        let run_directory = match &options.run_directory {
            Some(path) => {
                std::fs::create_dir_all(path).map_err(io(format!("create {}", path.display())))?;
                RunDirectory::Kept(path.clone())
            }
            None => RunDirectory::Temporary(
                tempfile::tempdir().map_err(io("create a temporary directory"))?,
            ),
        };
        let logs = run_directory.path().join("logs");

        let dynamodb = match &options.ttl_clock {
            Some(clock) => DynamoDb::start_with_clock(clock).await?,
            None => DynamoDb::start().await?,
        };
        table::create_all(&template, &dynamodb, has_work).await?;
        let proxy = Proxy::start(dynamodb.address(), options.ports.dynamodb).await?;
        let lambda = LambdaHost::start(&logs, options.ports.lambda).await?;
        let delay = options.queue_delay;
        let canary = options.canary.then(Arc::<Canary>::default);
        if let Some(canary) = &canary {
            proxy.teach(canary);
            lambda.watch(canary);
        }
        proxy.hold_to(&roles);
        lambda.hold_to(&roles);
        let mut events = Events::start(&template, &lambda, delay, options.ports.events).await?;
        let mut machines = None;
        if options.engine {
            let wiring = engine::Wiring {
                sfn: String::new(),
                lambda: lambda.url(),
                dynamodb: proxy.url(),
                status_events: format!("{}/events", events.url()),
                cloudformation: false,
            };
            let started = Machines::start(&options, &logs, wiring, &roles).await?;
            if let Some(canary) = &canary {
                started.proxy.teach(canary);
            }
            machines = Some(started);
        }
        let sfn = machines
            .as_ref()
            .map_or_else(|| NOWHERE.to_owned(), |machines| machines.proxy.url());
        let endpoints = [
            ("AWS_ENDPOINT_URL_DYNAMODB", proxy.url()),
            ("AWS_ENDPOINT_URL_SFN", sfn),
        ];
        register::all(&lambda, &template, &options, &binaries, &endpoints);
        if options.follow {
            events.follow(&template, &lambda, &dynamodb)?;
        }

        let mut stack = Self {
            schedules: Vec::new(),
            machines,
            events,
            roles,
            lambda,
            proxy,
            dynamodb,
            template,
            run_directory,
        };
        stack.schedule(options.schedules)?;
        Ok(stack)
    }

    /// Creates the template's state machines through the service's own API; answers the ARN of each by logical id.
    ///
    /// # Errors
    /// [`Error::Call`] with the service's message, also when there is no engine.
    pub async fn deploy(&self) -> Result<BTreeMap<String, String>, Error> {
        let sfn = self.sfn();
        let mut arns = BTreeMap::new();
        for machine in &self.template.state_machines {
            let created = sfn
                .create_state_machine()
                .name(&machine.name)
                .definition(machine.definition()?)
                .role_arn(format!("arn:aws:iam::{ACCOUNT}:role/{}", machine.role))
                .send()
                .await
                .map_err(|error| Error::Call {
                    what: format!("CreateStateMachine {}", machine.logical_id),
                    message: aws_sdk_sfn::error::DisplayErrorContext(&error).to_string(),
                })?;
            arns.insert(
                machine.logical_id.clone(),
                created.state_machine_arn().to_owned(),
            );
        }
        Ok(arns)
    }

    /// A client for DynamoDB, through the proxy: its requests are counted too.
    #[must_use]
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        clients::dynamodb(&self.proxy.url())
    }

    /// A client for Lambda.
    #[cfg(feature = "lambda-client")]
    #[must_use]
    pub fn lambda(&self) -> aws_sdk_lambda::Client {
        clients::lambda(&self.lambda.url())
    }

    /// A client for Step Functions. Without an engine its calls fail.
    #[must_use]
    pub fn sfn(&self) -> aws_sdk_sfn::Client {
        clients::sfn(self.sfn_url())
    }

    /// The proxy between the functions and Step Functions: counts and faults of what functions send there. Clients
    /// and the engine's own calls do not go through it. `None` without an engine.
    #[must_use]
    pub fn sfn_proxy(&self) -> Option<&Proxy> {
        self.machines.as_ref().map(|machines| &machines.proxy)
    }

    /// The roles of the template, which functions and state machines are held to.
    #[must_use]
    pub fn roles(&self) -> &Arc<Roles> {
        &self.roles
    }

    /// The say in what is delivered from streams, rules and queues.
    #[must_use]
    pub fn deliveries(&self) -> &Deliveries {
        self.events.deliveries()
    }

    /// Puts an event on the bus, as a service would.
    pub fn put_event(&self, event: serde_json::Value) {
        self.events.put(event);
    }

    /// The texts that wait in a queue of the template, the oldest first, such as dead letters; `None` if there is no
    /// such queue.
    #[must_use]
    pub fn queue(&self, logical_id: &str) -> Option<Vec<String>> {
        self.events.queue(logical_id)
    }

    /// The endpoint of the event bus: `POST /events`, `GET /queues` and `GET /queues/<logical id>`.
    #[must_use]
    pub fn events_url(&self) -> String {
        self.events.url()
    }

    /// The proxy in front of DynamoDB: counts and faults.
    #[must_use]
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// The database behind the proxy.
    #[must_use]
    pub fn database(&self) -> &DynamoDb {
        &self.dynamodb
    }

    /// The Lambda host: invocations, logs, and what can be done to sandboxes.
    #[must_use]
    pub fn functions(&self) -> &LambdaHost {
        &self.lambda
    }

    /// The Lambda endpoint.
    #[must_use]
    pub fn lambda_url(&self) -> String {
        self.lambda.url()
    }

    /// The DynamoDB endpoint, which is the proxy.
    #[must_use]
    pub fn dynamodb_url(&self) -> String {
        self.proxy.url()
    }

    /// Lets what functions call listen at `ip` too, at the same ports: DynamoDB, and Step Functions if there is an
    /// engine.
    ///
    /// # Errors
    /// [`Error::Io`] when this machine has no such address, or a port is taken there.
    pub async fn listen_also(&mut self, ip: IpAddr) -> Result<(), Error> {
        self.proxy.listen_also(ip).await?;
        if let Some(machines) = &mut self.machines {
            machines.proxy.listen_also(ip).await?;
        }
        Ok(())
    }

    /// The Step Functions endpoint; without an engine an address where nobody listens.
    #[must_use]
    pub fn sfn_url(&self) -> &str {
        let machines = self.machines.as_ref();
        machines.map_or(NOWHERE, |machines| machines.engine.url())
    }

    /// The variables that the template gives every function, such as `LEASE_TABLE`.
    #[must_use]
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.template.environment
    }

    /// The names of the tables.
    #[must_use]
    pub fn tables(&self) -> Vec<&str> {
        self.template.tables.iter().map(String::as_str).collect()
    }

    /// Where the logs are: `logs/<logical id>.log`, and `logs/engine.log`.
    #[must_use]
    pub fn run_directory(&self) -> &Path {
        self.run_directory.path()
    }

    /// Waits until a part of the stack that should run has ended by itself; for ever, in health.
    pub async fn failed(&mut self) -> Error {
        match &mut self.machines {
            Some(machines) => {
                machines.engine.ended().await;
                Error::Engine(format!(
                    "ended unexpectedly; see {}",
                    self.run_directory.path().join("logs/engine.log").display()
                ))
            }
            None => std::future::pending().await,
        }
    }

    /// Ends every process and waits until it is gone.
    pub async fn stop(mut self) {
        self.schedules.clear();
        if let Some(machines) = self.machines.take() {
            machines.engine.stop().await;
        }
        drop(self.events);
        self.lambda.stop().await;
    }

    fn schedule(&mut self, schedules: Schedules) -> Result<(), Error> {
        for resource in &self.template.functions {
            let period = match (schedules, resource.every) {
                (Schedules::Never, _) | (_, None) => continue,
                (Schedules::FromTemplate, Some(period)) | (Schedules::Every(period), Some(_)) => {
                    period
                }
            };
            self.schedules
                .push(schedule::start(&self.lambda, &resource.logical_id, period)?);
        }
        Ok(())
    }
}
