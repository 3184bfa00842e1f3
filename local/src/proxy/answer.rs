//! The body of a response, whole or cut in half.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// Either everything, or a first part after which the connection breaks.
#[derive(Debug)]
pub(super) enum AnswerBody {
    Whole(Option<Bytes>),
    /// The body yields the first part, waits one turn so that it is flushed, and then fails.
    Cut {
        first: Option<Bytes>,
        flushed: bool,
    },
}

impl AnswerBody {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    pub(super) fn half(bytes: &Bytes) -> Self {
        Self::Cut {
            first: Some(bytes.slice(..bytes.len() / 2)),
            flushed: false,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Cut { first, flushed } => {
                if let Some(bytes) = first.take() {
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                if !*flushed {
                    *flushed = true;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Some(Err(std::io::Error::other(
                    "injected: the answer was cut in half",
                ))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Cut { .. } => SizeHint::default(),
        }
    }
}
