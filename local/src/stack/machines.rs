//! The state machine engine with the doors to it.

use std::path::Path;
use std::sync::Arc;

use super::Options;
use crate::engine::{Engine, Wiring};
use crate::error::Error;
use crate::iam::Roles;
use crate::proxy::Proxy;

/// The engine, and who comes to it.
pub(super) struct Machines {
    pub(super) engine: Engine,
    /// For functions.
    pub(super) proxy: Proxy,
    /// For executions that start others. Nothing is counted there, but it holds to the roles, too.
    _nested: Proxy,
}

impl Machines {
    /// Starts the engine; where it finds itself is not for `wiring` to say.
    pub(super) async fn start(
        options: &Options,
        logs: &Path,
        mut wiring: Wiring,
        roles: &Arc<Roles>,
    ) -> Result<Self, Error> {
        let nested = Proxy::start_before(0).await?;
        nested.hold_to(roles);
        wiring.sfn = nested.url();
        let engine = Engine::start(&options.root, logs, options.ports.sfn, &wiring).await?;
        nested.lead_to(engine.address());
        let proxy = Proxy::start(engine.address(), 0).await?;
        proxy.hold_to(roles);
        Ok(Self {
            engine,
            proxy,
            _nested: nested,
        })
    }
}
