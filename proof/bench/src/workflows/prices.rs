//! What is paid for, and the price list.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::error::io;

const SHIPPED: &str = include_str!("../../prices.json");

/// A price list, and what is assumed where no count helps.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Where these prices hold.
    pub region: String,
    /// In which money they are.
    pub currency: String,
    /// When they held.
    pub date: String,
    /// Where they are from.
    pub source: String,
    /// A million write units on demand.
    pub million_write_units: f64,
    /// A million read units on demand.
    pub million_read_units: f64,
    /// A million invocations.
    pub million_invocations: f64,
    /// A gigabyte of a function's memory for a second.
    pub gigabyte_second: f64,
    /// A million state transitions of Standard workflows.
    pub million_transitions: f64,
    /// What is not counted here.
    pub assumed: Assumed,
}

/// What a function is billed for, which only the service can tell.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumed {
    /// The memory of a function, as in the template.
    pub memory_mb: f64,
    /// How long it runs, a warm one: about one request to the database.
    pub billed_ms: f64,
}

impl Prices {
    /// Those of `file`, or else the ones in the repository.
    pub(super) fn read(file: Option<&Path>) -> Result<Self, Error> {
        let text = match file {
            Some(file) => {
                let what = format!("read {}", file.display());
                std::fs::read_to_string(file).map_err(io(what))?
            }
            None => SHIPPED.to_owned(),
        };
        let what = file.map_or("the prices".to_owned(), |file| file.display().to_string());
        serde_json::from_str(&text)
            .map_err(|error| super::stage::failed(format!("{what}: {error}")))
    }
}

/// What is paid for, of one section or of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bill {
    /// State transitions.
    pub transitions: f64,
    /// Invocations of functions.
    pub invocations: f64,
    /// Write units.
    pub write_units: f64,
    /// Read units.
    pub read_units: f64,
}

impl Bill {
    /// What a million of these costs.
    #[must_use]
    pub fn million(&self, prices: &Prices) -> f64 {
        let assumed = prices.assumed;
        let gigabyte_seconds = assumed.memory_mb / 1024.0 * assumed.billed_ms / 1000.0;
        self.transitions * prices.million_transitions
            + self.invocations
                * (prices.million_invocations + gigabyte_seconds * 1e6 * prices.gigabyte_second)
            + self.write_units * prices.million_write_units
            + self.read_units * prices.million_read_units
    }

    /// What is left when `part` is not paid for.
    #[must_use]
    pub fn less(&self, part: &Self) -> Self {
        Self {
            transitions: self.transitions - part.transitions,
            invocations: self.invocations - part.invocations,
            write_units: self.write_units - part.write_units,
            read_units: self.read_units - part.read_units,
        }
    }

    /// One of so many.
    #[must_use]
    pub fn each(&self, sections: f64) -> Self {
        Self {
            transitions: self.transitions / sections,
            invocations: self.invocations / sections,
            write_units: self.write_units / sections,
            read_units: self.read_units / sections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_is_paid_by_the_list() {
        let prices = Prices::read(None).unwrap();
        let bill = Bill {
            transitions: 2.0,
            invocations: 2.0,
            write_units: 4.0,
            read_units: 8.0,
        };
        // 50 + 0.4 + 2 * 0.005 GB-s * 13.3334 + 2.5 + 1.
        let expected = 53.9 + 0.133_334;
        assert!((bill.million(&prices) - expected).abs() < 1e-9);
        assert_eq!(bill.less(&bill), Bill::default());
        assert!((bill.each(2.0).write_units - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_list_says_when_and_where_it_held() {
        let prices = Prices::read(None).unwrap();
        assert_eq!((&*prices.region, &*prices.currency), ("us-east-1", "USD"));
        assert_eq!(prices.date.len(), "2025-07-21".len());
    }

    #[test]
    fn another_list_has_to_be_one() {
        let missing = Prices::read(Some(Path::new("/nowhere/prices.json")));
        assert!(missing.unwrap_err().to_string().contains("prices.json"));
    }
}
