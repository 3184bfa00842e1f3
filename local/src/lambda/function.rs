//! What the host knows about a function.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The account that all local ARNs name.
pub(crate) const ACCOUNT: &str = "123456789012";
/// The Region that all local ARNs name.
pub(crate) const REGION: &str = "us-east-1";

/// A function as the host runs it. The host knows it by its logical id and by its verb.
#[derive(Clone, Debug)]
pub struct Function {
    /// The resource's name in the template: `AcquireFunction`.
    pub logical_id: String,
    /// The binary's name: `acquire`.
    pub verb: String,
    /// The binary.
    pub binary: PathBuf,
    /// The variables that the template gives it, on top of what every function has.
    pub environment: BTreeMap<String, String>,
    /// How long one invocation may take before its sandbox is killed.
    pub timeout: Duration,
    /// Told to the function, not enforced.
    pub memory_mb: u32,
    /// How many sandboxes may live at once; one more invocation is throttled.
    pub concurrency: usize,
}

impl Function {
    /// The function's ARN in the local account and Region.
    #[must_use]
    pub fn arn(&self) -> String {
        format!(
            "arn:aws:lambda:{REGION}:{ACCOUNT}:function:{}",
            self.logical_id
        )
    }
}

/// The function's name in what a caller may write: a name, a partial or a full ARN, each with or without a
/// qualifier.
pub(super) fn name_of(reference: &str) -> &str {
    let after_function = reference
        .rsplit_once("function:")
        .map_or(reference, |(_, rest)| rest);
    after_function.split(':').next().unwrap_or(after_function)
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn every_spelling_of_a_function_names_it() {
        for reference in [
            "acquire",
            "acquire:$LATEST",
            "123456789012:function:acquire",
            "arn:aws:lambda:us-east-1:123456789012:function:acquire",
            "arn:aws:lambda:us-east-1:123456789012:function:acquire:live",
        ] {
            assert_eq!(name_of(reference), "acquire", "{reference}");
        }
    }
}
