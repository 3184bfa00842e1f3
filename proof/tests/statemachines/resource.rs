//! The audit: what the resource says about who was inside.

use crate::world::World;

impl World {
    /// Checks that nobody was ever inside together with somebody else, and that tokens only grew; how many
    /// writes there were.
    pub async fn audit(&self, key: &str) -> usize {
        assert_eq!(self.overlaps(key).await, 0, "two were inside {key}");
        let entries = self.entries(key).await;
        let (mut inside, mut highest) = (None, 0);
        for entry in &entries {
            let number = |name: &str| entry[name].as_n().unwrap().parse::<u64>().unwrap();
            let token = number("token");
            assert!(token >= highest, "token {token} after {highest} in {key}");
            highest = token;
            match entry["op"].as_s().unwrap().as_str() {
                // A newer token may find an older occupant only when that one's time was over: else it was refused.
                "enter" => inside = Some(token),
                "leave" => {
                    assert!(
                        inside.is_none_or(|t| t == token),
                        "{token} left {inside:?} in {key}"
                    );
                    inside = None;
                }
                op => panic!("unknown op {op}"),
            }
        }
        entries.len()
    }
}
