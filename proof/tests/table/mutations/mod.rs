//! Whether the sequences notice when a condition or an update says something else than it should. Mutants of code do not
//! get at that: expressions are text to the compiler. So each part of each condition that the library sends is left out,
//! negated or loosened on its way to the table, and so is each part of each update; and some sequence must come to
//! another end than the pure function says.
//!
//! All of them are tried after a change of what they rest on (`part.rs`) and with `MUTATIONS=all`; otherwise those of one
//! expression in eight.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex},
};

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use leasehold::{
    Key, TaskToken,
    row::{Item, Stored},
    store::{Address, Joined, Operations as _, Renewed},
    transition::Change,
    waiter::TokenItem,
};
use leasehold_conformance::{
    changes, sequences,
    steps::{Step, Write, grant, join},
    stores::{self, LIMIT},
};
use leasehold_proof::fixture::{TABLE, Table};

mod condition;
mod equivalent;
mod mutants;
mod part;
mod recorded;
mod wire;
use mutants::{Mutant, attribute, of_condition};
use part::Part;
use recorded::{Observed, key, listen, observe, until};
pub use wire::attributes;
use wire::{Kind, Mistake, any_place, mistaken};

type Stores = stores::Stores<Table>;

/// How many tables work side by side.
const TABLES: usize = 4;

/// On how many sequences a mistake is tried that should show there.
const TRIES: usize = 6;

/// Nothing is left to chance: what shows a mistake is written down.
fn sequences() -> Vec<Vec<Step>> {
    let mut all = sequences::of_strangers();
    all.extend(sequences::of_every_part());
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_expression_mutation_is_noticed() {
    let part = part::to_try();
    let sequences = Arc::new(sequences());
    let mut tables = Vec::new();
    for _ in 0..TABLES {
        tables.push(Arc::new(Stores::on(Table::patient().await)));
    }
    let observed = all_of(&tables, &sequences).await;
    let known: HashSet<_> = observed.iter().map(|o| o.sent.form()).collect();
    if part.is_whole() {
        for form in of_the_suite().await {
            assert!(known.contains(&form), "no sequence sends {form}");
        }
    }
    let extends = |o: &&Observed| sequences[o.sequence][o.step].write == Write::Extend;
    for o in observed.iter().filter(extends) {
        let update = o.sent.update.to_string();
        let indexed = ["#holder", "#sweep_after"].map(|name| update.contains(name));
        assert_eq!(indexed, [false; 2], "it writes the index as well: {update}");
    }
    let mut excused = BTreeMap::new();
    let mut mistakes = mistakes(&observed, &sequences, &part);
    mistakes.retain(
        |(mistake, _)| match equivalent::because(&mistake.form, &mistake.what) {
            Some(reason) => {
                *excused.entry(reason).or_insert(0) += 1;
                false
            }
            None => true,
        },
    );
    if part.is_whole() {
        for (_, reason) in equivalent::RULES {
            assert!(excused.contains_key(reason), "it excuses nothing: {reason}");
        }
        assert!(mistakes.len() > 1800, "the expressions have as many parts");
    }
    let mistakes = Arc::new(mistakes);
    let survivors = Arc::new(Mutex::new(BTreeSet::new()));
    let mut working = Vec::new();
    for (table, stores) in tables.into_iter().enumerate() {
        let mistakes = Arc::clone(&mistakes);
        let (sequences, survivors) = (Arc::clone(&sequences), Arc::clone(&survivors));
        working.push(tokio::spawn(async move {
            let mut tries = Tries {
                stores: &stores,
                sequences: &sequences,
                table,
                runs: 0,
            };
            // Each where its sequence has come to its end before.
            let at = |candidates: &Candidates| {
                candidates
                    .first()
                    .map_or(0, |(sequence, _)| sequence % TABLES)
            };
            let here = mistakes
                .iter()
                .filter(|(_, candidates)| at(candidates) == table);
            for (mistake, candidates) in here {
                if !tries.shows(mistake, candidates).await {
                    let survivor = format!(
                        "{} ({})\n    in {:?} {}",
                        mistake.what,
                        candidates.len(),
                        mistake.steps,
                        mistake.form
                    );
                    survivors.lock().unwrap().insert(survivor);
                }
            }
        }));
    }
    for work in working {
        work.await.unwrap();
    }
    let survivors = survivors.lock().unwrap();
    for survivor in &*survivors {
        println!("{survivor}");
    }
    println!(
        "{} mutants, {} not noticed, {} that say the same",
        mistakes.len(),
        survivors.len(),
        excused.values().sum::<usize>()
    );
    assert!(survivors.is_empty(), "they are listed above");
    part.was_noticed();
}

/// What the suite sends that every store has to pass: nothing that the sequences do not.
async fn of_the_suite() -> HashSet<String> {
    let stores = Stores::on(Table::patient().await);
    let heard = listen(&stores);
    Box::pin(stores.all(0..250)).await.unwrap();
    let heard = heard.lock().unwrap();
    assert!(!heard.is_empty());
    // The rules of a table, the items of starts and the notes of ended executions are no rows. The suite itself shows what their
    // conditions are for.
    let beside = ["RULES", "START#", "ENDED#", "RESULT#", "CALLED#"];
    let is_row = |sk: &str| !beside.iter().any(|kind| sk.starts_with(kind));
    let rows = heard.iter().filter(|sent| is_row(&sent.place.1));
    rows.map(wire::Sent::form).collect()
}

/// Runs the sequences, none of which may find anything wrong.
async fn all_of(tables: &[Arc<Stores>], sequences: &Arc<Vec<Vec<Step>>>) -> Vec<Observed> {
    let mut working = Vec::new();
    for (first, stores) in tables.iter().enumerate() {
        let (stores, sequences) = (Arc::clone(stores), Arc::clone(sequences));
        working.push(tokio::spawn(async move {
            let heard = listen(&stores);
            let kept = waiters_are_kept_apart(&stores, "waiters").await;
            assert!(kept.is_ok(), "{kept:?}");
            heard.lock().unwrap().clear();
            let mut all = Vec::new();
            for n in (first..sequences.len()).step_by(TABLES) {
                all.extend(observe(&stores, &heard, n, &sequences[n]).await);
            }
            all
        }));
    }
    let mut all = Vec::new();
    for work in working {
        all.extend(work.await.unwrap());
    }
    // What takes the fewest steps first.
    all.sort_by_key(|o| (o.strange, o.cost, o.sequence, o.step));
    all
}

/// A sequence, and the step of it at which a mistake should show.
type Candidates = Vec<(usize, usize)>;

/// Every mistake that can be made in what was sent, and where it should show.
fn mistakes(
    observed: &[Observed],
    sequences: &[Vec<Step>],
    part: &Part,
) -> Vec<(Mistake, Candidates)> {
    let holds: Vec<_> = observed
        .iter()
        .map(|o| o.is_true(&o.sent.condition))
        .collect();
    // A transaction of which another part is refused shows nothing.
    let mut refused: HashMap<_, Vec<usize>> = HashMap::new();
    for (n, o) in observed.iter().enumerate().filter(|(n, _)| !holds[*n]) {
        refused
            .entry((o.sequence, o.sent.request))
            .or_default()
            .push(n);
    }
    let mut forms = BTreeMap::new();
    for (n, o) in observed.iter().enumerate() {
        let text = o.sent.form();
        if !part.has(&text) {
            continue;
        }
        let form: &mut Form = forms.entry(text).or_default();
        let step = sequences[o.sequence][o.step];
        form.steps.insert(format!("{:?}", step.write));
        let others = refused.get(&(o.sequence, o.sent.request));
        let alone = others.is_none_or(|others| others.iter().all(|other| *other == n));
        form.consider(o, holds[n], alone);
    }
    let forms = forms.into_iter();
    forms
        .flat_map(|(text, form)| form.mistakes(&text))
        .collect()
}

/// What was sent with conditions of one form.
#[derive(Default)]
struct Form {
    steps: BTreeSet<String>,
    /// By their text.
    conditions: HashMap<String, Vec<Mutant>>,
    mutants: Vec<Candidates>,
    updates: BTreeMap<String, Candidates>,
}

impl Form {
    fn consider(&mut self, o: &Observed, holds: bool, alone: bool) {
        let at = (o.sequence, o.step);
        let mutants = self
            .conditions
            .entry(o.sent.condition.to_string())
            .or_insert_with(|| of_condition(&o.sent.condition));
        self.mutants.resize(mutants.len(), Candidates::new());
        for (mutant, candidates) in mutants.iter().zip(&mut self.mutants) {
            if alone && candidates.len() < TRIES && o.is_true(&mutant.condition) != holds {
                candidates.push(at);
            }
        }
        for (what, _) in o.sent.update.mutants() {
            let moved = alone && holds && o.moves(attribute(&what));
            let candidates = self.updates.entry(what).or_default();
            if moved && candidates.len() < TRIES {
                candidates.push(at);
            }
        }
    }

    fn mistakes(self, text: &str) -> Vec<(Mistake, Candidates)> {
        let steps: Vec<_> = self.steps.into_iter().collect();
        let mistake = |what: &str, kind| Mistake {
            form: text.to_owned(),
            what: any_place(what),
            kind,
            steps: steps.clone(),
        };
        let conditions = &self.conditions;
        let mutants = self
            .mutants
            .into_iter()
            .enumerate()
            .map(|(nth, candidates)| {
                let others = conditions.iter();
                let others = others.map(|(text, all)| (text.clone(), all[nth].condition.clone()));
                let one = conditions.values().next().unwrap();
                (
                    mistake(&one[nth].what, Kind::Condition(others.collect())),
                    candidates,
                )
            });
        let updates = self.updates.into_iter();
        let updates = updates.map(|(what, candidates)| (mistake(&what, Kind::Update), candidates));
        mutants.chain(updates).collect()
    }
}

/// Runs sequences on one table with mistakes in what is sent.
struct Tries<'a> {
    stores: &'a Stores,
    sequences: &'a [Vec<Step>],
    /// Which of the tables.
    table: usize,
    runs: usize,
}

impl Tries<'_> {
    async fn shows(&mut self, mistake: &Mistake, candidates: &Candidates) -> bool {
        for &(sequence, step) in candidates {
            if self.shows_at(mistake, sequence, step).await {
                return true;
            }
        }
        mistake.form.contains("#superseded_by") && !self.is_kept(mistake).await
    }

    async fn is_kept(&mut self, mistake: &Mistake) -> bool {
        self.runs += 1;
        let key = format!("m{}", self.runs);
        self.make(mistake);
        waiters_are_kept_apart(self.stores, &key).await.is_ok()
    }

    fn make(&self, mistake: &Mistake) {
        let made = mistake.clone();
        let proxy = &self.stores.table.proxy;
        proxy.rewrite(move |operation, body| mistaken(operation, body, &made));
    }

    async fn shows_at(&mut self, mistake: &Mistake, sequence: usize, step: usize) -> bool {
        let steps = until(&self.sequences[sequence], step);
        if let Some(rest) = self.rest(mistake, sequence, &steps).await {
            self.make(mistake);
            let same = self.stores.run(&key(sequence), rest).await;
            return same.is_err();
        }
        // Rows of other runs must not show.
        self.runs += 1;
        self.make(mistake);
        let same = self.stores.run(&format!("m{}", self.runs), &steps).await;
        same.is_err()
    }

    /// The steps after [`Write::Keep`], which begin with [`Write::Again`], if what was kept is on this table.
    async fn rest<'s>(
        &self,
        mistake: &Mistake,
        sequence: usize,
        steps: &'s [Step],
    ) -> Option<&'s [Step]> {
        let keep = steps.iter().position(|step| step.write == Write::Keep)?;
        let (before, rest) = (&steps[..keep], &steps[keep + 1..]);
        let (first, last) = (rest.first()?, rest.last()?);
        if sequence % TABLES != self.table || first.write != Write::Again {
            return None;
        }
        if last.write != Write::Join {
            return Some(rest);
        }
        // It concerns the item that was there.
        if mistake.form.contains("#task_token") {
            return None;
        }
        // What is put there again is the row: a waiter that has joined has left an item of its own.
        let waits = |step: &Step| {
            step.write == Write::Join && (step.who, step.request) == (last.who, last.request)
        };
        if before.iter().any(waits) {
            return None;
        }
        self.stores.table.proxy.reset();
        let forget = Step {
            write: Write::Forget,
            ..*last
        };
        let gone = self.stores.run(&key(sequence), &[*first, forget]).await;
        gone.is_ok().then_some(rest)
    }
}

/// What else can stand in the place of a waiter's item: a stranger's, which is left alone. The memory store has no such
/// strangers, hence no sequences.
async fn waiters_are_kept_apart(stores: &Stores, key: &str) -> Result<(), String> {
    let text = |error: leasehold::Error| error.to_string();
    let (key, store) = (Key::new(key).unwrap(), stores.table.store());
    let (join, waiter) = changes::join(&Stored::Absent, &join(1));
    let renewed = store.update_task_token(&key, (&waiter, None), LIMIT);
    let Renewed::Done(_) = renewed.await.map_err(text)? else {
        return Err("a first token was not stored".to_owned());
    };
    let items = stores.table.items(&key).await;
    let item = items.into_iter().next().ok_or("no item was made")?;
    let mut strange = item.clone();
    let another = AttributeValue::B(Blob::new("another"));
    strange.insert("request".to_owned(), another);
    put(stores, strange.clone()).await;
    let waits = (&waiter, Some(&waiter.task_token));
    if store.update_task_token(&key, waits, LIMIT).await.is_ok() {
        return Err("a stranger's item was taken for a waiter's".to_owned());
    }
    let granted = stores.run(key.as_str(), &[grant(0, 1)]).await;
    granted?;
    let (first, join) = (
        Address {
            key: key.clone(),
            permit: 0,
        },
        Change::Join(join),
    );
    match store.put_token(&first, &join, waits, LIMIT).await {
        Ok(Joined::ForeignItem) => {}
        joined => {
            return Err(format!(
                "a stranger's item was in the way, and yet {joined:?}"
            ));
        }
    }
    if !stores.table.items(&key).await.contains(&strange) {
        return Err("a stranger's item was changed".to_owned());
    }
    one_that_was_sent_away_stays(stores, (&first, &waiter), &join, item).await
}

/// Its item has its token still, until it has been told.
async fn one_that_was_sent_away_stays(
    stores: &Stores,
    (first, waiter): (&Address, &TokenItem),
    join: &Change,
    mut item: Item,
) -> Result<(), String> {
    let by = AttributeValue::S("a later one".to_owned());
    item.insert("superseded_by".to_owned(), by);
    put(stores, item.clone()).await;
    let store = stores.table.store();
    let again = TokenItem {
        task_token: TaskToken::new("another token").unwrap(),
        ..waiter.clone()
    };
    let waits = (&again, Some(&waiter.task_token));
    let renewed = store.update_task_token(&first.key, waits, LIMIT).await;
    let joined = store.put_token(first, join, waits, LIMIT).await;
    let stays = stores.table.items(&first.key).await.contains(&item);
    if stays {
        return Ok(());
    }
    Err(format!("it came back: {renewed:?}, {joined:?}"))
}

async fn put(stores: &Stores, item: Item) {
    let put = stores.table.client.put_item().table_name(TABLE);
    put.set_item(Some(item)).send().await.unwrap();
}
