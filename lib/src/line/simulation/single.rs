//! One thing goes wrong, once: at every step of a run, each thing that can.

use super::ground::EndOf;
use super::{
    ground::{Mishap, START},
    tasks::What,
    workflow::State,
    world::{Plan, World},
};

/// How the first holder comes to its end, with three in line behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// It releases, and tells who is next.
    Releases,
    /// As all of them, it releases and cannot tell anybody: the stream does.
    ReleasesMutely,
    /// It fails, and an event tells of it.
    Fails,
    /// It is stopped, and an event tells of it.
    IsStopped,
    /// It is never heard of again.
    Vanishes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Dies,
    Meets(Mishap),
}

const FAULTS: [Fault; 4] = [
    Fault::Dies,
    Fault::Meets(Mishap::Lost),
    Fault::Meets(Mishap::Late),
    Fault::Meets(Mishap::Twice),
];

const SWEEP: u64 = 60_000;

struct Run {
    world: World,
    course: Course,
    /// At which step, and what.
    fault: Option<(u64, Fault)>,
    steps: u64,
    turn: usize,
}

impl Run {
    fn new(course: Course, fault: Option<(u64, Fault)>) -> Self {
        let mut world = World::new(0, 1, None);
        let plan = Plan {
            key: 0,
            ttl: 30_000,
            wait: 600_000,
            in_line: true,
            mute: course == Course::ReleasesMutely,
            ahead: 0,
        };
        for _ in 0..4 {
            world.enter(plan);
        }
        Self {
            world,
            course,
            fault,
            steps: 0,
            turn: 0,
        }
    }

    /// The fault that this step meets.
    fn counted(&mut self) -> Option<Fault> {
        self.steps += 1;
        self.fault
            .filter(|(at, _)| *at == self.steps)
            .map(|(_, fault)| fault)
    }

    /// When all of them had come to their ends; nothing if they do not.
    fn ends_at(&mut self) -> Option<u64> {
        while !self.world.is_over() {
            let now = self.world.ground.get().now;
            if self.world.wrong().is_some() || now > START + 3_600_000 {
                return None;
            }
            self.go_on();
        }
        let now = self.world.ground.get().now;
        Some(now - START)
    }

    fn go_on(&mut self) {
        if !self.world.tasks.is_empty() {
            self.turn += 1;
            let place = self.turn % self.world.tasks.len();
            self.world.jump(1);
            match self.counted() {
                None => self.world.step(place, None),
                Some(Fault::Dies) => self.world.kill(place),
                Some(Fault::Meets(mishap)) => self.world.step(place, Some(mishap)),
            }
        } else if self.somebody_acts() || self.something_arrives() {
        } else {
            self.world.jump(1000);
            let now = self.world.ground.get().now;
            if (now / 1000).is_multiple_of(SWEEP / 1000) {
                self.world.sweep();
            }
        }
    }

    /// The first asks and confirms; then the others ask; then the first comes to its end.
    fn somebody_acts(&mut self) -> bool {
        let state = |who: usize| self.world.workflows[who].state;
        match (state(0), state(3)) {
            (State::Asking | State::Woken | State::Releasing, _) => self.world.go_on(0),
            (State::Holding, State::Asking) => (1..4).for_each(|who| self.world.go_on(who)),
            (State::Holding, _) => match self.course {
                Course::Releases | Course::ReleasesMutely => self.world.act(0, What::Release),
                Course::Fails => self.world.end(0, EndOf::Failure),
                Course::IsStopped => self.world.end(0, EndOf::Force),
                Course::Vanishes => {
                    self.world.end(0, EndOf::Failure);
                    self.world.ends.clear();
                }
            },
            _ => {
                let can = |who: &usize| !matches!(state(*who), State::Waiting | State::Over);
                let Some(who) = (0..4).find(can) else {
                    return false;
                };
                self.world.go_on(who);
            }
        }
        true
    }

    /// A message that may be lost as well, or come late, or twice.
    fn something_arrives(&mut self) -> bool {
        if !self.world.ground.get().strays.is_empty() {
            self.world.arrive(0);
            return true;
        }
        let key = self.world.ground.get().records.pop();
        let end = self.world.ends.pop();
        if key.is_none() && end.is_none() {
            return false;
        }
        let times = match self.counted() {
            None => 1,
            Some(Fault::Meets(Mishap::Twice)) => 2,
            Some(Fault::Meets(Mishap::Late)) => {
                self.world.jump(9_000);
                1
            }
            Some(Fault::Dies | Fault::Meets(Mishap::Lost)) => 0,
        };
        for _ in 0..times {
            if let Some(key) = key.clone() {
                self.world.hand_over(key);
            }
            if let Some((who, end)) = end {
                self.world.reap(who, end);
            }
        }
        true
    }
}

/// By how much the last of them is later than if nothing goes wrong.
fn delay(course: Course, fault: (u64, Fault), smoothly: u64, traced: bool) -> Result<u64, String> {
    let mut run = Run::new(course, Some(fault));
    run.world.ground.get().trace = traced.then(String::new);
    let ends_at = run.ends_at();
    run.world.settle();
    let trace = run.world.ground.get().trace.take().unwrap_or_default();
    if let Some(wrong) = run.world.wrong() {
        return Err(format!("{trace}{wrong}"));
    }
    if let Some(unserved) = run.world.workflows.iter().find(|w| !w.served) {
        return Err(format!("{trace}{} had no turn", unserved.name));
    }
    let late = ends_at.map(|at| at.saturating_sub(smoothly));
    // Whoever has not confirmed in time is told again by the next sweep.
    let claim = u64::try_from(run.world.settings.claim.as_millis()).unwrap_or(0);
    match late {
        Some(late) if late <= claim + SWEEP => Ok(late),
        Some(late) => Err(format!("{trace}{late} ms late")),
        None => Err(format!("{trace}it has no end")),
    }
}

#[test]
fn whatever_goes_wrong_once_nobody_is_lost_and_everybody_has_its_turn_in_time() {
    for course in [
        Course::Releases,
        Course::ReleasesMutely,
        Course::Fails,
        Course::IsStopped,
        Course::Vanishes,
    ] {
        let mut smooth = Run::new(course, None);
        let smoothly = smooth.ends_at().expect("an end");
        let mut worst = 0;
        for fault in (1..=smooth.steps).flat_map(|step| FAULTS.map(|fault| (step, fault))) {
            let late = delay(course, fault, smoothly, false);
            let late = late.or_else(|_| delay(course, fault, smoothly, true));
            let late = late.unwrap_or_else(|trace| panic!("{trace}\n{course:?}, {fault:?}"));
            worst = worst.max(late);
        }
        assert!(worst > 0, "no fault has any effect");
        println!(
            "{course:?}: {} steps, at worst {worst} ms later",
            smooth.steps
        );
    }
}
