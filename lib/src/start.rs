//! What a start is: the state machine, name and input that it names, its item, and what may be started.

mod allowed;
mod item;
mod names;
mod pass;

pub use allowed::StartRules;
pub(crate) use item::FAILED;
pub use item::{StartItem, StartStatus};
pub use names::{ExecutionInput, ExecutionName, StateMachineArn};
pub use pass::PassLease;
