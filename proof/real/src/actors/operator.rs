//! An operator, who inspects keys, and now and then evicts a holder.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{keys, of_kinds};
use crate::call::Answer;
use crate::plan::{Step, choose, percent, seeded};
use crate::promises::What;
use crate::round::Round;
use crate::watch::sleep_ms;

const WHO: &str = "an operator";

/// Until the round is over.
pub(super) async fn live(round: Arc<Round>) {
    let rng = &mut seeded(round.seed, &[round.number, 0x0b5e]);
    let (all, evicted) = (keys(round.number), of_kinds(&round, &["key", "queue"]));
    while !round.is_over() {
        sleep_ms(rng.u64(50..=250)).await;
        let evicts = percent(rng, 25);
        let (key, _) = choose(rng, if evicts { &evicted } else { &all });
        let shown = call(&round, "inspect", &json!({"key": key})).await;
        let lease = &shown["lease"];
        let token = lease["fencing_token"].as_u64().filter(|_| evicts);
        let Some((token, holder)) = token.zip(lease["holder"].as_str()) else {
            continue;
        };
        round.see(round.now(), &key, holder, What::Left { token });
        let force = json!({
            "operation": "force_release",
            "key": key,
            "who": WHO,
            "why": "to see what becomes of it",
            "fencing_token": token,
        });
        call(&round, "operate", &force).await;
    }
}

async fn call(round: &Round, verb: &str, payload: &Value) -> Value {
    match round.call(WHO, verb, Step::CLEAN, payload, "").await.answer {
        Answer::Well(answer) => {
            round.read(verb, answer.to_string());
            answer
        }
        answer => round.unknown(WHO, verb, &answer, Value::Null),
    }
}
