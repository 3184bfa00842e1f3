//! Requests to DynamoDB by the function that sends them, counted at a socket of its own for each.

use std::collections::BTreeMap;

use leasehold_local::{Counts, Error, Proxy, Stack};

const VERBS: [&str; 6] = ["acquire", "extend", "release", "sweep", "reap", "grant"];

/// A proxy between each function and the database.
pub(super) struct Meters(BTreeMap<&'static str, Proxy>);

impl Meters {
    /// Gives each function its proxy, and the variables that the act wants changed.
    pub(super) async fn install(stack: &Stack, changes: &[(&str, String)]) -> Result<Self, Error> {
        let mut proxies = BTreeMap::new();
        for verb in VERBS {
            let proxy = Proxy::start(stack.database().address(), 0).await?;
            proxy.hold_to(stack.roles());
            let mut function = stack.functions().function(verb)?;
            let endpoint = ("AWS_ENDPOINT_URL_DYNAMODB", proxy.url());
            for (name, value) in changes.iter().chain([&endpoint]) {
                let environment = &mut function.environment;
                environment.insert((*name).to_owned(), value.clone());
            }
            stack.functions().register(function);
            proxies.insert(verb, proxy);
        }
        Ok(Self(proxies))
    }

    /// What was counted so far, by verb.
    pub(super) fn read(&self) -> BTreeMap<&'static str, Counts> {
        let each = self.0.iter();
        each.map(|(verb, proxy)| (*verb, proxy.counts())).collect()
    }
}
