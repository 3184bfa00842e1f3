//! What is transferred.

pub const ACCOUNTS: u32 = 10;

#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub accounts: [usize; 2],
    pub amount: i64,
}

/// Not random, but all over the place: the same seed, the same transfers.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    pub fn transfer(&mut self) -> Transfer {
        let accounts = u64::from(ACCOUNTS);
        let from = self.roll(accounts);
        let to = (from + 1 + self.roll(accounts - 1)) % accounts;
        Transfer {
            accounts: [from, to].map(|account| usize::try_from(account).unwrap()),
            amount: i64::try_from(1 + self.roll(300)).unwrap(),
        }
    }
}
