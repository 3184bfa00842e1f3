//! A start is accepted: it gets the key if it is free, else a place in the queue, unless it is not to wait.
//!
//! Its item is written together with its grant or its place, on the condition that there is none, or that it is still the one
//! that was read. So only one of several calls for a start gives it a place, no item waits without one, and what is refused
//! leaves nothing.

use super::{IfHeld, Started, answer_of};
use crate::{
    error::Error,
    leases::Rows,
    queue::{
        Queue,
        ask::{Ask, AskItem, Asked, WhileHeld},
    },
    row::Row,
    start::{StartItem, StartStatus},
    store::{Address, AwaitedResult, Operations, Store},
    transition::{Grant, TakeoverRule, TokenFloor},
    values::{Holder, LeaseId},
};

/// A start that is to be accepted.
#[derive(Clone, Copy)]
pub(super) struct Offer<'a> {
    /// As its item is to be.
    pub(super) item: &'a StartItem,
    /// As it was read: it has failed, or has no place. None for one that nobody has accepted yet.
    pub(super) read: Option<&'a StartItem>,
    /// The task that waits for its result, with the token of this call.
    pub(super) result: Option<&'a AwaitedResult>,
    pub(super) if_held: IfHeld,
    /// The execution of that task.
    pub(super) caller: Option<&'a Holder>,
}

impl<S: Store> Queue<S> {
    pub(super) async fn accept(&self, offer: Offer<'_>) -> Result<Started, Error> {
        let Offer {
            item,
            read,
            result,
            if_held,
            caller,
        } = offer;
        let grant = self.grant_of(item);
        let ask = Ask {
            key: &item.key,
            grant: &grant,
            item: AskItem::Start { item, read, result },
            while_held: match if_held {
                IfHeld::Wait(_) | IfHeld::Latest(_) => WhileHeld::Waits,
                IfHeld::Replace(_) => WhileHeld::Replaces,
                IfHeld::Fail | IfHeld::Skip => WhileHeld::Leaves,
            },
            cap: self.room(item.request.instead_of.is_some()),
            reentrant: false,
            waits: caller,
        };
        match self.ask(ask).await? {
            Asked::Granted(at, row) => {
                let begins = self.begin(&at, &row, item).await?;
                self.answer_of_call(begins, item).await
            }
            Asked::Joined(row, _) => {
                // Nobody is stopped for one that was superseded meanwhile, nor a permit left free that came back.
                if grant.request.permits.is_some() || item.request.instead_of.is_some() {
                    return self.answer_anew(item).await;
                }
                self.answer_waiting(row, item).await
            }
            Asked::Has(..) | Asked::InQueue | Asked::Had => self.was_accepted(offer).await,
            Asked::Found(found) => self.answer_from_item(offer, found).await,
            Asked::Taken(first, rows) => self.skip_or_refuse(offer, &first, &rows, &grant).await,
            Asked::Refused(error) => self.refuse(offer, error).await,
        }
    }

    /// Somebody else has the key, and nobody is to wait.
    async fn skip_or_refuse(
        &self,
        offer: Offer<'_>,
        first: &Row,
        rows: &Rows,
        grant: &Grant,
    ) -> Result<Started, Error> {
        let key = offer.item.key.clone();
        let in_the_way = if let Some(permits) = grant.request.permits {
            self.all_taken(key, permits, rows, grant).await
        } else {
            let (at, holder) = (Address::first(&key), &grant.request.holder);
            self.contention(at, first.clone(), holder).await
        };
        match in_the_way {
            Ok(contention) if offer.if_held == IfHeld::Skip => {
                let skipped = StartItem {
                    status: StartStatus::Skipped,
                    ..offer.item.clone()
                };
                match self.put_alone(&skipped, offer.read).await? {
                    None => Ok(Started::Skipped {
                        execution_arn: skipped.execution(),
                        held: Some(Box::new(contention.held)),
                    }),
                    Some(found) => self.answer_from_item(offer, found).await,
                }
            }
            Ok(held) => self.refuse(offer, Error::Held(Box::new(held))).await,
            // Nobody has it, and its limit is 0.
            Err(error @ Error::Frozen { .. }) => self.refuse(offer, error).await,
            Err(error) => Err(error),
        }
    }

    /// It gets no place now. What was accepted before is answered nevertheless, and what was read stays as it is.
    async fn refuse(&self, offer: Offer<'_>, error: Error) -> Result<Started, Error> {
        if offer.read.is_some() {
            return Err(error);
        }
        match self.stored(offer.item).await? {
            Some(found) => self.answer_from_item(offer, found).await,
            None => Err(error),
        }
    }

    /// The rows know of it: it waits, or has the key, or had it.
    async fn was_accepted(&self, offer: Offer<'_>) -> Result<Started, Error> {
        if let Some(read) = offer.read {
            return self.answer_anew(read).await;
        }
        let mut found = self.stored(offer.item).await?;
        if found.is_none() {
            // It was deleted by hand, or is purged.
            found = self.put_alone(offer.item, None).await?;
        }
        let found = found.unwrap_or_else(|| offer.item.clone());
        self.answer_from_item(offer, found).await
    }

    /// By rows that are read once more; by its item, if it has left them since.
    async fn answer_anew(&self, item: &StartItem) -> Result<Started, Error> {
        match Box::pin(self.answer_by_rows(item)).await? {
            Some(answer) => Ok(answer),
            None => self.as_it_is(item).await,
        }
    }

    /// The item by now.
    pub(super) async fn stored(&self, item: &StartItem) -> Result<Option<StartItem>, Error> {
        let request = item.digest();
        let found = self.store().start_item(&item.key, &request, self.limit());
        found.await
    }

    /// What was accepted before, by another call or an earlier one.
    async fn answer_from_item(&self, offer: Offer<'_>, found: StartItem) -> Result<Started, Error> {
        if !found.is(offer.item) {
            return Err(Error::invalid(
                "name",
                "is in use by another start through this key: with another input, machine or pass_lease",
            ));
        }
        let answer = match answer_of(&found) {
            Some(answer) => answer,
            None => Box::pin(self.asked_again(&found)).await,
        };
        if let (Some(result), Err(refused @ Error::NotStarted { .. })) = (offer.result, &answer) {
            Box::pin(self.tell_refused(&result.item, refused)).await?;
        }
        let answer = answer?;
        // One that is skipped again is answered so at once.
        let is_skipped = offer.if_held == IfHeld::Skip && found.status == StartStatus::Skipped;
        if let Some(result) = offer.result.filter(|_| !is_skipped) {
            self.renew_result(result).await?;
        }
        Ok(answer)
    }

    fn grant_of(&self, item: &StartItem) -> Grant {
        let now = self.now();
        Grant {
            request: item.request.clone(),
            lease_id: LeaseId::random(),
            now,
            over: TakeoverRule::by_clock(self.takeover_deadline()),
            tokens: TokenFloor::Reached(self.settings().token_floor),
            sweep_after: now.plus(self.settings().look),
            by_token: true,
        }
    }
}
