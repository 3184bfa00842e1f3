//! A list of leases that is read page by page.

use std::io::IsTerminal as _;

use leasehold::{Cursor, Error, Holder, LeasePage, LeaseView};

use crate::connect::TableClient;
use crate::exit::Failure;

/// Rows per page.
const PAGE: u32 = 100;

/// A list that is read page by page from the table.
pub(crate) struct Pages<'a> {
    of: Option<&'a Holder>,
    cursor: Option<Cursor>,
    is_over: bool,
    read: usize,
    shown: bool,
}

impl<'a> Pages<'a> {
    /// The leases of this holder, or of all holders.
    pub(crate) const fn of(holder: Option<&'a Holder>) -> Self {
        Self {
            of: holder,
            cursor: None,
            is_over: false,
            read: 0,
            shown: false,
        }
    }

    pub(crate) async fn next(
        &mut self,
        table_client: &TableClient,
    ) -> Result<Option<Vec<LeaseView>>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        let cursor = self.cursor.take();
        let LeasePage { leases, cursor } = match self.of {
            Some(holder) => table_client.leases.held_by(holder, PAGE, cursor).await,
            None => table_client.leases.list(PAGE, cursor).await,
        }
        .map_err(Error::of_a_read)?;
        self.is_over = cursor.is_none();
        self.cursor = cursor;
        self.read += leases.len();
        Ok(Some(leases))
    }

    pub(crate) async fn all(
        mut self,
        table_client: &TableClient,
    ) -> Result<Vec<LeaseView>, Failure> {
        let mut all = Vec::new();
        while let Some(page) = self.next(table_client).await? {
            all.extend(page);
            self.show_progress(false);
        }
        self.end_progress();
        all.sort_by(|a, b| (&a.key, a.permit).cmp(&(&b.key, b.permit)));
        Ok(all)
    }

    /// Shows progress on standard error if that is a terminal and standard output is not.
    pub(crate) fn show_progress(&mut self, quiet: bool) {
        let watched = std::io::stderr().is_terminal() && !std::io::stdout().is_terminal();
        if watched && !quiet && !self.is_over {
            eprint!("\r{} leases read", self.read);
            self.shown = true;
        }
    }

    pub(crate) fn end_progress(&self) {
        if self.shown {
            eprint!("\r\u{1b}[K");
        }
    }
}
