//! What a service on this machine listens with. A [`Listener`] is bound first, so that every address is known before anything is
//! built. A service is the routes that a listener [serves](Listener::serve), behind a [`Guard`], and a [`Server`], which ends it when
//! it is dropped.

#[cfg(feature = "server")]
mod guard;
#[cfg(feature = "server")]
mod listener;
mod shell;
mod signals;

#[cfg(feature = "server")]
pub use guard::{Guard, Place, Site};
#[cfg(feature = "server")]
pub use listener::{Connection, Listener, Server};
pub use shell::quoted;
pub use signals::Signals;
