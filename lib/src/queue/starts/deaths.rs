//! A process may die before or after each request that it makes for a start: whatever it left, the next sweeps bring to an end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    Answer, Call, Engine, Execution, ExecutionName, Holder, IfHeld, Key, Leases, ManualClock, Pool,
    Question, Queue, RequestDigest, ResultTo, Settings, Start, StartRules, StartStatus,
    StateMachineArn, SweepBounds, TaskToken, WaitTime,
    clock::Clock as _,
    row::Row,
    store::{
        Operations as _, ScanSegment, Store as _,
        wire::{Death, Life, Wire},
    },
    test_support::{FakeStepFunctions, make},
};

const MACHINE: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:work";

/// Step Functions, called by a process that dies.
struct MortalCalls {
    life: Life,
    calls: Arc<FakeStepFunctions>,
}

impl Engine for MortalCalls {
    fn ask(&self, question: Question, limit: Duration) -> Call<'_, Answer> {
        Box::pin(self.life.request(self.calls.ask(question, limit)))
    }
}

/// What happens, one after the other.
#[derive(Clone, Copy, Debug)]
enum Act {
    Start(&'static str),
    /// It supersedes everybody who waits before it.
    Newest(&'static str),
    /// The execution that runs ends, and reap hears of it. Of several the last to have begun.
    EndAndReap,
    /// It ends, and only sweep sees it.
    EndAndSweep,
}

/// How many may have a key, and a pool, if there is one: then the first letter of a name is its key.
type Room = (Option<u16>, Option<u16>);

const MUTEX: Room = (None, None);

/// Of the mutex, and of two permits; of the newest; and of two tenants in a pool.
const STORIES: [(Room, &[Act]); 5] = [
    (
        MUTEX,
        &[
            Act::Start("a"),
            Act::Start("b"),
            Act::Start("c"),
            Act::Newest("d"),
            Act::EndAndReap,
            Act::EndAndSweep,
        ],
    ),
    (
        MUTEX,
        &[
            Act::Start("a"),
            Act::Start("b"),
            Act::Start("c"),
            Act::EndAndReap,
            Act::EndAndSweep,
            Act::EndAndReap,
        ],
    ),
    (
        (Some(2), None),
        &[
            Act::Start("a"),
            Act::Start("b"),
            Act::Start("c"),
            Act::EndAndReap,
            Act::Start("d"),
            Act::EndAndSweep,
            Act::EndAndReap,
        ],
    ),
    (
        (None, Some(1)),
        &[
            Act::Start("a1"),
            Act::Start("b1"),
            Act::Start("a2"),
            Act::EndAndReap,
            Act::Newest("b2"),
            Act::EndAndSweep,
            Act::EndAndReap,
        ],
    ),
    (
        (Some(2), Some(2)),
        &[
            Act::Start("a1"),
            Act::Start("a2"),
            Act::Start("a3"),
            Act::Start("b1"),
            Act::EndAndReap,
            Act::EndAndSweep,
            Act::EndAndReap,
        ],
    ),
];

struct World {
    room: Room,
    life: Life,
    clock: Arc<ManualClock>,
    calls: Arc<FakeStepFunctions>,
    leases: Queue<Wire>,
    accepted: Vec<Holder>,
    begun: Vec<Holder>,
    running: Vec<Holder>,
    /// The last token of each start, which is known to be accepted; and how many there were.
    tokens: BTreeMap<Holder, String>,
    calls_made: u32,
    /// What tasks were answered.
    answers: BTreeMap<String, Result<String, String>>,
}

impl World {
    fn new(room: Room) -> Self {
        let (life, clock) = (Life::default(), make::clock());
        let calls = Arc::new(FakeStepFunctions::default());
        let table = Wire::of(life.clone());
        let mortal = MortalCalls {
            life: life.clone(),
            calls: calls.clone(),
        };
        let leases = Leases::new(table, Settings::default())
            .with_clock(clock.clone())
            .with_engine(Arc::new(mortal))
            .with_starts(StartRules::of(MACHINE).expect("valid"));
        Self {
            room,
            life,
            clock,
            calls,
            leases,
            accepted: Vec::new(),
            begun: Vec::new(),
            running: Vec::new(),
            tokens: BTreeMap::new(),
            calls_made: 0,
            answers: BTreeMap::new(),
        }
    }

    /// What has begun since, only as long as not too many run; and which tasks were answered, none before the end.
    fn look(&mut self) {
        for answer in self.calls.take_answers() {
            let result = answer.result.map_err(|(error, _)| error);
            if let Ok(execution) = &result {
                let runs = |one: &Holder| one.as_str() == execution.trim_matches('"');
                assert!(!self.running.iter().any(runs), "{execution} runs");
            }
            self.answers.insert(answer.token, result);
        }
        for execution in self.calls.started().into_keys().map(make::holder) {
            if !self.begun.contains(&execution) {
                let key = self.key_of(&execution);
                let same = self.running.iter();
                let same = same.filter(|other| self.key_of(other) == key).count();
                let (of_key, in_all) = (self.room.0.unwrap_or(1), self.room.1.unwrap_or(u16::MAX));
                assert!(
                    same < of_key.into() && self.running.len() < in_all.into(),
                    "{execution} begins while {:?} run",
                    self.running
                );
                self.running.push(execution.clone());
                self.begun.push(execution);
            }
        }
    }

    /// By the name of the execution.
    fn key_of(&self, execution: &Holder) -> Key {
        let name = execution.as_str().rsplit(':').next().expect("a name");
        make::key(self.room.1.map_or("k", |_| &name[..1]))
    }

    fn end(&mut self) -> Option<Holder> {
        self.clock.advance(Duration::from_millis(1));
        let execution = self.running.pop()?;
        let over = Execution::Ended {
            stopped_at: self.clock.now(),
            redrivable: false,
            all_answered: true,
        };
        let output = format!("\"{execution}\"");
        self.calls.set_result(execution.as_str(), Some(Ok(output)));
        self.calls.set_execution(execution.as_str(), over);
        Some(execution)
    }

    /// Returns whether the process has died of it.
    async fn act(&mut self, act: Act, death: Death) -> bool {
        let leases = self.leases.clone();
        let died = match act {
            Act::Start(called) | Act::Newest(called) => {
                let name = ExecutionName::new(called).expect("valid");
                let machine = StateMachineArn::new(MACHINE).expect("valid");
                let key = self.key_of(&machine.execution(&name));
                let pool = |permits| Pool::new(&make::key("p"), make::permits(permits));
                self.calls_made += 1;
                let token = format!("{called} {}", self.calls_made);
                let start = Start {
                    result_to: Some(ResultTo {
                        task_token: TaskToken::new(token.clone()).expect("valid"),
                        caller: make::execution("caller"),
                        stop_with_caller: false,
                    }),
                    permits: self.room.0.map(make::permits),
                    pool: self.room.1.map(pool),
                    if_held: match act {
                        Act::Newest(_) => IfHeld::Latest(WaitTime::DAY),
                        _ => IfHeld::Wait(WaitTime::DAY),
                    },
                    ..Start::new(key, machine, name)
                };
                let execution = start.execution();
                let started = self.life.lives(death, Box::pin(leases.start(start))).await;
                if let Some(started) = &started {
                    assert!(started.is_ok(), "{started:?}");
                    self.tokens.insert(execution.clone(), token);
                    self.accepted.push(execution);
                }
                started.is_none()
            }
            Act::EndAndReap => match self.end() {
                Some(ended) => {
                    let reaped = self.life.lives(death, Box::pin(leases.reap(&ended))).await;
                    reaped.is_none()
                }
                None => false,
            },
            Act::EndAndSweep => {
                self.end();
                self.clock.advance(Duration::from_mins(1));
                let swept = leases.sweep(SweepBounds::Schedule);
                self.life.lives(death, Box::pin(swept)).await.is_none()
            }
        };
        self.look();
        died
    }

    /// Nobody calls any more: every minute there is a sweep, until nothing is left to be done.
    async fn comes_to_rest(&mut self) {
        let (segment, total) = (0, 1);
        for minute in 0.. {
            self.end();
            self.clock.advance(Duration::from_mins(1));
            let swept = Box::pin(self.leases.sweep(SweepBounds::Schedule)).await;
            assert!(swept.is_ok(), "{swept:?}");
            self.look();
            let table = &self.leases.store().table;
            let left = table.scan(ScanSegment { segment, total }, None, 100, Duration::MAX);
            let left = left.await.expect("a page").entries;
            if left.is_empty() && self.running.is_empty() {
                break;
            }
            assert!(minute < 100, "{left:?}, {:?}", self.running);
        }
        let mut due = Vec::new();
        for execution in &self.accepted {
            let request = RequestDigest::of_start(execution);
            let key = self.key_of(execution);
            let table = &self.leases.store().table;
            let item = table.start_item(&key, &request, Duration::MAX).await;
            let status = item.expect("an answer").map(|item| item.status);
            let is_superseded = matches!(status, Some(StartStatus::Superseded(_)));
            let expected = if is_superseded {
                Err("Lease.Superseded".to_owned())
            } else {
                due.push(execution.clone());
                Ok(format!("\"{execution}\""))
            };
            let answer = &self.answers.get(&self.tokens[execution]);
            assert_eq!(*answer, Some(&expected), "{execution}");
        }
        let in_order = self.begun.iter().filter(|one| self.accepted.contains(one));
        let mut in_order: Vec<_> = in_order.cloned().collect();
        // Stable: of each key.
        in_order.sort_by_key(|one| self.key_of(one));
        due.sort_by_key(|one| self.key_of(one));
        assert_eq!(in_order, due, "each once, in the order of their calls");
        for (_, _, item) in self.leases.store().table.all() {
            let queue = Row::read(&item).map(|row| row.queue).unwrap_or_default();
            assert_eq!(queue, [], "nobody waits");
        }
    }
}

/// Plays all acts, and dies in one of them. Returns whether it did.
async fn dies(
    (room, acts): (Room, &[Act]),
    in_act: usize,
    death: Death,
    is_repeated: bool,
) -> bool {
    let never = Death {
        request: u32::MAX,
        is_sent: true,
    };
    let (mut world, mut died) = (World::new(room), false);
    for (number, act) in acts.iter().copied().enumerate() {
        if number != in_act {
            world.act(act, never).await;
            continue;
        }
        died = world.act(act, death).await;
        if died && is_repeated && matches!(act, Act::Start(_) | Act::Newest(_)) {
            world.act(act, never).await;
        }
    }
    world.comes_to_rest().await;
    died
}

#[tokio::test(start_paused = true)]
async fn sweep_finishes_what_dead_process_left() {
    for story in STORIES {
        dies_everywhere(story).await;
    }
}

async fn dies_everywhere(story: (Room, &[Act])) {
    let mut deaths = 0;
    for (number, act) in story.1.iter().enumerate() {
        for (is_sent, is_repeated) in [(false, false), (true, false), (false, true), (true, true)] {
            for request in 1.. {
                let death = Death { request, is_sent };
                // Shown if it fails.
                println!("{:?}, {act:?}: {death:?}, repeated: {is_repeated}", story.0);
                if !dies(story, number, death, is_repeated).await {
                    break;
                }
                deaths += 1;
            }
        }
    }
    assert!(deaths > 100, "{deaths}");
}
