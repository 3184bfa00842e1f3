//! Changes: what a form asks for, what it will do and to whom, and what it did. All of it is done by the code of the commands.

use std::collections::BTreeMap;
use std::str::FromStr;

use leasehold::{
    AuditReason, BadValue, Counter, Holder, Inspection, Key, KeyView, Operator, Reason, ViewUntil,
};
use leasehold_asl::plain;
use maud::{Markup, html};

use super::page::{Site, facts, key_link, page};
use crate::connect::TableClient;
use crate::exit::{Code, Failure};
use crate::named::of_row;
use crate::operate::{Change, NumberOrNone, ask_to_stop, check_stoppable, limit, who_waits};
use crate::output::print_error;
use crate::{key_text, lease_text, start};

/// Names and values of a form or of the query of an address.
pub(super) type Fields = BTreeMap<String, String>;

/// What is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) key: Key,
    act: Asking,
    fields: Fields,
}

#[derive(Debug)]
enum Asking {
    /// Of a grant: the number of the permit, and its token.
    Stop(u16, Counter),
    ForceRelease(u16, Counter),
    Freeze,
    Unfreeze,
    /// Without a number until the form is sent.
    Limit(Option<NumberOrNone>),
    /// Of a failed start.
    Repeat(Holder),
    Dismiss(Holder),
}

/// What will be done, and its words.
struct Plan<'a> {
    deed: Deed,
    title: String,
    button: &'static str,
    /// What will happen.
    effects: Vec<String>,
    permit: Option<&'a Inspection>,
}

enum Deed {
    Change(Change),
    Stop(Holder),
    Repeat(Holder),
    Dismiss(Holder),
    /// A limit without a number yet.
    Nothing,
}

impl Asked {
    pub(super) fn read(fields: Fields) -> Result<Self, Failure> {
        let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        let key = of_row(field("key")).map_err(|error| invalid("key", &error))?;
        let grant = || Ok::<_, Failure>((number(field("permit"))?, token(field("token"))?));
        let execution =
            || Holder::new(field("execution")).map_err(|error| invalid("execution", &error));
        let act = match field("act") {
            "stop" => grant().map(|(permit, token)| Asking::Stop(permit, token))?,
            "force-release" => {
                grant().map(|(permit, token)| Asking::ForceRelease(permit, token))?
            }
            "freeze" => Asking::Freeze,
            "unfreeze" => Asking::Unfreeze,
            "limit" if field("limit").is_empty() => Asking::Limit(None),
            "limit" => {
                let limit = limit(field("limit").trim());
                let limit = limit.map_err(|error| Failure::usage(format!("the limit: {error}")))?;
                Asking::Limit(Some(limit))
            }
            "repeat" => Asking::Repeat(execution()?),
            "dismiss" => Asking::Dismiss(execution()?),
            _ => return Err(Failure::usage("there is no such change")),
        };
        Ok(Self { key, act, fields })
    }

    /// Who does it, and why.
    fn because(&self) -> Result<AuditReason, Failure> {
        let field = |name: &str| {
            self.fields
                .get(name)
                .map(|text| text.trim())
                .unwrap_or_default()
        };
        Ok(AuditReason {
            who: Operator::new(field("who")).map_err(|error| invalid("who", &error))?,
            why: Reason::new(field("why")).map_err(|error| invalid("why", &error))?,
        })
    }

    /// What it means for a key that was seen like this.
    fn plan<'a>(&self, view: &'a KeyView) -> Result<Plan<'a>, Failure> {
        let key = &self.key;
        Ok(match &self.act {
            Asking::Stop(permit, token) => {
                let permit = granted(view, *permit, *token)?;
                stop_plan(permit, view)?
            }
            Asking::ForceRelease(permit, token) => {
                let permit = granted(view, *permit, *token)?;
                release_plan(permit, view)?
            }
            Asking::Freeze => Plan {
                deed: Deed::Change(Change::Freeze),
                title: format!("Freeze {}", key.label()),
                button: "Freeze",
                effects: freeze_effects(view),
                permit: view.first(),
            },
            Asking::Unfreeze => Plan {
                deed: Deed::Change(Change::Unfreeze),
                title: format!("Unfreeze {}", key.label()),
                button: "Unfreeze",
                effects: with_who_waits("It can be granted again.".to_owned(), view),
                permit: view.first(),
            },
            Asking::Limit(limit) => Plan {
                deed: limit.map_or(Deed::Nothing, |NumberOrNone(permits)| {
                    Deed::Change(Change::Limit(permits))
                }),
                title: format!("Limit {}", key.label()),
                button: "Limit",
                effects: vec![
                    "So many may hold it at once, whatever requests ask for, until another number is set; none leaves it to \
                     them again. A lower number takes effect as leases end. With 0 nobody is granted it, and everybody who \
                     waits keeps the place."
                        .to_owned(),
                ],
                permit: view.first(),
            },
            Asking::Repeat(execution) => Plan {
                deed: Deed::Repeat(execution.clone()),
                title: format!("Repeat the start of {execution}"),
                button: "Repeat",
                effects: vec![format!(
                    "{execution} is started with its machine, name and input as before: now, or when it is granted the key."
                )],
                permit: None,
            },
            Asking::Dismiss(execution) => Plan {
                deed: Deed::Dismiss(execution.clone()),
                title: format!("Dismiss the start of {execution}"),
                button: "Dismiss",
                effects: vec![format!(
                    "The start of {execution} is not listed any more, and its request is deleted 15 days later. Nothing is started or stopped."
                )],
                permit: None,
            },
        })
    }
}

/// The permit, if it still is that grant.
fn granted(view: &KeyView, number: u16, token: Counter) -> Result<&Inspection, Failure> {
    let mut held = view.held();
    let same = held.find(|one| one.lease.permit == number && one.lease.fencing_token == token);
    same.ok_or_else(|| {
        let failure = Failure::new(Code::FAILURE, "the grant that you saw has ended");
        failure.advice("nothing was done: look at the key again")
    })
}

fn stop_plan<'a>(permit: &'a Inspection, view: &KeyView) -> Result<Plan<'a>, Failure> {
    let (held, what) = (holding(permit)?, lease_text::name(&permit.lease));
    check_stoppable(held)?;
    let holder = &held.holder;
    let ends = match held.until {
        ViewUntil::Execution { keep, .. } if !keep.as_duration().is_zero() => {
            "It asked to keep its lease after a failure, for a redrive: force-release it afterwards if nobody will redrive it."
        }
        _ => {
            "Its lease ends as after any stop: within a minute if every task of it has answered, otherwise after the grace period of the stack."
        }
    };
    let asks = format!(
        "Step Functions is asked to stop {holder}, with your name and reason as the cause. {ends}"
    );
    Ok(Plan {
        deed: Deed::Stop(holder.clone()),
        title: format!("Stop the execution that has {what}"),
        button: "Stop the execution",
        effects: with_who_waits(asks, view),
        permit: Some(permit),
    })
}

fn release_plan<'a>(permit: &'a Inspection, view: &KeyView) -> Result<Plan<'a>, Failure> {
    let (held, what) = (holding(permit)?, lease_text::name(&permit.lease));
    let change = Change::ForceRelease {
        lease: Box::new(permit.lease.clone()),
        held: Box::new(held.clone()),
        what: what.clone(),
    };
    let holder = &held.holder;
    let goes_on = match change.warning() {
        Some(warning) => format!("Beware: {warning}."),
        None => "It learns of that at its next extend, and may work until then.".to_owned(),
    };
    Ok(Plan {
        deed: Deed::Change(change),
        title: format!("Force-release {what}"),
        button: "Force-release",
        effects: with_who_waits(format!("{holder} loses {what} at once. {goes_on}"), view),
        permit: Some(permit),
    })
}

fn freeze_effects(view: &KeyView) -> Vec<String> {
    let key = &view.key;
    let mut effects = vec![format!(
        "Nobody is granted {key}, and nobody may join its queue, until somebody unfreezes it."
    )];
    let held = view.held().filter_map(|one| one.lease.held.as_ref());
    effects.extend(held.map(|held| {
        format!(
            "{} keeps it until its lease ends, and may extend it in time.",
            held.holder
        )
    }));
    effects
}

fn with_who_waits(effect: String, view: &KeyView) -> Vec<String> {
    let waits = who_waits(view).map(|who| format!("Then: {who}."));
    std::iter::once(effect).chain(waits).collect()
}

fn holding(permit: &Inspection) -> Result<&leasehold::HeldView, Failure> {
    let held = permit.lease.held.as_ref();
    held.ok_or_else(|| Failure::new(Code::FAILURE, "nobody holds it"))
}

fn invalid(field: &str, error: &BadValue) -> Failure {
    Failure::usage(format!("{field}: {error}"))
}

fn number<T: FromStr>(text: &str) -> Result<T, Failure> {
    let number = text.parse();
    number.map_err(|_| Failure::usage("the address names no grant"))
}

fn token(text: &str) -> Result<Counter, Failure> {
    Counter::new(number(text)?).ok_or_else(|| Failure::usage("the address names no grant"))
}

/// The page before a change: what will happen, to whom, and a form for the reason. `refused` says why it was not sent on.
pub(super) fn before(
    site: &Site,
    asked: &Asked,
    view: &KeyView,
    refused: Option<&Failure>,
) -> Result<Markup, Failure> {
    let plan = asked.plan(view)?;
    let value = |name: &str| asked.fields.get(name).map(String::as_str);
    let kept = ["act", "key", "permit", "token", "execution"];
    let content = html! {
        h1 { (plain(&plan.title)) }
        @if let Some(refused) = refused { p .bad role="alert" { (plain(refused.what())) } }
        @for effect in &plan.effects { p { (plain(effect)) } }
        form method="post" action="change" .change {
            @for name in kept {
                @if let Some(value) = value(name) { input type="hidden" name=(name) value=(value); }
            }
            @if matches!(asked.act, Asking::Limit(_)) {
                label for="limit" { "How many: 0 to 1000, or none" }
                input #limit name="limit" required autocomplete="off" value=(value("limit").unwrap_or_default());
            }
            label for="why" { "Why" }
            input #why name="why" required autofocus autocomplete="off" maxlength="1000" value=(value("why").unwrap_or_default());
            label for="who" { "Who you are" }
            input #who name="who" required maxlength="200" value=(value("who").unwrap_or(&site.who));
            p .hint { (recorded(&asked.act)) }
            p .actions {
                button { (plan.button) }
                a href={ "key?" (super::page::query(&[("name", asked.key.as_str())])) } { "Cancel" }
            }
        }
        @if let Some(permit) = plan.permit {
            h2 { "As it is now" }
            (facts(site, &key_text::permit_facts(view, permit, view.seen_at)))
        }
    };
    Ok(page(site, &plan.title, &content))
}

/// Where the reason is kept.
const fn recorded(act: &Asking) -> &'static str {
    match act {
        Asking::Stop(..) => "Step Functions records both as the cause of the stop.",
        Asking::Repeat(_) | Asking::Dismiss(_) => {
            "The table does not record them: the terminal of this console does."
        }
        _ => "Both are recorded with the key, for everybody who looks at it later.",
    }
}

/// Does what is asked for, and the page after it.
pub(super) async fn carry_out(
    site: &Site,
    table_client: &TableClient,
    asked: &Asked,
    view: &KeyView,
) -> Result<Markup, Failure> {
    let because = match asked.because() {
        Ok(because) => because,
        Err(refused) => return before(site, asked, view, Some(&refused)),
    };
    let plan = asked.plan(view)?;
    let said = match &plan.deed {
        Deed::Nothing => {
            let refused = Failure::usage("the limit: a number is missing");
            return before(site, asked, view, Some(&refused));
        }
        Deed::Change(change) => {
            let done = change
                .carry_out(&table_client.leases, view, &because)
                .await?;
            let done = done.and_serves(table_client, &asked.key).await;
            done.words.into_iter().chain(done.note).collect()
        }
        Deed::Stop(execution) => {
            ask_to_stop(table_client, &asked.key, execution, &because).await?;
            vec![format!(
                "Step Functions was asked to stop {execution}. The page of the key shows when its lease has ended."
            )]
        }
        Deed::Repeat(execution) => {
            let started = start::repeat(table_client, &asked.key, execution).await?;
            let (words, held) = start::started_words(&started);
            let now = table_client.leases.now();
            let held = held.map(|held| lease_text::held(held, now));
            std::iter::once(words).chain(held).collect()
        }
        Deed::Dismiss(execution) => {
            vec![start::dismiss(table_client, &asked.key, execution).await?]
        }
    };
    let said: Vec<String> = said;
    print_error(&format!(
        "{}, by {}: {}: {}",
        plan.title,
        because.who,
        because.why,
        said.join("; ")
    ));
    let content = html! {
        h1 { "Done" }
        div role="status" { @for words in &said { p .done { (plain(words)) } } }
        p { "By " (plain(because.who.as_str())) ": " (plain(because.why.as_str())) }
        p { "Look at " (key_link(&asked.key)) " again." }
    };
    Ok(page(site, "Done", &content))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::{EXECUTION, execution, view};

    fn asked(fields: &[(&str, &str)]) -> Result<Asked, Failure> {
        let fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Asked::read(
            fields
                .chain([("key".to_owned(), "orders/42".to_owned())])
                .collect(),
        )
    }

    fn page(fields: &[(&str, &str)], view: &KeyView) -> Result<String, Failure> {
        let page = before(&Site::sample(true), &asked(fields)?, view, None);
        Ok(page?.into_string())
    }

    #[test]
    fn form_says_what_will_happen() {
        let mut view = view("orders/42", execution(json!({})));
        view.permits[0].waiting = 3;
        let grant = [("permit", "0"), ("token", "7")];
        let waits = "Then: 3 wait in the queue: the next sweep of the stack, within a minute, grants it to the first.";
        for (act, said) in [
            (
                "stop",
                vec!["Step Functions is asked to stop arn:aws:states", waits],
            ),
            (
                "force-release",
                vec![
                    "loses orders/42 at once. Beware: its execution may still run",
                    waits,
                ],
            ),
            (
                "freeze",
                vec![&format!("{EXECUTION} keeps it until its lease ends")],
            ),
            ("limit", vec!["name=\"limit\" required"]),
            ("repeat", vec!["machine, name and input as before"]),
            ("dismiss", vec!["not listed any more"]),
        ] {
            let fields = [&[("act", act), ("execution", EXECUTION)][..], &grant].concat();
            let page = page(&fields, &view).unwrap();
            for said in said {
                assert!(page.contains(said), "{act}: {said}\n{page}");
            }
            assert!(page.contains("name=\"why\" required"), "{page}");
        }
    }

    #[test]
    fn only_the_grant_seen_is_ended() {
        let view = view("orders/42", json!({}));
        let release = |permit, token| {
            let fields = [
                ("act", "force-release"),
                ("permit", permit),
                ("token", token),
            ];
            page(&fields, &view)
        };
        assert!(release("0", "7").is_ok());
        for (permit, token) in [("0", "6"), ("1", "7")] {
            let refused = release(permit, token).unwrap_err();
            assert_eq!(refused.what(), "the grant that you saw has ended");
        }
        let stop = page(&[("act", "stop"), ("permit", "0"), ("token", "7")], &view);
        assert!(stop.unwrap_err().what().contains("is no execution"));
    }

    #[test]
    fn wrong_forms_are_refused() {
        for fields in [
            &[("act", "drop")][..],
            &[("act", "force-release"), ("permit", "x"), ("token", "7")],
            &[("act", "limit"), ("limit", "1001")],
            &[("act", "repeat"), ("execution", "")],
        ] {
            assert_eq!(asked(fields).unwrap_err().code, Code::USAGE, "{fields:?}");
        }
        for (who, why) in [("", "ticket 7"), ("alice", " ")] {
            let fields = [("act", "freeze"), ("who", who), ("why", why)];
            assert!(asked(&fields).unwrap().because().is_err(), "{fields:?}");
        }
    }
}
