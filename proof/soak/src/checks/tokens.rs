//! S1, S2 and S7: tokens are one per grant and rise with time; copies of a request are one grant.

use std::collections::{BTreeMap, HashMap};

use crate::history::{Ask, Micros, Name, Op, Place, Told};
use crate::violation::Violation;

/// How many grants a row remembers the requests of.
const REMEMBERED: usize = 4;

/// A grant as all who were told of it tell.
struct Grant {
    lease: Name,
    request: Name,
    /// When the first of those who were told had asked.
    begin: Micros,
    /// When the first was told.
    end: Micros,
    told: String,
}

/// S1, S2, S7.
#[must_use]
pub fn tokens(ops: &BTreeMap<Place, Vec<Op>>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (place, ops) in ops {
        let mut grants: BTreeMap<u64, Grant> = BTreeMap::new();
        for op in ops {
            let (
                Ask::Acquire {
                    request, reentrant, ..
                },
                Told::Granted { token, lease, .. },
            ) = (&op.ask, &op.told)
            else {
                continue;
            };
            let Some(known) = grants.get_mut(token) else {
                let grant = Grant {
                    lease: *lease,
                    request: *request,
                    begin: op.begin,
                    end: op.end,
                    told: op.to_string(),
                };
                grants.insert(*token, grant);
                continue;
            };
            if known.lease != *lease || (known.request != *request && !reentrant) {
                let mut violation =
                    Violation::new("S1", place, format!("two grants share the token {token}"));
                violation.around = vec![known.told.clone(), op.to_string()];
                violations.push(violation);
            }
            known.begin = known.begin.min(op.begin);
            known.end = known.end.min(op.end);
        }
        violations.extend(rising(place, &grants));
        violations.extend(once(place, &grants));
    }
    violations
}

/// Whoever was granted it before the other one asked has the smaller token.
fn rising(place: &Place, grants: &BTreeMap<u64, Grant>) -> Vec<Violation> {
    let mut violations = Vec::new();
    // From the largest token down: nobody further up may have been told before this one asked.
    let mut earliest: Option<(u64, &Grant)> = None;
    for (token, grant) in grants.iter().rev() {
        if let Some((larger, told)) = earliest
            && told.end < grant.begin
        {
            let what = format!("{token} was granted after {larger} had been");
            let mut violation = Violation::new("S2", place, what);
            violation.around = vec![told.told.clone(), grant.told.clone()];
            violations.push(violation);
        }
        if earliest.is_none_or(|(_, told)| grant.end < told.end) {
            earliest = Some((*token, grant));
        }
    }
    violations
}

/// A request is granted once, as long as the row remembers it.
fn once(place: &Place, grants: &BTreeMap<u64, Grant>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut last: HashMap<Name, (usize, u64)> = HashMap::new();
    for (index, (token, grant)) in grants.iter().enumerate() {
        if let Some((before, earlier)) = last.insert(grant.request, (index, *token))
            && index - before < REMEMBERED
        {
            let what = format!("one request was granted {earlier} and {token}");
            let mut violation = Violation::new("S7", place, what);
            violation.around = vec![grants[&earlier].told.clone(), grant.told.clone()];
            violations.push(violation);
        }
    }
    violations
}
