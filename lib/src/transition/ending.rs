//! How a grant is shortened, and how it ends.

use super::{Cut, End, Next, Of, Release, line, owned, succeeded};
use crate::{
    outcomes::Ended,
    row::{Holding, Row, State},
};

pub(super) fn shortened(row: &Row, cut: &Cut) -> Option<Row> {
    let held = row.holding().filter(|_| row.version == cut.version)?;
    (held.expires_at > cut.expires_at).then(|| Row {
        version: row.version.plus(1),
        state: State::Held(Holding {
            expires_at: cut.expires_at,
            sweep_after: Some(cut.sweep_after),
            ..held.clone()
        }),
        ..row.clone()
    })
}

pub(super) fn released(row: &Row, release: &Release) -> Option<Row> {
    release.next.suits(row)?;
    let (lease_id, token) = (&release.lease_id, release.fencing_token);
    let row = match &release.of {
        Of::Grant => {
            owned(row, lease_id, token)?;
            row
        }
        Of::Reservation(holder) => {
            let reserved = line::kept(row, lease_id, token)?;
            // One write, of which the end is what counts: one version.
            &Row {
                version: row.version,
                ..succeeded(row, holder, &reserved.request, token)
            }
        }
    };
    ended(row, release.ended, release.purge_at, &release.next)
}

pub(super) fn ended_as_read(row: &Row, end: &End) -> Option<Row> {
    end.next.suits(row)?;
    row.holding().filter(|_| row.version == end.version)?;
    ended(row, end.ended, end.purge_at, &end.next)
}

/// A row whose last grant, the one of its token, has ended like this.
fn ended(row: &Row, ended: Ended, purge_at: u64, next: &Next) -> Option<Row> {
    let free = Row {
        version: row.version.plus(1),
        purge_at: row.purge_at.or(Some(purge_at)),
        state: State::Free {
            ended,
            last_token: row.fencing_token,
            reserved: None,
        },
        ..row.clone()
    };
    match next {
        Next::Later => Some(free),
        Next::Is(heir) => line::kept_for_the_first(free, heir),
    }
}
