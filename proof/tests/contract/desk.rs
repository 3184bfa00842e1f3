//! What a test asks the desk that functions call in the place of Step Functions.

use leasehold_local::{FakeStepFunctionsServer, StepFunctionsCall};

pub trait One {
    /// The one who was told since.
    fn one(&self) -> StepFunctionsCall;
}

impl One for FakeStepFunctionsServer {
    fn one(&self) -> StepFunctionsCall {
        let mut told = self.calls();
        assert_eq!(told.len(), 1);
        told.remove(0)
    }
}
