//! `leasehold ls --failed`: the starts that have failed, each with the command that repeats it.

use leasehold::{Error, FailedStart, Timestamp};
use leasehold_net::quoted;

use crate::columns::pairs;
use crate::connect::{TableArgs, TableClient};
use crate::durations::when;
use crate::exit::Failure;

/// Starts per page.
const PAGE: u32 = 100;

/// All of them, by key and age.
pub(crate) async fn all(table_client: &TableClient) -> Result<Vec<FailedStart>, Failure> {
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let page = table_client.leases.failed_starts(PAGE, from.as_ref());
        let (items, next) = page.await.map_err(Error::of_a_read)?;
        all.extend(items.into_iter().filter_map(FailedStart::of));
        from = next;
        if from.is_none() {
            all.sort_by(|a, b| (&a.key, a.asked_at).cmp(&(&b.key, b.asked_at)));
            return Ok(all);
        }
    }
}

/// What is known of one, as names and values, and the command that repeats it.
pub(crate) fn details(start: &FailedStart, table_args: &TableArgs, now: Timestamp) -> String {
    let asked = format!("{} ({})", start.asked_at, when(start.asked_at, now));
    pairs(vec![
        ("key", start.key.to_string().into()),
        ("machine", start.state_machine_arn.to_string().into()),
        ("name", start.name.to_string().into()),
        ("asked", asked.into()),
        ("reason", start.reason.clone().into()),
        ("repeat", repeat(start, table_args).into()),
    ])
}

fn repeat(start: &FailedStart, table_args: &TableArgs) -> String {
    let start = [start.key.as_str(), start.execution_arn.as_str()];
    let words = start.into_iter().chain(table_args.words());
    let words = words.map(|word| format!(" {}", quoted(word)));
    format!("leasehold repeat-start{}", words.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{NOW, failed_start};

    #[test]
    fn a_failed_start_names_its_repetition() {
        let table_args = TableArgs {
            table: Some("leases".to_owned()),
            profile: None,
            region: None,
            endpoint_url: None,
        };
        let expected = "\
key      order 42
machine  arn:aws:states:eu-west-1:123456789012:stateMachine:orders
name     7f3c
asked    2027-01-15T08:00:00.000Z (1 min ago)
reason   StateMachineDoesNotExist
repeat   leasehold repeat-start 'order 42' arn:aws:states:eu-west-1:123456789012:execution:orders:7f3c --table leases";
        let said = details(&failed_start("order 42"), &table_args, NOW);
        assert_eq!(said, expected);
    }
}
