//! The one place that reads the environment.

use std::ffi::OsString;

#[expect(
    clippy::disallowed_methods,
    reason = "the one home of the ambient environment"
)]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The same as text. A value that is not UTF-8 becomes the empty text, which does not parse.
pub(crate) fn text(name: &str) -> Option<String> {
    variable(name).map(|value| value.into_string().unwrap_or_default())
}

/// The default holder: user, host and process id.
pub(crate) fn holder() -> String {
    let user = text("USER").or_else(|| text("LOGNAME"));
    let user = user.unwrap_or_else(|| "somebody".to_owned());
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let holder = format!("{user}@{host}/{}", std::process::id());
    holder.chars().filter(|c| !c.is_control()).collect()
}
