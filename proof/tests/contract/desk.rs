//! What a test asks the desk that functions call in the place of Step Functions.

use leasehold_local::{Desk, Told};

pub trait One {
    /// The one who was told since.
    fn one(&self) -> Told;
}

impl One for Desk {
    fn one(&self) -> Told {
        let mut told = self.told();
        assert_eq!(told.len(), 1);
        told.remove(0)
    }
}
