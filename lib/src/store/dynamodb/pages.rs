//! Pages of the index.

use std::collections::HashMap;

use crate::{
    row::{Item, s, text},
    store::{Entry, Page, Position, What, attributes as at, sweep_after, what},
};

pub(super) fn page(items: &[Item], last: Option<&Item>) -> Page {
    let place = |item: &Item| {
        Some((
            text(item, at::PK)?.to_owned(),
            text(item, at::SK)?.to_owned(),
        ))
    };
    Page {
        entries: items
            .iter()
            .map(|item| Entry {
                what: place(item).map_or(What::Foreign, |(pk, sk)| what(&pk, &sk)),
                sweep_after: sweep_after(item),
            })
            .collect(),
        next: last.and_then(|item| {
            let (pk, sk) = place(item)?;
            let holder = text(item, at::HOLDER)?.to_owned();
            Some(Position { holder, pk, sk })
        }),
    }
}

pub(super) fn start_key(position: &Position) -> Item {
    HashMap::from([
        (at::HOLDER.to_owned(), s(&position.holder)),
        (at::PK.to_owned(), s(&position.pk)),
        (at::SK.to_owned(), s(&position.sk)),
    ])
}
