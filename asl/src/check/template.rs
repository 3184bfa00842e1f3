//! The sources of definitions: a file of their own, a SAM or CloudFormation template, or a code block of a Markdown document.

use crate::check::calls::{Options, Verb, is_sure, name_of, named};
use crate::read::node::{Node, Value};
use crate::read::source::{Source, Unreadable};
use crate::read::{json, yaml};
use std::collections::HashMap;
use std::path::Path;

/// A definition and the options of its check.
#[derive(Debug)]
pub struct Definition {
    /// The source that contains it.
    pub source: Source,
    /// The definition itself.
    pub node: Node,
    /// The resource of the template that it belongs to.
    pub resource: Option<String>,
    /// The given options, completed from its template.
    pub options: Options,
}

impl Definition {
    fn new(source: Source, node: Node, options: &Options) -> Self {
        Self {
            source,
            node,
            resource: None,
            options: options.clone(),
        }
    }
}

/// All definitions in a source, and what of it cannot be read: one that is broken or missing hides no other. Files that a template
/// names are read by `open`, which receives their paths as written in the template.
///
/// # Errors
///
/// If the source itself cannot be read, or contains no definition.
pub fn definitions(
    source: &Source,
    options: &Options,
    open: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<Vec<Result<Definition, Unreadable>>, Unreadable> {
    let found = if Path::new(&source.name)
        .extension()
        .is_some_and(|end| end == "md")
    {
        in_markdown(source, options)
    } else {
        let node = source.read()?;
        if node.get("Resources").is_some() {
            in_template(source, &node, options, open)
        } else if node.get("States").is_some() || node.get("StartAt").is_some() {
            vec![Ok(Definition::new(source.clone(), node, options))]
        } else {
            return Err(source.unreadable(
                node.span.start,
                "expected a state machine (StartAt, States) or a template (Resources)",
            ));
        }
    };
    if found.is_empty() {
        return Err(Unreadable::of(source, "contains no state machine"));
    }
    Ok(found)
}

/// Something that was found, if it can be read.
type Found = Result<Definition, Unreadable>;

/// The definitions in the blocks of JSON and YAML of a document.
fn in_markdown(source: &Source, options: &Options) -> Vec<Found> {
    let mut found = Vec::new();
    // The text of a block, below as many empty lines as precede it, and whether it is YAML.
    let mut block: Option<(String, bool)> = None;
    for (nth, line) in source.text.lines().enumerate() {
        let fence = line.trim_start();
        match &mut block {
            None => {
                let kind = fence.strip_prefix("```").unwrap_or_default();
                let is_yaml = kind.starts_with("yaml") || kind.starts_with("yml");
                if is_yaml || kind.starts_with("json") {
                    block = Some(("\n".repeat(nth + 1), is_yaml));
                }
            }
            Some((text, is_yaml)) if fence.starts_with("```") => {
                let source = Source::new(source.name.clone(), std::mem::take(text));
                found.extend(in_block(source, *is_yaml, options));
                block = None;
            }
            Some((text, _)) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    found
}

/// The definition in a block, if it is one.
fn in_block(source: Source, is_yaml: bool, options: &Options) -> Option<Found> {
    let has = |field: &str| {
        let mut lines = source.text.lines();
        lines.any(|line| is_yaml && line.starts_with(&format!("{field}:")))
            || source.text.contains(&format!("\"{field}\""))
    };
    if !has("StartAt") || !has("States") {
        return None;
    }
    let node = if is_yaml {
        yaml::read(&source)
    } else {
        json::read(&source)
    };
    Some(node.map(|node| Definition::new(source, node, options)))
}

fn in_template(
    source: &Source,
    template: &Node,
    options: &Options,
    open: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Vec<Found> {
    let resources = template.members_of("Resources");
    let functions: HashMap<&str, FunctionKind> = resources
        .iter()
        .filter(|member| kind(&member.value).ends_with("::Function"))
        .map(|member| (member.key.as_str(), function(&member.key, &member.value)))
        .collect();
    let mut found = Vec::new();
    for member in resources {
        if !kind(&member.value).ends_with("::StateMachine") {
            continue;
        }
        let Some(properties) = member.value.get("Properties") else {
            continue;
        };
        let mut options = options.clone();
        let mut know = |name: &str, what: FunctionKind| {
            let verb = match what {
                FunctionKind::Ours(verb) => Some(verb),
                FunctionKind::Other => None,
                FunctionKind::Unsure => return,
            };
            options.names.entry(name.to_owned()).or_insert(verb);
        };
        for field in properties.members_of("DefinitionSubstitutions") {
            let value = name_of(&field.value);
            let id = value.trim_start_matches("${").trim_end_matches('}');
            know(
                &field.key,
                functions.get(id).copied().unwrap_or_else(|| by_id(id)),
            );
        }
        for (id, what) in &functions {
            know(id, *what);
        }
        let express = ["Type", "StateMachineType"]
            .iter()
            .filter_map(|key| properties.get(key))
            .any(|kind| kind.text() == Some("EXPRESS"));
        options.express |= express;
        let read = definition(source, properties, open, member.at.start);
        found.push(read.map(|(source, node)| Definition {
            source,
            node,
            resource: Some(member.key.clone()),
            options,
        }));
    }
    found
}

fn definition(
    source: &Source,
    properties: &Node,
    open: &dyn Fn(&Path) -> std::io::Result<String>,
    at: usize,
) -> Result<(Source, Node), Unreadable> {
    if let Some(node) = properties.get("Definition") {
        return Ok((source.clone(), node.clone()));
    }
    if let Some(uri) = properties.get("DefinitionUri") {
        if uri.get("Bucket").is_some() {
            return Err(source.unreadable(uri.span.start, IN_S3));
        }
        let Some(path) = uri.text() else {
            return Err(source.unreadable(
                uri.span.start,
                "expected DefinitionUri to be the path of a file",
            ));
        };
        if path.starts_with("s3://") {
            return Err(source.unreadable(uri.span.start, IN_S3));
        }
        let path = Path::new(&source.name)
            .parent()
            .unwrap_or(Path::new(""))
            .join(path);
        let text = open(&path).map_err(|error| {
            source.unreadable(uri.span.start, format!("{}: {error}", path.display()))
        })?;
        let source = Source::new(path.display().to_string(), text);
        let node = source.read()?;
        return Ok((source, node));
    }
    if let Some(string) = properties.get("DefinitionString") {
        let Some(text) = joined(string) else {
            return Err(source.unreadable(
                string.span.start,
                "expected DefinitionString to be a text, Fn::Sub or Fn::Join of texts",
            ));
        };
        // A block of text begins in the line after its indicator.
        let lines = source.place(string.span.start).line;
        let inside = Source::new(source.name.clone(), "\n".repeat(lines) + &text);
        let node = inside.read()?;
        return Ok((inside, node));
    }
    if let Some(place) = properties.get("DefinitionS3Location") {
        return Err(source.unreadable(place.span.start, IN_S3));
    }
    Err(source.unreadable(at, "expected Definition, DefinitionString or DefinitionUri"))
}

const IN_S3: &str = "its definition is in S3, and is not read: check the file that is put there";

/// A text with `${name}` for each substitution.
fn joined(node: &Node) -> Option<String> {
    if let Some(text) = node.text() {
        return Some(if node.tag.as_deref() == Some("Sub") {
            text.replace(".Arn}", "}")
        } else {
            text.to_owned()
        });
    }
    let (tag, value) = match (&node.tag, node.members()) {
        (Some(tag), _) => (tag.as_str(), node),
        (None, [member]) => (member.key.strip_prefix("Fn::")?, &member.value),
        _ => return None,
    };
    match (tag, value.list()) {
        ("Sub", []) => value.text().map(|text| text.replace(".Arn}", "}")),
        ("Sub", [text, ..]) => text.text().map(str::to_owned),
        ("Join", [between, parts]) => {
            let parts = parts.list().iter().map(|part| match &part.value {
                Value::Text(text) if part.tag.is_none() => text.clone(),
                _ => name_of(part),
            });
            Some(parts.collect::<Vec<_>>().join(between.text()?))
        }
        _ => None,
    }
}

fn kind(resource: &Node) -> &str {
    resource.text_of("Type").unwrap_or_default()
}

/// The kind of a function in a template.
#[derive(Debug, Clone, Copy)]
enum FunctionKind {
    Ours(Verb),
    Other,
    /// Its id may be one of ours. Its payload decides.
    Unsure,
}

/// Decides by the binary if the template names one, else by the logical id.
fn function(id: &str, resource: &Node) -> FunctionKind {
    let metadata = resource.get("Metadata");
    let build = metadata.and_then(|metadata| metadata.get("BuildProperties"));
    match build.and_then(|build| build.text_of("Binary")) {
        Some("acquire") => FunctionKind::Ours(Verb::Acquire),
        Some("extend") => FunctionKind::Ours(Verb::Extend),
        Some("release") => FunctionKind::Ours(Verb::Release),
        Some(_) => FunctionKind::Other,
        None => by_id(id),
    }
}

fn by_id(id: &str) -> FunctionKind {
    match named(id) {
        Some(verb) if is_sure(id) => FunctionKind::Ours(verb),
        Some(_) => FunctionKind::Unsure,
        None => FunctionKind::Other,
    }
}
