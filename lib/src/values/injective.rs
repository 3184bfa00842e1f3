//! No two names share an address or a digest: what is written of them can be read back, and nothing else is read as
//! the same.

use proptest::prelude::*;

use super::{Key, framed};
use crate::{
    row::attributes as at,
    store::{Address, What, what},
    values::{Holder, RequestDigest, RequestId},
};

/// Texts that look like each other, like a separator or a length, or like nothing; short, so that they meet.
fn text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        "\u{e9}",
        "e\u{301}",
        "\u{202e}",
        "\u{200b}",
        "\u{feff}",
        "\u{0}",
        "\u{1}",
        "\u{8}",
        "\n",
        "\u{7f}",
        "#",
        "/",
        "|",
        "\"",
        "\\",
        "LEASE#",
        "WAIT#",
        "0000",
        "\u{10ffff}",
        "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{1}",
    ]);
    let parts = prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat());
    prop_oneof![8 => parts, 1 => any::<String>(), 1 => Just("\u{e9}".repeat(512)), 1 => Just("k".repeat(1024))]
}

/// The parts of a frame, if it is one.
fn unframed(mut frame: &[u8]) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = frame.split_first_chunk() {
        let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
        let (part, rest) = rest.split_at_checked(length)?;
        parts.push(String::from_utf8(part.to_vec()).ok()?);
        frame = rest;
    }
    frame.is_empty().then_some(parts)
}

proptest! {
    // What can be read back has no twin: the digest is taken of that.
    #[test]
    fn parts_can_be_told_from_their_frame(parts in prop::collection::vec(text(), 0..5)) {
        let frame = framed(parts.iter().map(String::as_str));
        prop_assert_eq!(unframed(&frame), Some(parts));
    }

    #[test]
    fn a_request_has_a_digest_of_its_own(one in [text(), text()], other in [text(), text()], cut in 0_usize..9) {
        // The other's parts, or one's own, parted elsewhere.
        let whole = one.concat();
        let parted = whole.char_indices().map(|(at, _)| whole.split_at(at)).nth(cut);
        for other in [Some((other[0].as_str(), other[1].as_str())), parted].into_iter().flatten() {
            let digest = |holder: &str, id: &str| {
                Some(RequestDigest::of(&Holder::new(holder).ok()?, &RequestId::new(id).ok()?))
            };
            let (ours, theirs) = (digest(&one[0], &one[1]), digest(other.0, other.1));
            if ours.is_some() && theirs.is_some() {
                prop_assert_eq!(ours == theirs, (one[0].as_str(), one[1].as_str()) == other);
            }
        }
    }

    #[test]
    fn an_item_is_known_by_its_address(key in text(), permit in 0_u16..1000, id in text()) {
        let Ok(key) = Key::new(key) else { return Ok(()) };
        let address = Address { key: key.clone(), permit };
        prop_assert_eq!(what(key.as_str(), &at::lease_sk(permit)), What::Lease(address));
        let (Ok(holder), Ok(id)) = (Holder::new(id.clone()), RequestId::new(id)) else { return Ok(()) };
        let request = RequestDigest::of(&holder, &id);
        prop_assert_eq!(what(key.as_str(), &at::wait_sk(&request)), What::Waiter(key, request));
    }

    // Otherwise two items would be one lease's.
    #[test]
    fn what_is_read_as_an_address_is_written_so(
        sk in prop_oneof![
            "LEASE#[0-9+ \\-a]{0,6}", "WAIT#[0-9a-fA-F]{31,33}", "WAIT#[0-9a-f]{32}\\PC{0,1}", "(LEASE|WAIT)#\\PC{0,5}",
            text(),
        ],
    ) {
        match what("k", &sk) {
            What::Lease(address) => prop_assert_eq!(at::lease_sk(address.permit), sk),
            What::Waiter(_, request) => prop_assert_eq!(at::wait_sk(&request), sk),
            What::Foreign => {}
        }
    }
}
