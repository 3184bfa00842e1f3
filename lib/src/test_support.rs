//! For the library's own tests and yours: values, and a fake of Step Functions.
//!
//! ```
//! use std::sync::Arc;
//! use leasehold::{Leases, Memory, Settings, test_support::FakeStepFunctions};
//!
//! let fake = Arc::new(FakeStepFunctions::default());
//! let leases = Leases::new(Memory::new(), Settings::default()).with_engine(fake.clone());
//! // ... acquire with a task token, release what is in the way ...
//! # drop(leases);
//! assert_eq!(fake.take_answers(), []);
//! ```

use crate::{Acquire, Error, Granted, Leases, store::Store};

mod fake_step_functions;
pub mod make;

pub use fake_step_functions::{FakeStepFunctions, Late, Lost, StartFate, TaskAnswer};

/// The grant that this request gets.
///
/// # Panics
/// If it gets none.
pub async fn grant<S: Store>(leases: &Leases<S>, request: Acquire) -> Granted {
    let acquired = leases.acquire(request).await.expect("an answer");
    acquired.granted().expect("a grant")
}

/// Asserts that the request is refused because of this field.
///
/// # Panics
/// If it is not.
#[track_caller]
pub fn invalid<T: std::fmt::Debug>(answer: Result<T, Error>, field: &str) {
    match answer {
        Err(Error::Invalid { field: named, .. }) => assert_eq!(named.as_deref(), Some(field)),
        other => panic!("{field} was not refused: {other:?}"),
    }
}
