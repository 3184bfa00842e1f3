//! Whether a function can start: a process that is started before the first event, and kept for it.

use super::code::Code;
use super::host::LambdaHost;
use super::sandbox::INIT_LIMIT;
use crate::error::Error;

impl LambdaHost {
    /// Starts a process of a user's command, and waits until it asks for its first event. One that ends before tells the user why, as
    /// at any time; what else is wrong is told here. It is no error: what the function needs may start later.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub async fn try_start(&self, name: &str) -> Result<(), Error> {
        let hosted = self.state.hosted(name)?;
        let function = &hosted.function;
        if !matches!(function.code, Code::Command(_)) {
            return Ok(());
        }
        let sandbox = match self.state.start_sandbox(function) {
            Ok(sandbox) => sandbox,
            Err(error) => {
                let printed = self.state.printed_from_now_on(function);
                printed.tell(&function.logical_id, &format!("cannot start: {error}"));
                return Ok(());
            }
        };
        self.state.keep(&sandbox);
        let started = tokio::time::timeout(INIT_LIMIT, async {
            tokio::select! {
                () = sandbox.polled() => {}
                _ = sandbox.ended() => {}
            }
        });
        if started.await.is_err() {
            let limit = INIT_LIMIT.as_secs();
            sandbox.tell(&format!(
                "has not asked for its first event within {limit} seconds, which Lambda's runtime does"
            ));
        } else if let Some(error) = sandbox.init_error() {
            sandbox.tell(&format!("cannot start: {error}"));
        }
        Ok(())
    }
}
