//! Control of a function's processes by a test or the demo: kill them at a chosen moment, freeze and thaw them.

use std::sync::atomic::Ordering;

use super::host::LambdaHost;
use super::sandbox::Order;
use crate::error::Error;

impl LambdaHost {
    /// The next `times` invocations finish their work and post their response, but the process is killed and the response
    /// dropped: the invocation ends in `Runtime.ExitError`. This is a kill -9 between request and response.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub fn kill_before_answer(&self, name: &str, times: u32) -> Result<(), Error> {
        let hosted = self.state.hosted(name)?;
        hosted.deaths_before_answer.store(times, Ordering::Release);
        Ok(())
    }

    /// The next `times` invocations start a process, or take an idle one, which is killed when it polls for the
    /// event. The handler does not run, and the invocation ends in `Runtime.ExitError`.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub fn kill_after_start(&self, name: &str, times: u32) -> Result<(), Error> {
        let hosted = self.state.hosted(name)?;
        hosted.deaths_after_start.store(times, Ordering::Release);
        Ok(())
    }

    /// Stops all processes of a function (SIGSTOP), as a paused machine would, and returns how many.
    /// The time limit of an invocation continues, and ends a frozen process too.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub fn freeze(&self, name: &str) -> Result<usize, Error> {
        let hosted = self.state.hosted(name)?;
        Ok(self.state.order(&hosted.function.logical_id, Order::Freeze))
    }

    /// Continues the frozen processes of a function, and returns how many processes it has.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub fn thaw(&self, name: &str) -> Result<usize, Error> {
        let hosted = self.state.hosted(name)?;
        Ok(self.state.order(&hosted.function.logical_id, Order::Thaw))
    }
}
