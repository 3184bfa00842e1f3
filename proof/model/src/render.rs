//! A step, in words.

use crate::{
    message::{Ended, Message, Operation},
    names::{SWEEPER, Who},
    rows::{ABSENT, FOREIGN},
    world::{Action, State, World},
};

pub fn step(world: &World, action: &Action, after: &State) -> String {
    format!("{:<58} {}", what(action), row(world, after))
}

fn name(who: Who) -> String {
    match who {
        SWEEPER => "sweep".to_owned(),
        _ => char::from(b'A' + who).to_string(),
    }
}

fn what(action: &Action) -> String {
    match action {
        Action::Tick => "a tick passes".into(),
        Action::Jump(who, error) => format!("{}'s clock jumps to {error:+}", name(*who)),
        Action::Arrives(message) => format!("arrives: {}", words(message)),
        Action::Hears(who, reply) => {
            let answer = if reply.applied { "done" } else { "refused" };
            format!("{} hears «{answer}»", name(*who))
        }
        Action::ResponseLost(who) => format!("the answer to {} is lost", name(*who)),
        Action::Asks(who) => format!("{} asks", name(*who)),
        Action::AsksAgain(who) => format!("{} asks again", name(*who)),
        Action::Extends(who) => format!("{} extends", name(*who)),
        Action::Releases(who) => format!("{} releases", name(*who)),
        Action::Writes(who) => format!("{} writes to the resource", name(*who)),
        Action::Crashes(who) => format!("{} dies", name(*who)),
        Action::Fails(who) => format!("{}'s execution ends, its Lambda goes on", name(*who)),
        Action::IsRedriven(who) => format!("{} is redriven, and extends", name(*who)),
        Action::Sweeps => "sweep looks at the row".into(),
        Action::Reaps(who) => format!("reap sees to {}", name(*who)),
        Action::ReapWrites(end) => {
            let all = if end.all_answered {
                "every"
            } else {
                "not every"
            };
            format!("reap hears that it has ended, {all} task answered")
        }
        Action::Restored => "the table is restored, a floor deployed".into(),
        Action::Purge => "the row is purged".into(),
    }
}

fn words(message: &Message) -> String {
    let (from, sent) = (name(message.from), message.sent);
    let call = message.call;
    let what = match message.what {
        Operation::Grant(attempt, None) => format!("acquire {attempt}"),
        Operation::Grant(attempt, Some(_)) => format!("acquire {attempt} of what stood still"),
        Operation::Extend(..) => "extend".into(),
        Operation::Release(..) => "release".into(),
        Operation::End(_, _, Ended::Expired) => "expire".into(),
        Operation::End(..) => "end".into(),
        Operation::Cut(_) => "cut".into(),
        Operation::ResourceWrite(token) => {
            return format!("{from}'s write to the resource, token {token}");
        }
    };
    format!("{from}'s call {call} of its time {sent}: {what}")
}

fn row(world: &World, state: &State) -> String {
    let facts = world.rows.facts(state.row);
    let holds = match (state.row, facts.held) {
        (ABSENT, _) => "no row".into(),
        (FOREIGN, _) => "somebody else's item".into(),
        (_, Some(held)) => format!("held by {} until {}", name(facts.holder), held.until),
        (_, None) => "free".into(),
    };
    format!("time {}: {holds}, token {}", state.now, facts.token)
}
