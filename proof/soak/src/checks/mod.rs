//! The promises that a history shows without looking for an order.

mod alone;
mod fence;
mod line;
mod order;
mod secrets;
mod strangers;
#[cfg(test)]
mod tests;
mod tokens;

pub use alone::alone;
pub use fence::{fence, lost_without};
pub use line::line;
pub use order::order;
pub use secrets::secrets;
pub use strangers::Strangers;
pub use tokens::tokens;

use crate::history::Op;

/// As many calls as help.
const AROUND: usize = 14;

/// The calls around one of them, as lines.
fn around(ops: &[Op], at: usize) -> Vec<String> {
    let here = &ops[at];
    let mut near: Vec<&Op> = ops
        .iter()
        .filter(|op| op.begin <= here.end && op.end + 4_000_000 >= here.begin)
        .collect();
    near.sort_by_key(|op| op.begin);
    let from = near.len().saturating_sub(AROUND);
    let line = |op: &&Op| {
        let mark = if std::ptr::eq(*op, here) { ">" } else { " " };
        format!("{mark} {op}")
    };
    near[from..].iter().map(line).collect()
}
