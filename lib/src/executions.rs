//! Which executions may have a lease that lasts as long as they run.

use crate::values::{BadValue, Holder};

/// The services whose executions can have a lease that lasts as long as they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// Executions of standard state machines, which wait with a task token.
    StepFunctions,
    /// Executions of durable functions, which wait with the id of a callback.
    Lambda,
}

impl Holder {
    /// Whether it is an execution of a durable function, by its ARN.
    #[must_use]
    pub fn is_durable_execution(&self) -> bool {
        matches!(owner(self.as_str()), Some((Service::Lambda, _)))
    }
}

/// The state machines and durable functions whose executions may have a lease that lasts as long as they run: ARNs, in which `*`
/// stands for any characters. The default allows those of any.
///
/// A lease of an execution whose status nobody may check would never end. So it is refused at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executions(Option<Vec<String>>);

impl Executions {
    /// From a list with commas.
    ///
    /// # Errors
    /// [`BadValue`] for an entry that cannot be the ARN of a state machine or of a function.
    pub fn of(list: &str) -> Result<Self, BadValue> {
        // A template that puts lists together may leave an entry empty.
        let owners = list.split(',').map(str::trim);
        let owners = owners.filter(|owner| !owner.is_empty());
        let owners: Vec<_> = owners.map(str::to_owned).collect();
        if owners.is_empty() || !owners.iter().all(|owner| is_pattern(owner)) {
            let problem = "must be ARNs of state machines and durable functions, with commas between; * stands for any characters";
            return Err(BadValue(problem.to_owned()));
        }
        Ok(Self(Some(owners)))
    }

    /// Refuses a holder that is no such execution.
    pub(crate) fn check(&self, holder: &Holder) -> Result<(), String> {
        let Some(owned) = owner(holder.as_str()) else {
            return Err(
                if matches!(parts(holder.as_str()), Some([_, "states", .., "express", _, _])) {
                    "is an Express execution, whose end Step Functions does not tell: \
                     use ttl_seconds instead of lifetime \"execution\""
                } else {
                    "must be the ARN of an execution of a standard state machine, as $$.Execution.Id has it, \
                     or of a durable function, for lifetime \"execution\""
                }
                .to_owned(),
            );
        };
        self.check_owner(&owned, "whose status this stack may not check")
    }

    /// Refuses an execution whose tasks may not be answered.
    pub(crate) fn check_caller(&self, caller: &Holder) -> Result<(), String> {
        match owner(caller.as_str()) {
            Some(owned @ (Service::StepFunctions, _)) => {
                self.check_owner(&owned, "whose tasks this stack may not answer")
            }
            _ => Err(
                "must be the ARN of the execution that waits, of a standard state machine, \
                      as $$.Execution.Id has it"
                    .to_owned(),
            ),
        }
    }

    fn check_owner(&self, (service, owner): &(Service, String), why: &str) -> Result<(), String> {
        let parameter = match service {
            Service::StepFunctions => "LeasingStateMachine",
            Service::Lambda => "DurableFunction",
        };
        match &self.0 {
            Some(patterns) if !patterns.iter().any(|pattern| matches(pattern, owner)) => {
                Err(format!(
                    "is an execution of {owner}, {why}: \
                     add it to LEASE_EXECUTIONS, which is the parameter {parameter} of template.yaml"
                ))
            }
            _ => Ok(()),
        }
    }
}

/// An ARN of an execution after `arn`: partition, service, Region, account, kind, the name of its owner, and the rest.
fn parts(arn: &str) -> Option<[&str; 7]> {
    let parts: Vec<_> = arn.strip_prefix("arn:")?.splitn(7, ':').collect();
    let parts: [&str; 7] = parts.try_into().ok()?;
    parts[5..]
        .iter()
        .all(|name| !name.is_empty())
        .then_some(parts)
}

/// Who runs an execution: the ARN of its standard state machine, or of its durable function without the version. A child of a
/// Distributed Map (`machine/label:id`) counts as its machine's.
fn owner(execution: &str) -> Option<(Service, String)> {
    let [partition, service, region, account, kind, name, rest] = parts(execution)?;
    match (service, kind) {
        ("states", "execution") => {
            let machine = name.split('/').next()?;
            let arn = format!("arn:{partition}:states:{region}:{account}:stateMachine:{machine}");
            Some((Service::StepFunctions, arn))
        }
        ("lambda", "function") => {
            // The version, then the names of the execution.
            let (name_of, id) = rest.split_once("/durable-execution/")?.1.split_once('/')?;
            let arn = format!("arn:{partition}:lambda:{region}:{account}:function:{name}");
            (!name_of.is_empty() && !id.is_empty()).then_some((Service::Lambda, arn))
        }
        _ => None,
    }
}

/// The standard state machine whose list of executions has this one. The children of a Distributed Map are in lists of their own.
pub(crate) fn listing_machine(execution: &Holder) -> Option<String> {
    let (service, machine) = owner(execution.as_str())?;
    let is_listed = service == Service::StepFunctions && !execution.as_str().contains('/');
    is_listed.then_some(machine)
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
        let durable =
            "arn:aws:lambda:eu-west-1:123456789012:function:orders:7/durable-execution/a/b";
        assert_eq!(refusal(&any, durable), None);
        // No task token is a durable execution's.
        let caller = Holder::new(durable).expect("valid");
        assert!(any.check_caller(&caller).is_err());
        for holder in [
            "worker 7",
            "arn:aws:lambda:eu-west-1:123456789012:function:orders:7",
            "arn:aws:lambda:eu-west-1:123456789012:function:orders:7/durable-execution/a",
            "arn:aws:lambda:eu-west-1:123456789012:function:orders:7/durable-execution//b",
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
    fn unlisted_machine_refusal_names_parameter() {
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
            let caller = Holder::new(execution(name)).expect("valid");
            let refusal = executions.check_caller(&caller).expect_err(name);
            assert!(refusal.contains("may not answer"), "{refusal}");
        }
        assert!(Executions::of("*").is_ok());
        assert_eq!(Executions::of("arn:aws:x,"), Executions::of("arn:aws:x"));
        for list in ["", ",", "orders", "arn:aws:x,orders"] {
            assert!(Executions::of(list).is_err(), "{list}");
        }
    }

    #[test]
    fn unlisted_durable_refusal_names_parameter() {
        let function = "arn:aws:lambda:eu-west-1:123456789012:function:";
        let executions = Executions::of(&format!(
            "arn:aws:states:*,{function}orders,{function}app-*"
        ));
        let executions = executions.expect("valid");
        let refusal = |version: &str| {
            refusal(
                &executions,
                &format!("{function}{version}/durable-execution/a/b"),
            )
        };
        for version in ["orders:$LATEST", "orders:12", "app-x:1"] {
            assert_eq!(refusal(version), None, "{version}");
        }
        for version in ["order:1", "orders2:1", "app:1"] {
            let said = refusal(version).expect(version);
            assert!(said.contains("the parameter DurableFunction"), "{said}");
        }
    }

    #[test]
    fn arn_shows_durable_execution() {
        for (arn, expected) in [
            (
                "arn:aws:lambda:r:1:function:f:1/durable-execution/a/b",
                true,
            ),
            ("arn:aws:states:r:1:execution:m:e", false),
            ("worker 7", false),
        ] {
            let holder = Holder::new(arn).expect("valid");
            assert_eq!(holder.is_durable_execution(), expected, "{arn}");
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
