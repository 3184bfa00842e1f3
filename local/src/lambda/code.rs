//! What runs when a function is invoked.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;

use hyper::Uri;

/// A function's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// A binary that polls the Runtime API, with Lambda's environment and no other.
    Binary(PathBuf),
    /// A command of the shell that polls the Runtime API, such as `python -m awslambdaric app.handler`. It also has the
    /// environment of this process.
    Command(String),
    /// A server that gets each event by POST, such as Lambda's container images and `sam local start-lambda`.
    Url(Uri),
}

impl Display for Code {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binary(path) => path.display().fmt(f),
            Self::Command(command) => command.fmt(f),
            Self::Url(url) => url.fmt(f),
        }
    }
}

impl FromStr for Code {
    type Err = String;

    /// A text that begins with `http://` is a URL, any other a command.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("expected a command or a URL".to_owned());
        }
        if text.starts_with("https://") {
            return Err("only http:// is possible, for a server on this machine".to_owned());
        }
        if !text.starts_with("http://") {
            return Ok(Self::Command(text.to_owned()));
        }
        let url: Uri = text
            .parse()
            .map_err(|error| format!("{text} is no URL: {error}"))?;
        Ok(Self::Url(url))
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn url_is_told_from_command() {
        assert!(matches!(
            "http://127.0.0.1:9000/invoke".parse(),
            Ok(Code::Url(_))
        ));
        let command = "python -m awslambdaric app.handler";
        assert_eq!(command.parse(), Ok(Code::Command(command.to_owned())));
        for refused in ["", " ", "https://example.org", "http://a b"] {
            assert!(refused.parse::<Code>().is_err(), "{refused:?}");
        }
    }
}
