use super::Count;
use crate::tree::Tree;
pub fn run(_: &Tree, _: &str, _: &str) -> Result<Count, String> {
    Ok(Count::default())
}
