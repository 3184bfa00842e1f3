//! The template's functions on the Lambda host.

use std::path::{Path, PathBuf};

use super::{Options, work};
use crate::error::Error;
use crate::lambda::{Function, LambdaHost};
use crate::template::Template;

/// More than any test or demo has at once, less than what a laptop cannot bear.
const CONCURRENCY: usize = 50;

/// Makes sure that each function has its binary.
pub(super) fn all_are_built(template: &Template, binaries: PathBuf) -> Result<(), Error> {
    let functions = template.functions.iter();
    let verbs = functions.map(|function| function.verb.clone());
    let missing: Vec<_> = verbs
        .filter(|verb| !binaries.join(verb).is_file())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::MissingBinaries {
        missing,
        directory: binaries,
    })
}

/// Registers the template's functions, and the sample work if it is built; `endpoints` win over what the template
/// says, which are AWS's own.
pub(super) fn all(
    lambda: &LambdaHost,
    template: &Template,
    options: &Options,
    binaries: &Path,
    endpoints: &[(&str, String)],
) {
    let step = work::is_built(binaries).then(|| work::function(&template.environment));
    for resource in template.functions.iter().chain(&step) {
        let mut environment = resource.environment.clone();
        let endpoints = endpoints.iter();
        environment.extend(endpoints.map(|(name, url)| ((*name).to_owned(), url.clone())));
        // Who it is at the doors of the services.
        if let Some(role) = resource
            .role
            .as_ref()
            .filter(|role| template.roles.contains_key(*role))
        {
            environment.insert("AWS_ACCESS_KEY_ID".to_owned(), role.clone());
        }
        options.change(&mut environment, &resource.logical_id, &resource.verb);
        lambda.register(Function {
            logical_id: resource.logical_id.clone(),
            verb: resource.verb.clone(),
            binary: binaries.join(&resource.verb),
            environment,
            timeout: resource.timeout,
            memory_mb: resource.memory_mb,
            concurrency: CONCURRENCY,
        });
    }
}
