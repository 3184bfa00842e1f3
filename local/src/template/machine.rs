//! State machines: where their definitions are, and what is put into them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::intrinsics::Resolver;
use crate::error::Error;
use crate::lambda::{ACCOUNT, REGION};

/// A `AWS::Serverless::StateMachine`.
#[derive(Debug)]
pub(crate) struct StateMachineResource {
    pub(crate) logical_id: String,
    /// The logical id, if the template says nothing else.
    pub(crate) name: String,
    /// The name of its role.
    pub(crate) role: String,
    file: PathBuf,
    substitutions: BTreeMap<String, String>,
}

impl StateMachineResource {
    pub(crate) fn arn(&self) -> String {
        let name = &self.name;
        format!("arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{name}")
    }

    /// The definition with its substitutions made. Read only when it is wanted: who tests functions does not
    /// depend on state machines.
    ///
    /// # Errors
    /// [`Error::Template`] when the file cannot be read or wants a substitution that the template does not have.
    pub(crate) fn definition(&self) -> Result<String, Error> {
        let wrong = |message: String| Error::Template {
            file: self.file.clone(),
            message,
        };
        let mut definition =
            std::fs::read_to_string(&self.file).map_err(|error| wrong(error.to_string()))?;
        for (name, value) in &self.substitutions {
            definition = definition.replace(&format!("${{{name}}}"), value);
        }
        // A forgotten substitution would reach the service as a strange ARN and fail much later.
        if let Some((_, rest)) = definition.split_once("${") {
            let name = rest.split('}').next().unwrap_or(rest);
            let id = &self.logical_id;
            return Err(wrong(format!(
                "wants ${{{name}}}, which DefinitionSubstitutions of {id} does not have"
            )));
        }
        Ok(definition)
    }
}

/// Reads one.
pub(super) fn read(
    resolver: &Resolver,
    id: &str,
    properties: &Value,
    directory: &Path,
) -> Result<StateMachineResource, String> {
    let uri = resolver
        .text(&properties["DefinitionUri"])?
        .ok_or("has no DefinitionUri")?;
    Ok(StateMachineResource {
        logical_id: id.to_owned(),
        name: resolver.machine(id),
        role: resolver
            .text(&properties["Role"])?
            .map_or_else(|| id.to_owned(), |arn| super::roles::name_of(&arn)),
        file: directory.join(uri),
        substitutions: super::texts(resolver, &properties["DefinitionSubstitutions"])?,
    })
}
