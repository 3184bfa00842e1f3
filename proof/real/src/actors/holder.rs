//! Who holds by a deadline: asks until it is granted the key, works, extends, oversleeps, writes to what the key protects, releases
//! twice or late, dies, and comes back.

use std::sync::Arc;

use fastrand::Rng;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Key, of_kinds};
use crate::call::{Answer, Extended, Handle, seconds};
use crate::plan::{Step, choose, percent, seeded};
use crate::promises::{At, What};
use crate::round::Round;
use crate::watch::{BLUR, sleep_ms};
use crate::world::{MARGIN, SKEW};

/// What it does with one key.
struct Section<'a> {
    round: &'a Round,
    who: String,
    /// In all of its requests to acquire, and in no other.
    mark: String,
    /// By how many milliseconds its clock is ahead.
    ahead: i64,
    key: String,
    permits: usize,
    ttl: u64,
    asks: Vec<Step>,
    copies: usize,
    /// Waits as long as the answer says, and asks whether the holder has shown any life.
    observes: bool,
    /// How long it is away when nobody answers, in milliseconds; none if for good.
    comes_back: Option<u64>,
    writes: bool,
    work: Vec<Work>,
    /// Releases so many times at once, or dies.
    releases: usize,
    release: Step,
    /// What comes late after the end, and how many milliseconds later.
    late: Option<(Late, u64)>,
}

#[derive(Clone, Copy)]
enum Work {
    For(u64),
    Extend(Step, Option<u64>),
    /// With the right token, and the wrong lease id.
    Forge(Step),
    /// Does nothing until its lease has been over for so many milliseconds.
    Oversleep(u64),
}

#[derive(Clone, Copy)]
enum Late {
    Ask,
    Extend,
    Release,
}

/// What became of asking.
enum Asked {
    Granted(Box<Handle>, At),
    Unknown,
    Held(Value),
    /// It had its lease before.
    Over,
}

/// Section after section, until the round is over.
pub(super) async fn live(round: Arc<Round>, client: u64) {
    let skew = SKEW / 2;
    let ahead = seeded(round.seed, &[client]).i64(-skew..=skew);
    let mut number = 0;
    while !round.is_over() {
        let rng = &mut seeded(round.seed, &[round.number, client, number]);
        let mark = format!("r{}-c{client}-s{number}. ", round.number);
        let who = format!("client-{client}");
        Section::draw(rng, &round, who, mark, ahead).play().await;
        number += 1;
    }
}

impl<'a> Section<'a> {
    fn draw(rng: &mut Rng, round: &'a Round, who: String, mark: String, ahead: i64) -> Self {
        const KINDS: [&str; 10] = [
            "hot", "hot", "hot", "hot", "key", "key", "key", "queue", "permits", "permits",
        ];
        let keys = of_kinds(round, &[choose(rng, &KINDS)]);
        let (key, permits) = choose(rng, &keys);
        let late = [Late::Ask, Late::Extend, Late::Release];
        Self {
            round,
            who,
            mark,
            ahead,
            key,
            permits,
            ttl: choose(rng, &[1000, 1000, 1000, 1500, 3000]),
            asks: (0..20).map(|_| Step::draw(rng, 200)).collect(),
            copies: 1 + usize::from(permits == 1 && percent(rng, 8)),
            observes: permits == 1 && percent(rng, 25),
            comes_back: choose(rng, &[Some(0), Some(0), Some(0), Some(1000), None]),
            writes: permits == 1 && percent(rng, 60),
            work: (0..rng.u64(..5)).map(|_| Work::draw(rng)).collect(),
            releases: choose(rng, &[0, 1, 1, 1, 1, 1, 1, 2]),
            release: Step::draw(rng, 20),
            late: percent(rng, 40).then(|| (choose(rng, &late), rng.u64(..2000))),
        }
    }

    async fn play(&self) {
        let (round, who) = (self.round, &self.who);
        let Some((handle, heard)) = self.ask_until_granted().await else {
            return;
        };
        let handle = self.hold(handle, heard).await;
        let mut is_over = false;
        if self.releases > 0 {
            round.leaves(round.now(), who, &handle);
            let copies = self.release.copies(self.releases);
            let releases = copies.map(|step| round.release(who, &handle, step));
            is_over = join_all(releases).await.contains(&true);
        }
        let Some((late, after)) = self.late else {
            return;
        };
        sleep_ms(after).await;
        match late {
            Late::Ask => drop(self.acquire(self.release, round.now(), None).await),
            Late::Extend => {
                let extended = round.extend(who, &handle, self.release, None).await;
                if is_over && matches!(extended, Extended::Yes(_)) {
                    round.unexpected(who, "with more time after its release".to_owned());
                }
            }
            Late::Release => {
                round.leaves(round.now(), who, &handle);
                round.release(who, &handle, self.release).await;
            }
        }
    }

    async fn ask_until_granted(&self) -> Option<(Handle, At)> {
        let (mut asked, mut observed) = (self.round.now(), None);
        for step in &self.asks {
            let copies = step.copies(self.copies);
            let answers = join_all(copies.map(|step| self.acquire(step, asked, observed))).await;
            observed = None;
            let best = answers.into_iter().min_by_key(|answer| match answer {
                Asked::Granted(..) => 0,
                Asked::Unknown => 1,
                Asked::Held(_) => 2,
                Asked::Over => 3,
            });
            match best? {
                Asked::Granted(handle, heard) => return Some((*handle, heard)),
                Asked::Unknown => sleep_ms(self.comes_back?).await,
                Asked::Held(_) if self.round.is_over() => return None,
                Asked::Held(held) => {
                    if self.observes {
                        sleep_ms(held["wait_seconds"].as_u64().unwrap_or(0) * 1000).await;
                        observed = held["version"].as_u64();
                    }
                    asked = self.round.now();
                }
                Asked::Over => return None,
            }
        }
        None
    }

    async fn acquire(&self, step: Step, asked: At, observed: Option<u64>) -> Asked {
        let (round, who) = (self.round, &self.who);
        let payload = json!({
            "key": self.key,
            "holder": who,
            "request_id": self.mark,
            "ttl_seconds": seconds(self.ttl),
            "metadata": {"mark": self.mark},
            "permits": (self.permits > 1).then_some(self.permits),
            "observed_version": observed,
        });
        let reply = round.call(who, "acquire", step, &payload, &self.mark).await;
        match reply.answer {
            Answer::Well(answer) => {
                let Some(handle) = round.handle(who, &answer["lease"]) else {
                    return Asked::Over;
                };
                let (token, request) = (handle.token, self.mark.clone());
                let what = What::Granted {
                    token,
                    request,
                    asked,
                };
                round.see(reply.end, &handle.place(), who, what);
                Asked::Granted(Box::new(handle), reply.end)
            }
            Answer::Error(name, held) if name == "Lease.Held" => Asked::Held(held),
            Answer::Error(name, _) if name == "Lease.Consumed" => Asked::Over,
            answer => round.unknown(who, "acquire", &answer, Asked::Unknown),
        }
    }

    /// Holds as planned. The handle as it was known last.
    async fn hold(&self, mut handle: Handle, heard: At) -> Handle {
        let (round, who) = (self.round, &self.who);
        self.enters(heard, &handle);
        let (resource, mut read) = (&round.world.resource, None);
        if self.writes {
            read = resource.enter(&self.key, handle.token).await;
        }
        for work in &self.work {
            match *work {
                Work::For(millis) => sleep_ms(millis).await,
                Work::Forge(step) => self.forge(&handle, step).await,
                Work::Oversleep(millis) => {
                    let (_, expires_at) = handle.deadline.unwrap_or_default();
                    let over = round.watch.at(expires_at, self.ahead);
                    sleep_ms(over.saturating_sub(round.now()) / 1000 + millis).await;
                }
                Work::Extend(step, ttl) => match round.extend(who, &handle, step, ttl).await {
                    Extended::Yes(longer) => {
                        handle = longer;
                        self.enters(round.now(), &handle);
                    }
                    Extended::Lost => round.leaves(round.now(), who, &handle),
                    Extended::Unknown => {}
                },
            }
        }
        // Whether its lease is over or not: the fence is to tell.
        if let Some(read) = read {
            resource.add(&self.key, handle.token, read).await;
        }
        handle
    }

    /// It believes to be alone with it, by its own clock.
    fn enters(&self, at: At, handle: &Handle) {
        let (round, token) = (self.round, handle.token);
        let (safe_until, expires_at) = handle.deadline.unwrap_or_default();
        let until = Some(round.watch.at(safe_until, self.ahead));
        round.enters(at, &self.who, handle, self.permits, until);
        // By the clock that is most ahead.
        let over = expires_at + MARGIN - SKEW / 2 - BLUR;
        let expires = What::Expires {
            token,
            until: round.watch.at(over, 0),
            is_by_clock: !self.observes,
        };
        round.see(at, &handle.place(), &self.who, expires);
    }

    /// Who has seen a token, which is public, and guesses the lease id.
    async fn forge(&self, handle: &Handle, step: Step) {
        let mut forged = handle.clone();
        let id = handle.raw["lease_id"].as_str().unwrap_or_default();
        forged.raw["lease_id"] = id.chars().rev().collect::<String>().into();
        let who = "who guesses a lease id";
        if let Extended::Yes(_) = self.round.extend(who, &forged, step, None).await {
            self.round.unexpected(who, "with more time".to_owned());
        }
    }
}

impl Work {
    fn draw(rng: &mut Rng) -> Self {
        match rng.u64(..20) {
            0..=8 => Self::For(rng.u64(1..=120)),
            9 => Self::Forge(Step::draw(rng, 20)),
            10..=13 => Self::Oversleep(rng.u64(..1500)),
            _ => {
                let ttl = percent(rng, 30).then(|| rng.u64(1000..=3000));
                Self::Extend(Step::draw(rng, 60), ttl)
            }
        }
    }
}

/// Whoever held the key and died, and whoever waited for it and is gone: who comes at the end is granted it.
pub async fn try_for(round: &Round, (key, permits): &Key) {
    let who = "the last one";
    let payload = json!({"key": key, "holder": who, "ttl_seconds": 1, "permits": permits});
    loop {
        let called = round.call(who, "acquire", Step::CLEAN, &payload, "");
        let answer = called.await.answer;
        if matches!(answer, Answer::Well(_)) {
            return round.see(round.now(), key, who, What::Tried(None));
        }
        if round.patience_is_over() {
            let said = Some(format!("{answer:?}"));
            return round.see(round.now(), key, who, What::Tried(said));
        }
        sleep_ms(500).await;
    }
}
