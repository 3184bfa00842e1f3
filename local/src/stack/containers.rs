//! What a function's variables are in a container, whose loopback is its own.

use std::collections::BTreeMap;

use super::Stack;

impl Stack {
    /// The variables of every function, by logical id, with this machine under the name or address `host`: what
    /// `sam local invoke --env-vars` reads.
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
}
