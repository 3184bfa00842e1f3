//! The end of a round: every start has its turn, or is answered that it never will.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{deliver, name_of};
use crate::checks::Violation;
use crate::context::Context;
use crate::history::{StartAnswer, StartAsked};
use crate::late_waiters::SWEEPS_TO_TELL;
use crate::plan::Step;
use crate::watch::sleep_ms;

/// How often each that may have another end is asked for again at least, before it counts as not settled.
const ASKED_TO_TELL: u64 = 5;
/// As many that are settled are asked for once more.
const LATE_COPIES: usize = 60;

impl StartAsked {
    /// What the last call heard that was answered.
    pub(super) fn last_heard(&self) -> Option<&StartAnswer> {
        let answered = self.calls.iter();
        let answered = answered.filter(|call| call.answer != StartAnswer::Unknown);
        let last = answered.max_by_key(|call| call.end);
        last.map(|call| &call.answer)
    }

    /// Nobody has heard what becomes of it in the end.
    fn is_open(&self) -> bool {
        matches!(self.last_heard(), None | Some(StartAnswer::Queued))
    }
}

/// The starts that wait, for all that their callers know, and their places in the history.
pub(super) fn open(context: &Context) -> Vec<(usize, StartAsked)> {
    let service = &context.fixture.step_functions;
    let history = context.history();
    let starts = history.starts.iter().enumerate();
    let open =
        starts.filter(|(_, start)| start.is_open() && service.input_of(&start.execution).is_none());
    open.map(|(place, start)| (place, start.clone())).collect()
}

/// L4: until every start is settled. What was accepted, does not give up, and is sent away by nobody, begins without help; of the
/// others somebody asks once more when as many sweeps have come to their end as tell. Then some are asked for again, as a queue
/// delivers late. It takes longer than `longest` only where the machine is so busy that sweeps and answers do.
pub async fn drain(context: &Context, longest: Duration) -> Vec<Violation> {
    let since = Instant::now();
    let enough = context.swept.load(Ordering::Acquire) + SWEEPS_TO_TELL;
    let mut asked = 0;
    loop {
        let open = open(context);
        if open.is_empty() {
            ask_again(context, &some_settled(context)).await;
            return Vec::new();
        }
        if since.elapsed() > longest && asked >= ASKED_TO_TELL {
            return not_settled(context, &open, since.elapsed());
        }
        if context.swept.load(Ordering::Acquire) >= enough {
            let may_need_a_call =
                |start: &StartAsked| !start.is_certain || start.last_heard().is_none();
            let asked_again = open.into_iter().filter(|(_, start)| may_need_a_call(start));
            ask_again(context, &asked_again.collect::<Vec<_>>()).await;
            asked += 1;
        }
        sleep_ms(300).await;
    }
}

/// Every so many of those that were accepted, from all over the round.
fn some_settled(context: &Context) -> Vec<(usize, StartAsked)> {
    let history = context.history();
    let accepted = |start: &StartAsked| {
        let heard = start.last_heard();
        heard.is_some_and(|answer| *answer != StartAnswer::Refused)
    };
    let starts = history.starts.iter().enumerate();
    let settled: Vec<_> = starts.filter(|(_, start)| accepted(start)).collect();
    let every = settled.len().div_ceil(LATE_COPIES).max(1);
    let some = settled.into_iter().step_by(every);
    some.map(|(place, start)| (place, start.clone())).collect()
}

/// The same requests once more, at the same time for several keys.
async fn ask_again(context: &Context, starts: &[(usize, StartAsked)]) {
    for some in starts.chunks(8) {
        let calls = some
            .iter()
            .map(|(_, start)| deliver(context, start, Step::CLEAN));
        let calls = join_all(calls).await;
        let mut history = context.history();
        for ((place, _), calls) in some.iter().zip(calls) {
            history.starts[*place].calls.extend(calls);
        }
    }
}

/// With what the functions said of them last.
fn not_settled(
    context: &Context,
    open: &[(usize, StartAsked)],
    waited: Duration,
) -> Vec<Violation> {
    let history = context.history();
    let mut keys: BTreeMap<&str, Violation> = BTreeMap::new();
    for (_, start) in open {
        let of_key = keys.entry(&start.key).or_insert_with(|| {
            let seconds = waited.as_secs();
            let what = format!("not settled {seconds} s after the last waiter was answered:");
            Violation::new("L4", &start.key, what)
        });
        let (name, heard) = (name_of(&start.execution), start.last_heard());
        let heard = heard.map_or("no answer".to_owned(), |it| format!("{it:?}"));
        of_key.what += &[" ", name, " (", &heard, ")"].concat();
        let mut last = history.messages.iter().rev();
        let said = last.find(|message| message.contains(name) || message.contains(&start.key));
        of_key.around.extend(said.cloned());
    }
    keys.into_values().collect()
}
