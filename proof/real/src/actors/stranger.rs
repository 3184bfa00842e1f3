//! Somebody else, who has put items of its own where lease rows would be.

use leasehold_proof::fixture::{ROW, n, s};
use serde_json::json;

use crate::call::Answer;
use crate::plan::Step;
use crate::promises::What;
use crate::round::Round;

/// One item.
pub struct Stranger {
    key: String,
}

impl Stranger {
    /// Puts one without anything, one with a token that is none, and one that looks held and expired.
    pub async fn put(round: &Round) -> Vec<Self> {
        let kinds = [
            vec![],
            vec![("fencing_token", s("seven")), ("version", n("7"))],
            vec![
                ("holder", s("somebody")),
                ("expires_at", n("1")),
                ("fencing_token", n("-3")),
                ("version", n("3")),
                ("sweep_after", n("1")),
            ],
        ];
        let mut all = Vec::new();
        for (number, kind) in kinds.into_iter().enumerate() {
            let key = format!("round-{}/strange-{number}", round.number);
            let kind = kind
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value));
            round.world.items.put(&key, ROW, kind.collect()).await;
            let stranger = Self { key };
            stranger.look(round).await;
            all.push(stranger);
        }
        all
    }

    /// Asks for the key, and looks what the item is now.
    pub async fn see(&self, round: &Round) {
        let who = "who asks for an item that is no lease";
        let payload = json!({"key": self.key, "holder": who, "ttl_seconds": 1});
        let call = round.call(who, "acquire", Step::CLEAN, &payload, "");
        match call.await.answer {
            Answer::Error(name, _) if name == "Lease.Corrupt" => {}
            answer => round.unknown(who, "acquire", &answer, ()),
        }
        self.look(round).await;
    }

    async fn look(&self, round: &Round) {
        let item = round.world.items.get(&self.key, ROW).await;
        let mut item: Vec<_> = item.unwrap_or_default().into_iter().collect();
        item.sort_by(|(one, _), (other, _)| one.cmp(other));
        let item = What::Item(format!("{item:?}"));
        round.see(round.now(), &self.key, "", item);
    }
}
