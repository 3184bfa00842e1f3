//! How the program ends: its exit codes and its error messages.

use std::fmt::Display;
use std::process::ExitCode;

use leasehold::{Cause, Error};

/// An exit code. `--help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u8);

impl Code {
    pub(crate) const DONE: Self = Self(0);
    pub(crate) const FAILURE: Self = Self(1);
    pub(crate) const USAGE: Self = Self(2);
    pub(crate) const UNREACHABLE: Self = Self(3);
    /// `EX_TEMPFAIL` of `sysexits.h`.
    pub(crate) const HELD: Self = Self(75);
    /// The first code above those of `sysexits.h`.
    pub(crate) const LOST: Self = Self(79);
    pub(crate) const NOT_RUNNABLE: Self = Self(126);
    pub(crate) const NOT_THERE: Self = Self(127);
    /// The reader has closed the pipe: 128 + SIGPIPE.
    pub(crate) const BROKEN_PIPE: Self = Self(141);

    /// The code that a shell reports for a signal.
    pub(crate) fn of_signal(signal: i32) -> Self {
        Self(u8::try_from(128 + signal).unwrap_or(u8::MAX))
    }

    const fn of(error: &Error) -> Self {
        Self(error.kind().exit_code)
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

/// Why the program failed, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    what: String,
    advice: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: Code, what: impl Display) -> Self {
        let what = what.to_string();
        Self {
            code,
            what,
            advice: None,
        }
    }

    pub(crate) fn usage(what: impl Display) -> Self {
        Self::new(Code::USAGE, what)
    }

    pub(crate) fn advice(self, advice: impl Into<String>) -> Self {
        Self {
            advice: Some(advice.into()),
            ..self
        }
    }

    pub(crate) fn code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// What to do about it.
    pub(crate) fn remedy(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self::new(Code::of(&error), in_full(&error));
        let advice = match &error {
            Error::Denied {
                action, resource, ..
            } => format!(
                "this command needs {action} on {resource}; docs/reference/permissions.md lists the actions of every command"
            ),
            Error::Misconfigured { .. } => {
                "check --table, --region and --profile; `leasehold table check` checks the table"
                    .to_owned()
            }
            Error::Unavailable { .. } => {
                "check the network, --region and --endpoint-url, then try again".to_owned()
            }
            Error::Frozen {
                whole_table: true, ..
            } => "wait until the operator of the table's stack deploys it with Grants=open"
                .to_owned(),
            Error::Frozen {
                key,
                record: Some(record),
                ..
            } if record.act == leasehold::Act::Limit => {
                format!("`leasehold limit {key} none --who YOU --why REASON` removes the limit")
            }
            Error::Frozen { key, .. } => {
                format!("`leasehold unfreeze {key} --who YOU --why REASON` allows new grants")
            }
            Error::Corrupt { key, .. } => {
                format!(
                    "inspect the items whose pk is {key} and whose sk begins with LEASE#; leasehold leaves them unchanged"
                )
            }
            Error::NotStarted { .. } => {
                "mend the cause, then repeat the start: `leasehold ls --failed` prints the command"
                    .to_owned()
            }
            Error::Lost { .. } | Error::Expired { .. } => {
                "stop all work under this lease; `leasehold show` names the holder of the key now"
                    .to_owned()
            }
            _ => return failure,
        };
        failure.advice(advice)
    }
}

/// An error with its causes, once each. The chain stops at a `Cause`, which repeats the SDK error below it.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| {
        cause.source().filter(|_| !cause.is::<Cause>())
    });
    causes.fold(error.to_string(), |message, cause| {
        let cause = cause.to_string();
        if message.ends_with(&cause) {
            message
        } else {
            format!("{message}: {cause}")
        }
    })
}

#[cfg(test)]
mod tests {
    use leasehold::ErrorKind;

    use super::*;

    #[test]
    fn exit_codes_match_the_table() {
        for (code, name) in [
            (Code::USAGE, "Lease.Invalid"),
            (Code::UNREACHABLE, "Lease.Unavailable"),
            (Code::HELD, "Lease.Held"),
            (Code::LOST, "Lease.Lost"),
        ] {
            let kind = ErrorKind::ALL.into_iter().find(|kind| kind.name == name);
            assert_eq!(kind.map(|kind| kind.exit_code), Some(code.0), "{name}");
        }
    }
}
