//! Which executions may have a lease that lasts as long as they run.

use crate::values::{BadValue, Holder};

/// The state machines whose executions may have a lease that lasts as long as they run: ARNs, in which `*` stands for any
/// characters. The default allows those of any state machine.
///
/// A lease of an execution that nobody may look up would never end. So it is refused at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executions(Option<Vec<String>>);

impl Executions {
    /// From a list with commas.
    ///
    /// # Errors
    /// [`BadValue`] for an entry that cannot be the ARN of a state machine.
    pub fn of(list: &str) -> Result<Self, BadValue> {
        let machines = list.split(',').map(str::trim);
        let machines: Vec<_> = machines.map(str::to_owned).collect();
        match machines.iter().find(|machine| !is_pattern(machine)) {
            None => Ok(Self(Some(machines))),
            Some(_) => Err(BadValue(
                "must be ARNs of state machines, with commas between; * stands for any characters"
                    .to_owned(),
            )),
        }
    }

    /// Refuses a holder that is no such execution.
    pub(crate) fn check(&self, holder: &Holder) -> Result<(), String> {
        let Some(machine) = machine_of(holder.as_str()) else {
            return Err(
                if matches!(parts(holder.as_str()), Some([_, _, _, "express", ..])) {
                    "is an Express execution, whose end Step Functions does not tell: \
                     use ttl_seconds instead of lifetime \"execution\""
                } else {
                    "must be the ARN of an execution of a standard state machine, \
                     as $$.Execution.Id has it, for lifetime \"execution\""
                }
                .to_owned(),
            );
        };
        match &self.0 {
            Some(machines) if !machines.iter().any(|pattern| matches(pattern, &machine)) => {
                Err(format!(
                    "is an execution of {machine}, which this stack may not look up: \
                     add it to LEASE_EXECUTIONS, which is the parameter LeasingStateMachine of template.yaml"
                ))
            }
            _ => Ok(()),
        }
    }
}

/// An ARN of Step Functions after `arn`: partition, Region, account, kind, and the two names.
fn parts(arn: &str) -> Option<[&str; 6]> {
    let mut parts = arn.splitn(8, ':');
    let (head, partition, service) = (parts.next()?, parts.next()?, parts.next()?);
    let rest = [parts.next()?, parts.next()?, parts.next()?];
    let names = [parts.next()?, parts.next()?];
    let [region, account, kind] = rest;
    (head == "arn" && service == "states" && !names.contains(&""))
        .then_some([partition, region, account, kind, names[0], names[1]])
}

/// The state machine of a standard execution. A child of a Distributed Map (`machine/label:id`) counts as its machine's.
fn machine_of(execution: &str) -> Option<String> {
    let [partition, region, account, kind, machine, _] = parts(execution)?;
    let machine = machine.split('/').next()?;
    (kind == "execution")
        .then(|| format!("arn:{partition}:states:{region}:{account}:stateMachine:{machine}"))
}

pub(crate) fn is_pattern(text: &str) -> bool {
    text.starts_with('*') || text.starts_with("arn:")
}

/// Whether `*` in the pattern can stand for characters so that it is the text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(executions: &Executions, holder: &str) -> Option<String> {
        let holder = Holder::new(holder).expect("valid");
        executions.check(&holder).err()
    }

    #[test]
    fn only_standard_executions_hold_execution_leases() {
        let any = Executions::default();
        for holder in [
            "arn:aws:states:eu-west-1:123456789012:execution:orders:1",
            "arn:aws-cn:states:cn-north-1:123456789012:execution:orders/each:1",
        ] {
            assert_eq!(refusal(&any, holder), None, "{holder}");
        }
        for holder in [
            "worker 7",
            "arn:aws:states:eu-west-1:123456789012:stateMachine:orders",
            "arn:aws:states:eu-west-1:123456789012:execution:orders",
            "arn:aws:states:eu-west-1:123456789012:execution::1",
            "arn:aws:lambda:eu-west-1:123456789012:execution:orders:1",
        ] {
            let refusal = refusal(&any, holder).expect("refused");
            assert!(refusal.contains("$$.Execution.Id"), "{holder}: {refusal}");
        }
        let express = "arn:aws:states:eu-west-1:123456789012:express:orders:1:2";
        assert!(refusal(&any, express).is_some_and(|said| said.contains("Express")));
    }

    #[test]
    fn an_unlisted_machine_is_refused_by_its_parameter() {
        let machine = "arn:aws:states:eu-west-1:123456789012:stateMachine:";
        let executions = Executions::of(&format!("{machine}app_*, {machine}*-lease,{machine}one"));
        let executions = executions.expect("valid");
        let execution =
            |name: &str| format!("arn:aws:states:eu-west-1:123456789012:execution:{name}:1");
        for name in [
            "app_",
            "app_orders",
            "with-lease",
            "one",
            "app_x/each",
            "one/each",
        ] {
            assert_eq!(refusal(&executions, &execution(name)), None, "{name}");
        }
        for name in ["app", "with-leases", "one2", "on", "xapp_"] {
            let refusal = refusal(&executions, &execution(name)).expect(name);
            assert!(refusal.contains("LeasingStateMachine"), "{refusal}");
        }
        assert!(Executions::of("*").is_ok());
        for list in ["", "orders", "arn:aws:x,"] {
            assert!(Executions::of(list).is_err(), "{list}");
        }
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*", "a", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("*aa", "a", false),
            ("a*a", "a", false),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
