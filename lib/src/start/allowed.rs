//! What may be started.

use super::StateMachineArn;
use crate::{
    executions::{is_pattern, matches},
    values::{BadValue, Key},
};

/// Which state machines may be started, and through which keys: pairs of patterns, in which `*` stands for any characters.
/// The default allows none.
///
/// Everybody who may ask for a start starts with the rights of the one that calls Step Functions. So it is checked before a start is
/// stored, and again before it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartRules(Vec<(String, String)>);

impl StartRules {
    /// From a list with commas. An entry is the ARN of a state machine, for any key, or a key, `=` and an ARN.
    ///
    /// # Errors
    /// [`BadValue`] for an entry that is neither.
    pub fn of(list: &str) -> Result<Self, BadValue> {
        let entries = list
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty());
        let pairs = entries.map(|entry| {
            let (key, machine) = match entry.rsplit_once('=') {
                Some((key, machine)) => (key, machine),
                None => ("*", entry),
            };
            if key.is_empty() || !is_pattern(machine) {
                return Err(BadValue(
                    "must be ARNs of state machines, or pairs KEY=ARN, with commas between; * stands for any characters"
                        .to_owned(),
                ));
            }
            Ok((key.to_owned(), machine.to_owned()))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    /// Whether nothing may be started.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses a machine that may not be started through this key.
    pub(crate) fn check(&self, key: &Key, machine: &StateMachineArn) -> Result<(), String> {
        // As IAM does: a name alone is no version and no alias of it.
        let allows = |(keys, machines): &(String, String)| {
            matches(keys, key.as_str()) && matches(machines, machine.as_str())
        };
        if self.0.iter().any(allows) {
            return Ok(());
        }
        Err("may not be started through this key: add it to the parameter StartedStateMachine, for a version or an alias with an \
             asterisk after the name, or this key to StartKeys (LEASE_STARTS); it has to be of the stack's account and Region"
            .to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::make;

    const MACHINE: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:";

    #[test]
    fn machine_starts_through_its_keys_only() {
        let rules = StartRules::of(&format!("orders/*={MACHINE}orders, {MACHINE}any_*,a=b=*"));
        let rules = rules.expect("valid");
        for (key, machine, allowed) in [
            ("orders/1", "orders", true),
            ("orders/1", "orders:PROD", false),
            ("x", "any_1:PROD", true),
            ("order", "orders", false),
            ("x", "any_1", true),
            ("x", "other", false),
            ("a=b", "other", true),
        ] {
            let arn = StateMachineArn::new(format!("{MACHINE}{machine}")).expect("valid");
            let checked = rules.check(&make::key(key), &arn);
            assert_eq!(checked.is_ok(), allowed, "{key} {machine}");
        }
        let arn = StateMachineArn::new(format!("{MACHINE}orders")).expect("valid");
        let none = StartRules::of("").expect("valid");
        assert!(none.is_empty() && none.check(&make::key("k"), &arn).is_err());
        for bad in ["orders", "=*", "k=orders", "k="] {
            assert!(StartRules::of(bad).is_err(), "{bad}");
        }
    }
}
