//! A step, in words.

use super::{
    calls::{Answer, By, Call, Fate, Step},
    rows::Start,
    world::{Action, State, World},
};

pub fn step(world: &World, action: &Action, after: &State) -> String {
    format!("{:<66} {}", what(action), table(world, after))
}

fn name(start: Start) -> String {
    char::from(b'A' + start).to_string()
}

fn what(action: &Action) -> String {
    match action {
        Action::Tick => "half a minute passes".into(),
        Action::Step(call, fate) => {
            let fate = match fate {
                Fate::Answered(Answer { slow: true, .. }) => ", and is slow then",
                Fate::Answered(Answer { number: 0, .. }) => "",
                Fate::Answered(_) => ", by an answer of before",
                Fate::AnswerLost => ", answer lost",
                Fate::Late => ", which is late",
                Fate::Dies => ", and dies before that",
                Fate::DiesAfter => ", and dies after that",
            };
            format!("{}{fate}", words(call))
        }
        Action::Arrives((start, ..)) => {
            format!("a late StartExecution of {} arrives", name(*start))
        }
        Action::Event(start) => format!("an event starts {}", name(*start)),
        Action::Again(start) => format!("{}'s event comes again", name(*start)),
        Action::Other(start) => format!("{}'s name comes with another input", name(*start)),
        Action::Looks => "a look begins".into(),
        Action::Succeeds(start) => format!("{} succeeds", name(*start)),
        Action::Fails(start) => format!("{} fails", name(*start)),
        Action::IsRedriven(start) => format!("{} is redriven", name(*start)),
        Action::Releases(start) => format!("{} releases early", name(*start)),
        Action::Leaves(start) => format!("{}'s wait is over", name(*start)),
        Action::Purges(start) => format!("{}'s item is purged", name(*start)),
        Action::Repeats(start) => format!("an operator repeats {}", name(*start)),
        Action::Others => "many others have the key, one after the other".into(),
        Action::IsForgotten(start) => format!("the service forgets {}", name(*start)),
        Action::Forces => "an operator begins to force a release".into(),
        Action::Denies => "the service begins, or ceases, to refuse for good".into(),
        Action::Throttles => "the service begins, or ceases, to throttle".into(),
        Action::Ended(start) => format!("the event of {}'s end arrives", name(*start)),
    }
}

fn words(call: &Call) -> String {
    let by = match call.by {
        By::Start => "start",
        By::Look => "look",
        By::Release => "release",
        By::Operator => "force-release",
    };
    match call.step {
        Step::ReadRow | Step::ReadHead => format!("{by}: {:?}", call.step),
        step => format!("{by} of {}: {step:?}", name(call.start)),
    }
}

fn table(world: &World, state: &State) -> String {
    let row = world.rows.view(state.row);
    let holds = row.holder.map_or("free".to_owned(), |start| {
        let told = row.telling.map_or(String::new(), |told| {
            let refused = if told.refused_at.is_some() {
                ", refused"
            } else {
                ""
            };
            format!(" (call {}{refused})", told.tries.get())
        });
        format!("held by {}{told}", name(start))
    });
    let queue: String = row.queue.iter().copied().map(name).collect();
    let starts = (0..world.scope.starts).map(|start| {
        let item = state.status(start);
        let item = item.map_or("no item".to_owned(), |item| format!("{item:?}"));
        let execution = state.executions[usize::from(start)].status;
        format!("{}: {item}, {execution:?}", name(start))
    });
    let starts: Vec<_> = starts.collect();
    format!(
        "time {}: {holds}; queue [{queue}]; {}",
        state.now,
        starts.join("; ")
    )
}
