//! A client: section after section, each as it was drawn, until the round is over.

mod holding;
mod line;
mod mutex;
mod set;

use crate::calls::Caller;
use crate::dice::Dice;
use crate::history::Millis;
use crate::keys::PERMITS;
use crate::plan::Section;
use crate::scene::Scene;
use crate::world::{SKEW, ahead};

pub use holding::release;

/// One who asks, holds, works, and is gone.
pub struct Client<'a> {
    /// The round.
    pub scene: &'a Scene,
    /// Which of all.
    pub number: u64,
    /// By how much its clock is ahead.
    pub ahead: Millis,
}

/// Which permits a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One, and nobody says so.
    Mutex,
    /// So many.
    Permits(u16),
}

impl Shape {
    fn permits(self) -> u16 {
        match self {
            Self::Mutex => 1,
            Self::Permits(permits) => permits,
        }
    }
}

impl<'a> Client<'a> {
    /// The client of this number.
    #[must_use]
    pub fn new(scene: &'a Scene, number: u64) -> Self {
        let dice = &mut Dice::new(scene.seed, &[number]);
        // As wrong as the fleets, and no more.
        let off = dice.between(0, SKEW.unsigned_abs());
        let ahead = Millis::try_from(off).unwrap_or(0) - SKEW / 2;
        Self {
            scene,
            number,
            ahead,
        }
    }

    /// Lives through the round.
    pub async fn run(&self) {
        let mut number = 0;
        while !self.scene.is_over() {
            let scene = self.scene;
            let plan = Section::draw(scene.seed, scene.round, self.number, number);
            self.section(&plan).await;
            number += 1;
        }
    }

    async fn section(&self, plan: &Section) {
        let keys = &self.scene.keys;
        let caller = self.caller(plan.number);
        match self.number % 8 {
            0..=3 if plan.hot => {
                let key = plan.pick(&keys.hot);
                self.one(&caller, plan, key, Shape::Mutex).await;
            }
            0..=3 => {
                let key = plan.pick(&keys.plain);
                self.one(&caller, plan, key, Shape::Mutex).await;
            }
            4 => {
                let key = plan.pick(&keys.gone);
                let at = keys.gone.iter().position(|k| k == key).unwrap_or(0);
                let _present = self.scene.gone[at].read().await;
                self.one(&caller, plan, key, Shape::Mutex).await;
            }
            5 => {
                let key = plan.pick(&keys.permits);
                self.one(&caller, plan, key, Shape::Permits(PERMITS)).await;
            }
            6 => self.several(&caller, plan).await,
            _ => self.in_line(&caller, plan).await,
        }
    }

    fn caller(&self, section: u64) -> Caller<'a> {
        let (round, client) = (self.scene.round, self.number);
        let mark = format!("r{round}-c{client}-s{section}. ");
        Caller::new(self.scene, format!("client-{client}"), mark)
    }

    /// The clock of a fleet and its own differ by less than any two may.
    #[must_use]
    pub fn is_within_bounds(&self) -> bool {
        (0..crate::world::FLEETS.len()).all(|fleet| (ahead(fleet) - self.ahead).abs() <= SKEW)
    }
}
