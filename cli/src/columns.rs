//! Tables for people: columns of text, two spaces apart, and nothing else.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

use leasehold_asl::plain;

/// A table that is printed page by page. The columns of later pages are at least as wide as those of the first.
pub(crate) struct Columns {
    header: Vec<&'static str>,
    widths: Vec<u16>,
}

impl Columns {
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.to_vec(),
            widths: Vec::new(),
        }
    }

    /// The lines of a page, with the header if it is the first. Cells are made safe to print.
    pub(crate) fn page(&mut self, rows: &[Vec<String>]) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        let is_first = self.widths.is_empty();
        if is_first && !self.header.is_empty() {
            table.set_header(self.header.clone());
        }
        for row in rows {
            table.add_row(row.iter().map(|cell| plain(cell)));
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

/// Names and values, one pair a line.
pub(crate) fn pairs(rows: Vec<(&str, String)>) -> String {
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    Columns::new(&[]).page(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

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
