//! The whole stack of `template.yaml`, on this machine.

mod directory;
mod functions;
mod options;
mod schedule;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_net::Listener;
use serde_json::{Value, json};

use directory::RunDirectory;
pub use options::{EnvironmentChanges, Options, Ports, Schedules};

use crate::arn;
use crate::dynamodb::DynamoDb;
use crate::engine::Engine;
use crate::error::{self, Error};
use crate::events::Events;
use crate::guard::session_token;
use crate::iam::{self, Roles};
use crate::lambda::{HostOptions, LambdaHost};
use crate::proxy::Proxy;
use crate::task::OwnedTask;
use crate::template::{StateMachineResource, Target, Template};
use crate::wiring::{NOWHERE, Oversight, Wiring, bind};

macro_rules! client {
    ($sdk:ident, $url:expr) => {{
        use $sdk::config::{BehaviorVersion, Config, Credentials, Region};
        let token = Some(session_token().to_owned());
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(arn::REGION))
            .credentials_provider(Credentials::new("local", "local", token, None, "local"))
            .endpoint_url($url)
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        $sdk::Client::from_conf(config)
    }};
}

/// A running stack. Dropping it kills every process; [`stop`](Self::stop) also waits until they are gone.
pub struct Stack {
    // In the order of shutdown: callers first.
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

/// The state machine engine, and the proxy before it, for functions and for executions that start others. Clients go past it.
struct Machines {
    engine: Engine,
    proxy: Proxy,
}

/// What is bound before anything is built.
struct Listeners {
    dynamodb: Listener,
    lambda: Listener,
    /// None without an engine.
    sfn: Option<Listener>,
    events: Listener,
}

impl Stack {
    /// Starts everything, with the tables of the template created and its functions registered. State machines
    /// are created by [`deploy`](Self::deploy).
    ///
    /// # Errors
    /// [`Error::Template`], [`Error::MissingBinaries`], [`Error::Engine`], or [`Error::Io`] for ports and files.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let binaries = options.binaries()?;
        let has_work = functions::work_is_built(&binaries);
        let (mut template, roles) = read(&options, has_work)?;
        limit_scheduled(&mut template, options.schedules);
        functions::all_are_built(&template, &binaries)?;
        let run_directory = RunDirectory::open(options.run_directory.as_deref())?;
        let logs = run_directory.path().join("logs");
        let oversight = Oversight {
            roles: Some(Arc::clone(&roles)),
            observer: options.observer.clone(),
        };

        let listeners = Listeners::bind(&options).await?;
        let wiring = listeners.wiring();
        let dynamodb = database(&template, has_work).await?;
        let proxy = Proxy::new(listeners.dynamodb, dynamodb.address(), oversight.clone());
        let runner = options.durable_runner.as_deref();
        let host = HostOptions {
            oversight: oversight.clone(),
            event_sources: event_sources(&template, options.follow),
            durable_runner: runner.map(|url| url.trim_end_matches('/').to_owned()),
        };
        let lambda = LambdaHost::new(listeners.lambda, &logs, host)?;
        functions::register(&lambda, &template, &options, &binaries, &wiring);
        let (delay, follow) = (options.queue_delay, options.follow);
        let events = Events::new(listeners.events, &template, &lambda, delay, follow);
        let mut machines = None;
        if let Some(listener) = listeners.sfn {
            let engine = Engine::start(&options.root, &logs, options.ports.sfn, &wiring).await?;
            let proxy = Proxy::new(listener, engine.address(), oversight);
            machines = Some(Machines { engine, proxy });
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
        stack.schedule(options.schedules);
        Ok(stack)
    }

    /// Creates the template's state machines through the service's own API. Returns the ARN of each by logical id.
    ///
    /// # Errors
    /// [`Error::Call`] with the service's message, also when there is no engine.
    pub async fn deploy(&self) -> Result<BTreeMap<String, String>, Error> {
        let mut arns = BTreeMap::new();
        for machine in &self.template.state_machines {
            let definition = machine.definition()?;
            let created = self.create_state_machine(&machine.name, &definition, &machine.role);
            let id = &machine.logical_id;
            let failed = |error| Error::call(format_args!("CreateStateMachine {id}"), error);
            arns.insert(id.clone(), created.await.map_err(failed)?);
        }
        Ok(arns)
    }

    /// Creates a state machine under a role, by its name. Returns its ARN.
    ///
    /// # Errors
    /// What the service answers, in one line.
    pub async fn create_state_machine(
        &self,
        name: &str,
        definition: &str,
        role: &str,
    ) -> Result<String, String> {
        let create = self.sfn().create_state_machine().name(name);
        let create = create.definition(definition).role_arn(arn::role(role));
        let created = create.send().await.map_err(|error| error::said(&error))?;
        Ok(created.state_machine_arn)
    }

    /// A client for DynamoDB, through the proxy, so its requests are counted too.
    #[must_use]
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        client!(aws_sdk_dynamodb, self.proxy.url())
    }

    /// A client for Step Functions. Without an engine its calls fail.
    #[must_use]
    pub fn sfn(&self) -> aws_sdk_sfn::Client {
        client!(aws_sdk_sfn, self.sfn_url())
    }

    /// The proxy before Step Functions: counts and faults of what functions send there, and executions that start others. Clients
    /// go past it. `None` without an engine.
    #[must_use]
    pub fn sfn_proxy(&self) -> Option<&Proxy> {
        self.machines.as_ref().map(|machines| &machines.proxy)
    }

    /// The roles of the template, which are enforced on functions and state machines.
    #[must_use]
    pub fn roles(&self) -> &Arc<Roles> {
        &self.roles
    }

    /// Puts an event on the bus, as a service would.
    pub fn put_event(&self, event: &Value) {
        self.events.bus.put(event);
    }

    /// From here on loses the events on the bus that contain this text, before the rules see them. None loses nothing.
    pub fn lose_events(&self, containing: Option<&str>) {
        self.events.bus.lose(containing);
    }

    /// The texts in a queue of the template, the oldest first, such as dead letters. `None` if there is no
    /// such queue.
    #[must_use]
    pub fn queue(&self, logical_id: &str) -> Option<Vec<String>> {
        self.events.queues.bodies(logical_id)
    }

    /// The endpoint of the event bus: `POST /events`, `GET /queues` and `GET /queues/<logical id>`.
    #[must_use]
    pub fn events_url(&self) -> String {
        self.events.url()
    }

    /// The endpoint of `CloudFormation`, which only lists the resources of the stack.
    #[must_use]
    pub fn cloudformation_url(&self) -> String {
        format!("{}/cloudformation", self.events.url())
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

    /// The Lambda host: invocations, logs, and the control of sandboxes.
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

    /// Lets DynamoDB, Lambda, and Step Functions if there is an engine, listen at `ip` too, at the same ports.
    ///
    /// # Errors
    /// [`Error::Io`] when this machine has no such address, or a port is taken there.
    pub async fn listen_also(&mut self, ip: IpAddr) -> Result<(), Error> {
        self.proxy.listen_also(ip).await?;
        self.lambda.listen_also(ip).await?;
        if let Some(machines) = &mut self.machines {
            machines.proxy.listen_also(ip).await?;
        }
        Ok(())
    }

    /// The Step Functions endpoint. Without an engine nothing listens at it.
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

    /// The variables of every function, by logical id, with `host` as the name or address of this machine, for
    /// `sam local invoke --env-vars`.
    #[must_use]
    pub fn environments(&self, host: &str) -> BTreeMap<String, BTreeMap<String, String>> {
        let functions = self.functions().functions().into_iter();
        functions
            .map(|mut function| {
                for (name, value) in &mut function.environment {
                    if name.starts_with("AWS_ENDPOINT_URL_") {
                        *value = value.replace("127.0.0.1", host);
                    }
                }
                (function.logical_id, function.environment)
            })
            .collect()
    }

    /// What points the AWS CLI, every SDK, the library and our command line at the stack: endpoints, Region, credentials, the logs,
    /// and the variables that the template gives its functions.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, String> {
        // Where `leasehold history` reads, wherever that is started.
        let logs = self.run_directory().join("logs");
        let logs = std::path::absolute(&logs).unwrap_or(logs);
        let own = [
            ("AWS_ENDPOINT_URL_CLOUDFORMATION", self.cloudformation_url()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.dynamodb_url()),
            ("AWS_ENDPOINT_URL_LAMBDA", self.lambda_url()),
            // It knows none, and says so.
            ("AWS_ENDPOINT_URL_SERVICE_QUOTAS", self.cloudformation_url()),
            ("AWS_ENDPOINT_URL_SFN", self.sfn_url().to_owned()),
            ("AWS_REGION", arn::REGION.to_owned()),
            ("AWS_DEFAULT_REGION", arn::REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", "local".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
            ("AWS_SESSION_TOKEN", session_token().to_owned()),
            ("LEASEHOLD_LOGS", logs.display().to_string()),
        ];
        let ours = self.environment().clone().into_iter();
        let ours = ours.filter(|(name, _)| !name.starts_with("AWS_"));
        let own = own.map(|(name, value)| (name.to_owned(), value));
        own.into_iter().chain(ours).collect()
    }

    /// How many resources of each type the template has.
    #[must_use]
    pub fn resources(&self) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        for one in &self.template.listed {
            *kinds.entry(one.kind.as_str()).or_default() += 1;
        }
        kinds
    }

    /// The ARNs of the template's state machines, even if they are not created yet.
    #[must_use]
    pub fn machines(&self) -> Vec<String> {
        let machines = self.template.state_machines.iter();
        machines.map(StateMachineResource::arn).collect()
    }

    /// The names of the tables.
    #[must_use]
    pub fn tables(&self) -> Vec<&str> {
        self.template.tables.keys().map(String::as_str).collect()
    }

    /// Where the logs are: `logs/<logical id>.log`, and `logs/engine.log`.
    #[must_use]
    pub fn run_directory(&self) -> &Path {
        self.run_directory.path()
    }

    /// Waits until a part of the stack ends by itself. Normally that is for ever.
    pub async fn failed(&mut self) -> Error {
        match &mut self.machines {
            Some(machines) => {
                machines.engine.ended().await;
                let log = self.run_directory().join("logs/engine.log");
                Error::Engine(format!("ended unexpectedly; see {}", log.display()))
            }
            None => std::future::pending().await,
        }
    }

    /// Ends every process, and waits until all have ended.
    pub async fn stop(mut self) {
        self.schedules.clear();
        if let Some(machines) = self.machines.take() {
            machines.engine.stop().await;
        }
        drop(self.events);
        self.lambda.stop().await;
    }

    fn schedule(&mut self, schedules: Schedules) {
        for rule in &self.template.rules {
            let period = match (schedules, rule.every) {
                (Schedules::Never, _) | (_, None) => continue,
                (Schedules::FromTemplate, Some(period)) | (Schedules::Every(period), Some(_)) => {
                    period
                }
            };
            for (target, _) in &rule.targets {
                if let Target::Function(id) = target {
                    let invoker = self.lambda.invoker(id);
                    let task = schedule::start(invoker, rule.arn.clone(), period);
                    self.schedules.push(task);
                }
            }
        }
    }
}

/// Here a run that stays delays the next one. Where they come more often than the template says, none stays for much longer than that.
fn limit_scheduled(template: &mut Template, schedules: Schedules) {
    const TO_FINISH: Duration = Duration::from_secs(4);
    let Schedules::Every(period) = schedules else {
        return;
    };
    let timed = template.rules.iter().filter(|rule| rule.every.is_some());
    let targets = timed.flat_map(|rule| &rule.targets);
    for (target, _) in targets {
        if let Target::Function(id) = target
            && let Some(function) = template
                .functions
                .iter_mut()
                .find(|function| function.logical_id == *id)
        {
            function.here = Some(period + TO_FINISH);
        }
    }
}

/// Each event source mapping as Lambda describes it, by its logical id.
fn event_sources(template: &Template, are_followed: bool) -> BTreeMap<String, Value> {
    let state = if are_followed { "Enabled" } else { "Disabled" };
    let described = template.queue_sources.iter().map(|source| {
        let (function, queue) = (arn::function(&source.function), arn::queue(&source.queue));
        let described = json!({"UUID": source.id, "FunctionArn": function, "EventSourceArn": queue, "State": state});
        (source.id.clone(), described)
    });
    described.collect()
}

/// Reads the template and its roles.
fn read(options: &Options, has_work: bool) -> Result<(Template, Arc<Roles>), Error> {
    let offered = has_work.then(functions::work_parameters);
    let file = options.template();
    let template = Template::read(
        &file,
        &options.root,
        &options.stack_name,
        &options.parameters(),
        &offered.unwrap_or_default(),
    )?;
    let roles = iam::of(&template).map_err(|refused| Error::Template {
        file,
        message: refused.join("\n"),
    })?;
    Ok((template, Arc::new(roles)))
}

/// Starts the database with the tables of the template.
async fn database(template: &Template, has_work: bool) -> Result<DynamoDb, Error> {
    let dynamodb = DynamoDb::start().await?;
    for (name, properties) in &template.tables {
        dynamodb.create_table(name, properties)?;
    }
    if has_work {
        dynamodb.create_table(functions::RESOURCE_TABLE, &functions::resource_table())?;
    }
    Ok(dynamodb)
}

impl Listeners {
    /// Binds every port. The engine binds its own, which only clients use.
    async fn bind(options: &Options) -> Result<Self, Error> {
        let ports = options.ports;
        Ok(Self {
            dynamodb: bind(ports.dynamodb, "DynamoDB").await?,
            lambda: bind(ports.lambda, "Lambda").await?,
            sfn: if options.engine {
                Some(bind(0, "Step Functions").await?)
            } else {
                None
            },
            events: bind(ports.events, "events").await?,
        })
    }

    fn wiring(&self) -> Wiring {
        let sfn = self.sfn.as_ref().map(Listener::url);
        Wiring {
            dynamodb: self.dynamodb.url(),
            lambda: self.lambda.url(),
            sfn: sfn.unwrap_or_else(|| NOWHERE.to_owned()),
            events: self.events.url(),
        }
    }
}
