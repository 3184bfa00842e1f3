//! What a start is: the state machine, name and input that it names, its item, and what may be started.

mod allowed;
mod item;
mod names;
mod pass;
mod result;

pub use allowed::StartRules;
pub(crate) use item::ANSWERS_FOR;
pub(crate) use item::FAILED;
pub use item::{StartItem, StartStatus};
pub use names::{ExecutionInput, ExecutionName, StateMachineArn};
pub use pass::PassLease;
pub use result::{ResultItem, ResultTo};

/// What the service says of the execution that a start names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It does not know it; the response may be half a minute old.
    No,
    /// It has, or had, the start's input.
    Ours,
    /// It has another input.
    Another,
    /// It may not be asked: the role may not look at that machine's executions, or the engine starts none.
    Unasked,
}
