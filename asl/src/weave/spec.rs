//! The specification: the states, their key, and the kind of the lease.

use crate::read::node::{Member, Node, Value};
use crate::read::source::Source;
use crate::weave::refusal::Refusal;

/// A specification.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The file, for messages.
    pub source: Source,
    /// The plain state machine, relative to the specification.
    pub machine: String,
    /// The file for the woven machine, relative to the specification.
    pub output: Option<String>,
    /// The sections to guard.
    pub sections: Vec<Section>,
    /// The names of the functions in the definition.
    pub functions: Functions,
}

/// The names by which the functions are called.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "a function each")]
pub struct Functions {
    pub acquire: String,
    pub extend: String,
    pub release: String,
}

/// States that run under one lease.
#[derive(Debug, Clone)]
pub struct Section {
    /// The prefix of the names of written states. The default is the name of the section's entry.
    pub name: Option<String>,
    /// The names of the states in the section.
    pub states: Vec<Node>,
    /// The key: a literal, JSONata, or a path or intrinsic of JSONPath.
    pub key: Node,
    /// How long the lease lasts.
    pub lifetime: Lifetime,
    /// What to do while somebody else holds the key.
    pub if_held: IfHeld,
    /// How many executions may be in the section at once. If left out, one at a time with others that leave it out.
    pub permits: Option<f64>,
    /// The pool of which it takes a permit besides the key.
    pub pool: Option<Pool>,
    /// Cooldown: for how long after each grant the key is not granted again, even if it is released before. The default is 0.
    pub at_least: Option<f64>,
    /// Whether tasks take their time limits from the lease.
    pub bound: bool,
    /// What to do if a step has failed but may still be running.
    pub unfinished: Unfinished,
    /// The metadata of the lease.
    pub metadata: Option<Node>,
    /// The section's node in the specification.
    pub node: Node,
}

/// A pool, which many keys share.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Its name, written as a key is.
    pub name: Node,
    /// How many may have a permit of it at once.
    pub permits: f64,
}

/// How long a lease lasts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Lifetime {
    /// As long as the execution, and these seconds more after a failure.
    Execution(Option<f64>),
    /// These seconds, from each grant or extend.
    Ttl(f64),
}

/// What to do while somebody else holds the key. The first two are `wait` in a specification.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IfHeld {
    /// Wait in the queue, at most this many seconds.
    Queue(f64),
    /// The same, and only the newest waits: one that another came after succeeds, without the section and the states after it.
    Latest(f64),
    /// Wait without a queue, which a ttl lease does not have: ask again after a pause.
    Retry,
    /// Fail at once with the refusal's error.
    Fail,
    /// Succeed at once, without the section and the states after it.
    Skip,
}

/// What to do if a step may still be running after it failed and the author's Catch leads on, or after another branch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// Wait until the lease is no longer safe to use.
    Wait,
    /// Go on at once. The lease expires, or is released when the execution has ended.
    Leave,
}

/// How many seconds an execution stays in the queue, unless the specification says more.
const WAIT: f64 = 3600.0;

/// The section's fields as text, for messages.
const FIELDS: [&str; 14] = [
    "name",
    "states",
    "key",
    "lifetime",
    "ttl_seconds",
    "keep_seconds",
    "if_held",
    "wait_seconds",
    "permits",
    "pool",
    "at_least_seconds",
    "bound",
    "unfinished",
    "metadata",
];

impl Spec {
    /// Reads a specification, YAML or JSON.
    ///
    /// # Errors
    ///
    /// The place, and what was expected there.
    pub fn read(source: &Source) -> Result<Self, Refusal> {
        let node = source.read()?;
        let reader = Reader { source };
        reader.only(
            &node,
            "a specification",
            &["machine", "output", "sections", "functions"],
        )?;
        let functions = match node.get("functions") {
            None => Functions::default(),
            Some(node) => reader.functions(node)?,
        };
        let sections = reader.needed(&node, "sections", "a list of sections")?;
        let Value::List(list) = &sections.value else {
            return Err(reader.expected(sections, "a list of sections"));
        };
        if list.is_empty() {
            return Err(reader.expected(sections, "at least one section"));
        }
        Ok(Self {
            source: source.clone(),
            machine: reader.text(reader.needed(&node, "machine", "the state machine's file")?)?,
            output: node
                .get("output")
                .map(|node| reader.text(node))
                .transpose()?,
            sections: list
                .iter()
                .map(|node| reader.section(node))
                .collect::<Result<_, _>>()?,
            functions,
        })
    }
}

impl Default for Functions {
    fn default() -> Self {
        Self {
            acquire: "${AcquireFunction}".to_owned(),
            extend: "${ExtendFunction}".to_owned(),
            release: "${ReleaseFunction}".to_owned(),
        }
    }
}

const PERMITS: &str = "a whole number from 1 to 1000";

fn fits_permits(number: f64) -> bool {
    number.fract() == 0.0 && (1.0..=1000.0).contains(&number)
}

const IN_POOL: &str = "a whole number from 1 to 300";

fn fits_in_pool(number: f64) -> bool {
    fits_permits(number) && number <= 300.0
}

struct Reader<'a> {
    source: &'a Source,
}

impl Reader<'_> {
    fn section(&self, node: &Node) -> Result<Section, Refusal> {
        self.only(node, "a section", &FIELDS)?;
        let states = self.needed(node, "states", "the names of the section's states")?;
        let Value::List(names) = &states.value else {
            return Err(self.expected(states, "a list of the states' names"));
        };
        if names.is_empty() {
            return Err(self.expected(states, "the name of at least one state"));
        }
        for name in names {
            self.text(name)?;
        }
        let key = self.key(node, "key", "the key to lease")?;
        let lifetime = self.lifetime(node)?;
        let number = |key: &str, what: &str, fits: fn(f64) -> bool| {
            let number = node.get(key).map(|node| self.number(node, what, fits));
            number.transpose()
        };
        let permits = number("permits", PERMITS, fits_permits)?;
        let what = "a number of seconds from 0 to 86400";
        let at_least = number("at_least_seconds", what, |n| (0.0..=86400.0).contains(&n))?;
        let if_held = self.if_held(node, lifetime)?;
        let pool = self.pool(node, if_held)?;
        if let Some(metadata) = node.get("metadata") {
            let Value::Object(members) = &metadata.value else {
                return Err(self.expected(metadata, "an object of texts"));
            };
            for member in members {
                self.text(&member.value)?;
            }
        }
        let bound = match node.get("bound") {
            None => false,
            Some(bound) if bound.text() == Some("lease") => true,
            Some(bound) => return Err(self.expected(bound, "\"lease\", or no bound at all")),
        };
        Ok(Section {
            name: node.get("name").map(|node| self.name(node)).transpose()?,
            states: names.clone(),
            key: key.clone(),
            lifetime,
            if_held,
            permits,
            pool,
            at_least,
            bound,
            unfinished: match node.get("unfinished").map(|how| (how, how.text())) {
                None | Some((_, Some("wait"))) => Unfinished::Wait,
                Some((_, Some("leave"))) => Unfinished::Leave,
                Some((how, _)) => {
                    let what = "wait (until the lease has expired) or leave (go on at once)";
                    return Err(self.expected(how, what));
                }
            },
            metadata: node.get("metadata").cloned(),
            node: node.clone(),
        })
    }

    /// Only who waits in the queue takes a permit of a pool.
    fn pool(&self, node: &Node, if_held: IfHeld) -> Result<Option<Pool>, Refusal> {
        let Some(member) = node.member("pool") else {
            return Ok(None);
        };
        if !matches!(if_held, IfHeld::Queue(_) | IfHeld::Latest(_)) {
            let why =
                "pool is for the queue: with if_held: wait or latest, and lifetime: execution";
            return Err(self.at(member, why));
        }
        self.only(&member.value, "a pool", &["name", "permits"])?;
        let name = self.key(&member.value, "name", "the name of the pool")?;
        let permits = self.needed(&member.value, "permits", IN_POOL)?;
        Ok(Some(Pool {
            name: name.clone(),
            permits: self.number(permits, IN_POOL, fits_in_pool)?,
        }))
    }

    fn key<'n>(&self, node: &'n Node, field: &str, what: &str) -> Result<&'n Node, Refusal> {
        let key = self.needed(node, field, what)?;
        let text = self.text(key)?;
        if text.is_empty() {
            return Err(self.expected(key, "a key that is not empty"));
        }
        match key.expr().and_then(|expr| expr.unclosed) {
            Some(open) => {
                Err(self.expected(key, &format!("a key in which every {open} is closed")))
            }
            None => Ok(key),
        }
    }

    /// `ttl_seconds` imply a ttl lease. Without them the lease lasts as long as the execution.
    fn lifetime(&self, node: &Node) -> Result<Lifetime, Refusal> {
        let (ttl, keep) = (node.member("ttl_seconds"), node.member("keep_seconds"));
        let of_execution = match node.get("lifetime").map(|said| (said, said.text())) {
            None => ttl.is_none(),
            Some((_, Some("execution"))) => true,
            Some((_, Some("ttl"))) => false,
            Some((said, _)) => {
                let what =
                    "execution (the lease lasts as long as the execution) or ttl (it expires)";
                return Err(self.expected(said, what));
            }
        };
        let others = if of_execution {
            let why = "is for lifetime: ttl: an execution lease does not expire";
            ["ttl_seconds", "bound", "unfinished"].map(|field| (field, why))
        } else {
            ["keep_seconds"; 3].map(|field| (field, "is for lifetime: execution"))
        };
        for (field, why) in others {
            if let Some(member) = node.member(field) {
                return Err(self.at(member, &format!("{field} {why}")));
            }
        }
        if of_execution {
            let what = "a number of seconds from 1 to 1209600";
            let fits = |n: f64| (1.0..=1_209_600.0).contains(&n);
            let keep = keep.map(|keep| self.number(&keep.value, what, fits));
            return Ok(Lifetime::Execution(keep.transpose()?));
        }
        let ttl = self.needed(node, "ttl_seconds", "the length of the lease")?;
        let what = "a number of seconds from 4 to 86400";
        let ttl = self.number(ttl, what, |n| (4.0..=86400.0).contains(&n))?;
        Ok(Lifetime::Ttl(ttl))
    }

    fn if_held(&self, node: &Node, lifetime: Lifetime) -> Result<IfHeld, Refusal> {
        let wait = node.member("wait_seconds");
        let has_queue = matches!(lifetime, Lifetime::Execution(_));
        let said = node.member("if_held");
        if let Some(said) = said.filter(|said| said.value.text() == Some("latest") && !has_queue) {
            let why = "latest is for the queue: with lifetime: execution";
            return Err(self.at(said, why));
        }
        let if_held = match said.map(|said| (&said.value, said.value.text())) {
            None | Some((_, Some("wait" | "latest"))) if has_queue => {
                let what = "a number of seconds from 1 to 31536000";
                let fits = |n: f64| (1.0..=31_536_000.0).contains(&n);
                let wait = wait.map_or(Ok(WAIT), |wait| self.number(&wait.value, what, fits));
                let latest = said.and_then(|said| said.value.text()) == Some("latest");
                return wait.map(if latest {
                    IfHeld::Latest
                } else {
                    IfHeld::Queue
                });
            }
            None | Some((_, Some("wait"))) => IfHeld::Retry,
            Some((_, Some("fail"))) => IfHeld::Fail,
            Some((_, Some("skip"))) => IfHeld::Skip,
            Some((said, _)) => {
                let what = "wait, latest (only the newest waits), fail (end with Lease.Held) or skip (succeed without the work)";
                return Err(self.expected(said, what));
            }
        };
        match wait {
            Some(wait) => {
                let why = "wait_seconds is for the queue: with if_held: wait or latest, and lifetime: execution";
                Err(self.at(wait, why))
            }
            None => Ok(if_held),
        }
    }

    fn functions(&self, node: &Node) -> Result<Functions, Refusal> {
        self.only(node, "functions", &["acquire", "extend", "release"])?;
        let mut functions = Functions::default();
        for (key, name) in [
            ("acquire", &mut functions.acquire),
            ("extend", &mut functions.extend),
            ("release", &mut functions.release),
        ] {
            if let Some(node) = node.get(key) {
                *name = self.text(node)?;
            }
        }
        Ok(functions)
    }

    fn only(&self, node: &Node, what: &str, known: &[&str]) -> Result<(), Refusal> {
        if !matches!(node.value, Value::Object(_)) {
            return Err(self.expected(
                node,
                &format!("{what} with the fields {}", known.join(", ")),
            ));
        }
        match node
            .members()
            .iter()
            .find(|member| !known.contains(&member.key.as_str()))
        {
            None => Ok(()),
            Some(member) => Err(self.at(
                member,
                &format!(
                    "{what} has no field \"{}\": expected {}",
                    member.key,
                    known.join(", ")
                ),
            )),
        }
    }

    fn needed<'n>(&self, node: &'n Node, key: &str, what: &str) -> Result<&'n Node, Refusal> {
        node.get(key)
            .ok_or_else(|| self.expected(node, &format!("the field \"{key}\": {what}")))
    }

    fn text(&self, node: &Node) -> Result<String, Refusal> {
        let text = node.text().map(str::to_owned);
        text.ok_or_else(|| self.expected(node, "a text"))
    }

    fn number(&self, node: &Node, what: &str, fits: impl Fn(f64) -> bool) -> Result<f64, Refusal> {
        let number = node.number().filter(|number| fits(*number));
        number.ok_or_else(|| self.expected(node, what))
    }

    /// The name is the prefix of state names and, in lower case, of variables.
    fn name(&self, node: &Node) -> Result<String, Refusal> {
        let name = self.text(node)?;
        let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric())
            && name.len() <= 30;
        if fits {
            return Ok(name);
        }
        Err(self.expected(
            node,
            "a name of up to 30 letters and digits, a letter first",
        ))
    }

    fn expected(&self, node: &Node, what: &str) -> Refusal {
        Refusal::at(self.source, node, format!("expected {what}"))
    }

    fn at(&self, member: &Member, message: &str) -> Refusal {
        self.source.unreadable(member.at.start, message).into()
    }
}
