//! Brings everybody into line, gives the key free, stops two, and watches until nothing is left.

use std::time::Duration;

use aws_sdk_sfn::error::DisplayErrorContext;
use leasehold_local::{Error, Outcome, Stack};
use serde_json::{Value, json};

use super::super::facts;
use super::super::resource;
use super::cast::{self, KEY, Part};
use super::evidence::{Evidence, Turn, Waiter, turns};
use super::line::Line;
use super::story::Story;
use super::told::Told;

/// How often the resource and the table are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a place in line may take to be seen.
const JOIN_LIMIT_MS: u64 = 20_000;
/// When the act stops to wait for turns; who had none then was lost.
const PATIENCE_MS: u64 = 90_000;
/// How long sweep may take to clear up afterwards.
const CLEAR_LIMIT_MS: u64 = 20_000;
/// How long the stopped holder is inside before it is stopped: longer than clocks may be apart, lest its lease look as if it were
/// written by a redrive.
const STOP_INSIDE: Duration = Duration::from_millis(1000);

/// What the act is played with.
pub(super) struct Director<'a> {
    pub(super) stack: &'a Stack,
    pub(super) sfn: aws_sdk_sfn::Client,
    /// ARN of the state machine that waits in line.
    pub(super) machine: String,
}

impl Director<'_> {
    /// Takes the key, as any client of the function would.
    pub(super) async fn take_key(&self) -> Result<Value, Error> {
        let request =
            json!({"key": KEY, "holder": "demo", "request_id": "demo", "ttl_seconds": 300});
        let answer = self.invoke("acquire", &request).await?;
        Ok(answer["lease"].clone())
    }

    /// Starts everybody, each once the one before stands in line.
    pub(super) async fn line_up(&self) -> Result<Vec<Waiter>, Error> {
        let mut waiters = Vec::new();
        for role in cast::cast() {
            let start = self.sfn.start_execution().state_machine_arn(&self.machine);
            let started = start
                .name(&role.name)
                .input(role.input().to_string())
                .send()
                .await
                .map_err(|error| failed("StartExecution", &error))?;
            let arn = started.execution_arn().to_owned();
            let began = facts::now();
            while !Line::look(self.stack).await?.order.contains(&arn) {
                if facts::now() - began > JOIN_LIMIT_MS {
                    return Err(Error::Call {
                        what: format!("wait until {} stands in line", role.name),
                        message: format!("it did not within {JOIN_LIMIT_MS} ms; see the logs"),
                    });
                }
                tokio::time::sleep(LOOK_EVERY / 2).await;
            }
            waiters.push(Waiter {
                name: role.name,
                arn,
                part: role.part,
                stopped: None,
                story: Story::default(),
            });
        }
        Ok(waiters)
    }

    /// Gives the key back, and sees to it that everybody has a turn but the one who is stopped before.
    pub(super) async fn play(
        &self,
        lease: &Value,
        evidence: &mut Evidence,
        told: &Told,
    ) -> Result<(), Error> {
        evidence.given_back = facts::now();
        self.invoke("release", &json!({"lease": lease})).await?;
        let mut seen = 0;
        let mut running = 0;
        while facts::now() - evidence.given_back < PATIENCE_MS {
            evidence.audit = resource::audit(self.stack, &[KEY]).await?;
            let turns = turns(&evidence.audit.writes);
            for number in seen..turns.len() {
                told.turn(evidence, &turns, number);
                self.react(evidence, &turns[number], number, told).await?;
            }
            seen = turns.len();
            self.watch_place(evidence, told).await?;
            // One question at a time: they end one after the other.
            let Some(next) = evidence.waiters.get(running) else {
                break;
            };
            if self.has_ended(&next.arn).await? {
                running += 1;
            } else {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        self.wait_until_clear(evidence).await?;
        evidence.audit = resource::audit(self.stack, &[KEY]).await?;
        for waiter in &mut evidence.waiters {
            waiter.story = Story::ask(&self.sfn, &waiter.arn).await?;
        }
        Ok(())
    }

    /// Stops whoever is to be stopped now.
    async fn react(
        &self,
        evidence: &mut Evidence,
        turn: &Turn,
        number: usize,
        told: &Told,
    ) -> Result<(), Error> {
        let holding = evidence.index_of(Part::StoppedHolding);
        let waiting = evidence.index_of(Part::StoppedWaiting);
        let inside = holding.filter(|index| evidence.waiters[*index].arn == turn.holder);
        if let Some(index) = inside {
            tokio::time::sleep(STOP_INSIDE).await;
            self.stop(&mut evidence.waiters[index]).await?;
            told.stopped(evidence, index);
        }
        if let Some(index) = waiting.filter(|_| number + 1 == cast::STOP_AFTER_TURNS) {
            self.stop(&mut evidence.waiters[index]).await?;
            told.stopped(evidence, index);
        }
        Ok(())
    }

    async fn stop(&self, waiter: &mut Waiter) -> Result<(), Error> {
        waiter.stopped = Some(facts::now());
        let stop = self.sfn.stop_execution().execution_arn(&waiter.arn);
        let stopped = stop.cause("the demo stops it").send().await;
        stopped.map_err(|error| failed("StopExecution", &error))?;
        Ok(())
    }

    /// Notices when who was stopped waiting stands in line no more.
    async fn watch_place(&self, evidence: &mut Evidence, told: &Told) -> Result<(), Error> {
        let waiter = evidence.with_part(Part::StoppedWaiting);
        let Some(waiter) = waiter.filter(|one| one.stopped.is_some()) else {
            return Ok(());
        };
        if evidence.place_gone.is_none() && Line::look(self.stack).await?.is_without(&waiter.arn) {
            evidence.place_gone = Some(facts::now());
            told.place_gone(evidence);
        }
        Ok(())
    }

    async fn has_ended(&self, arn: &str) -> Result<bool, Error> {
        let described = self.sfn.describe_execution().execution_arn(arn).send();
        let described = described
            .await
            .map_err(|error| failed("DescribeExecution", &error))?;
        Ok(described.status().as_str() != "RUNNING")
    }

    /// Sweep clears what is left of those who were served.
    async fn wait_until_clear(&self, evidence: &mut Evidence) -> Result<(), Error> {
        let began = facts::now();
        loop {
            let line = Line::look(self.stack).await?;
            let clear = line.is_empty();
            evidence.at_last = (facts::now(), line);
            if clear || facts::now() - began > CLEAR_LIMIT_MS {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn invoke(&self, verb: &str, request: &Value) -> Result<Value, Error> {
        let request = request.to_string();
        let invoked = self.stack.functions().invoke(verb, &request).await?;
        let message = match invoked.outcome {
            Outcome::Answer(text) => match serde_json::from_str(&text) {
                Ok(answer) => return Ok(answer),
                Err(error) => error.to_string(),
            },
            Outcome::FunctionError(text) => text,
            Outcome::Throttled => "throttled".to_owned(),
        };
        Err(Error::Call {
            what: format!("invoke {verb}"),
            message,
        })
    }
}

fn failed(what: &str, error: &(impl std::error::Error + 'static)) -> Error {
    Error::Call {
        what: what.to_owned(),
        message: DisplayErrorContext(error).to_string(),
    }
}
