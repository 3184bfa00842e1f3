//! Step Functions: executions by their names, and what it says of them.

use super::{
    design::{Input, Said},
    rows::{self, Count, Tick},
};

/// The input of an execution that somebody else began under a start's name.
pub const FOREIGN: Input = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    Unknown,
    Running,
    Succeeded,
    Failed,
}

/// Why an execution may run without its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exempt {
    No,
    /// An operator took it.
    Forced,
    /// It gave its lease back.
    Released,
    /// It was redriven, and had not asked to keep its lease, or not for so long.
    Redriven,
}

/// The execution that has a start's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Execution {
    pub status: Status,
    /// When that changed last.
    pub at: Tick,
    /// What else it was since the tick began, as bits.
    earlier: u8,
    pub input: Input,
    /// The token of the lease that was passed to it.
    pub passed: Count,
    pub stopped: Tick,
    pub exempt: Exempt,
    /// It is over for so long that the service does not know it any more.
    pub forgotten: bool,
}

/// The answer to `StartExecution`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Began {
    /// It runs under this name, with this input.
    Yes,
    /// Its name is in use: by an execution that is over, or by one with another input.
    Exists,
}

impl Execution {
    pub const NONE: Self = Self {
        status: Status::Unknown,
        at: -9,
        earlier: 0,
        input: 0,
        passed: 0,
        stopped: -9,
        exempt: Exempt::No,
        forgotten: false,
    };

    pub const fn foreign(status: Status) -> Self {
        Self {
            status,
            input: FOREIGN,
            ..Self::NONE
        }
    }

    /// One that was begun with this input.
    pub fn ran(self, input: Input) -> bool {
        (self.status != Status::Unknown || self.forgotten) && self.input == input
    }

    pub fn runs(self) -> bool {
        self.status == Status::Running
    }

    pub fn is_ours(self) -> bool {
        self.status != Status::Unknown && self.input != FOREIGN
    }

    /// The service begins it, unless its name is in use.
    pub fn begin(&mut self, (input, passed): (Input, Count), now: Tick) -> Began {
        match self.status {
            Status::Unknown => {
                (self.input, self.passed) = (input, passed);
                self.becomes(Status::Running, now);
                Began::Yes
            }
            Status::Running if (self.input, self.passed) == (input, passed) => Began::Yes,
            Status::Running | Status::Succeeded | Status::Failed => Began::Exists,
        }
    }

    pub fn becomes(&mut self, status: Status, now: Tick) {
        self.earlier |= 1 << self.status as u8;
        self.status = status;
        self.at = now;
        if status != Status::Running {
            self.stopped = now;
        }
    }

    pub fn is_over(self) -> bool {
        matches!(self.status, Status::Succeeded | Status::Failed)
    }

    pub fn is_forgotten(&mut self) {
        (self.status, self.forgotten) = (Status::Unknown, true);
    }

    /// Half a minute later nobody is told any more what was so before.
    pub fn settles(&mut self) {
        self.earlier = 0;
    }

    /// What `DescribeExecution` may say of it: what is so now comes first.
    pub fn views(self) -> impl Iterator<Item = Self> {
        use Status::{Failed, Running, Succeeded, Unknown};
        let earlier = [Unknown, Running, Succeeded, Failed].into_iter();
        let earlier =
            earlier.filter(move |it| *it != self.status && self.earlier & (1 << *it as u8) != 0);
        std::iter::once(self.status)
            .chain(earlier)
            .map(move |status| Self { status, ..self })
    }

    pub fn says(self, input: Input) -> Said {
        match self.status {
            Status::Unknown => Said::Unknown,
            _ if self.input != input => Said::AnotherInput,
            Status::Running => Said::Running,
            Status::Succeeded | Status::Failed => Said::Ended {
                stopped_at: rows::instant(self.stopped),
                redrivable: self.status == Status::Failed,
            },
        }
    }
}
