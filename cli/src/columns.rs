//! What people are shown, as names with values and as tables. On a terminal: columns of text, two spaces apart, and nothing else.

use std::fmt::{self, Display, Formatter};
use std::io::IsTerminal as _;

use comfy_table::{ColumnConstraint, ContentArrangement, Width, presets};
use leasehold::{Holder, Timestamp};
use leasehold_asl::plain;

use crate::durations::when;

/// A value beside a name, or in a table. The console makes links of holders, and shows the dates of instants.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Holder(Holder),
    /// An instant, and the time now.
    At(Timestamp, Timestamp),
}

impl Value {
    pub(crate) fn holder(holder: Option<&Holder>) -> Self {
        holder.map_or_else(|| "".into(), |holder| Self::Holder(holder.clone()))
    }

    pub(crate) fn at(at: Option<Timestamp>, now: Timestamp) -> Self {
        at.map_or_else(|| "".into(), |at| Self::At(at, now))
    }
}

impl<T: Into<String>> From<T> for Value {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Holder(holder) => write!(f, "{holder}"),
            Self::At(at, now) => f.write_str(&when(*at, *now)),
        }
    }
}

/// A name and its value.
pub(crate) type Fact = (&'static str, Value);

/// A table that the terminal and the console show.
pub(crate) struct Table {
    pub(crate) header: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&Columns::new(&self.header).page(&self.rows))
    }
}

/// The columns with holders.
const HOLDERS: [&str; 2] = ["HOLDER", "WHO"];

/// A table that is printed page by page. The columns of later pages are at least as wide as those of the first.
pub(crate) struct Columns {
    header: Vec<String>,
    widths: Vec<u16>,
    is_cut: bool,
}

impl Columns {
    /// On a terminal, where a row is to fit, a holder that is an execution's ARN is cut to its machine and name.
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.iter().map(|name| name.to_uppercase()).collect(),
            widths: Vec::new(),
            is_cut: std::io::stdout().is_terminal(),
        }
    }

    fn cell(&self, text: &str, column: usize) -> String {
        let is_holder = self
            .header
            .get(column)
            .is_some_and(|name| HOLDERS.contains(&&**name));
        let cut = machine_and_name(text).filter(|_| self.is_cut && is_holder);
        plain(cut.unwrap_or(text))
    }

    /// The lines of a page, with the header if it is the first. Cells are made safe to print.
    pub(crate) fn page(&mut self, rows: &[Vec<impl Display>]) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        let is_first = self.widths.is_empty();
        if is_first && !self.header.is_empty() {
            table.set_header(self.header.clone());
        }
        for row in rows {
            let cells = row.iter().zip(0..);
            table.add_row(cells.map(|(cell, at)| self.cell(&cell.to_string(), at)));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if let Some(width) = self.widths.get(index) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width + 2)));
            }
        }
        if is_first {
            self.widths = table.column_max_content_widths();
        }
        let lines: Vec<_> = table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        lines.join("\n")
    }
}

/// The machine and the name of an execution, or the function of a durable one.
pub(crate) fn machine_and_name(arn: &str) -> Option<&str> {
    let rest = arn.strip_prefix("arn:")?;
    let kinds = [":execution:", ":function:"].iter();
    kinds
        .filter_map(|kind| rest.split_once(kind))
        .map(|(_, name)| name)
        .next()
}

/// Names and values, one pair a line.
pub(crate) fn pairs(facts: Vec<Fact>) -> String {
    let rows: Vec<_> = facts
        .into_iter()
        .map(|(name, value)| vec![name.into(), value])
        .collect();
    Columns::new(&[]).page(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arn_is_cut_to_fit() {
        let arn = "arn:aws:states:eu-west-1:123456789012:execution:orders:7f3c";
        for (is_cut, shown) in [(false, arn), (true, "orders:7f3c")] {
            let mut columns = Columns::new(&["KEY", "WHO"]);
            columns.is_cut = is_cut;
            let page = columns.page(&[vec![arn.to_owned(), arn.to_owned()]]);
            // A key may be one too, and is copied.
            let row = format!("{arn}  {shown}");
            assert_eq!(page.lines().nth(1), Some(row.as_str()));
        }
        assert_eq!(machine_and_name("worker 7"), None);
    }

    #[test]
    fn later_pages_stand_below_the_first() {
        let mut columns = Columns::new(&["KEY", "HOLDER"]);
        let row = |key: &str, holder: &str| vec![key.to_owned(), holder.to_owned()];
        assert_eq!(
            columns.page(&[row("orders/42", "worker\u{1b}")]),
            "KEY        HOLDER\norders/42  worker\\u001b"
        );
        assert_eq!(columns.page(&[row("k", "w")]), "k          w");
        assert_eq!(
            columns.page(&[row("much/longer/key", "w")]),
            "much/longer/key  w"
        );
    }
}
