//! The list of what is on record.

/// Whose bug it is: a lock that runs on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The Rust crate.
    DynamodbLease,
    /// The Python package.
    PythonDynamodbLock,
    /// The state machines of AWS's sample, written anew from what they do.
    Semaphore,
    /// The idempotency utility of Powertools for AWS Lambda, in Python.
    Powertools,
}

impl Peer {
    /// Its name and version.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::DynamodbLease => "dynamodb-lease 0.22.1",
            Self::PythonDynamodbLock => "python_dynamodb_lock 0.9.1",
            Self::Semaphore => "AWS semaphore sample",
            Self::Powertools => "Powertools idempotency 3.37.0",
        }
    }
}

/// Where a bug can be read of in public.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A thread about this bug of this peer.
    Thread(&'static str),
    /// A thread about the same bug of another lock, or of what causes it.
    Kin(&'static str),
    /// The peer's own words or source, or the documentation of the service that it rests on.
    Documented(&'static str),
}

impl Link {
    /// Its address.
    #[must_use]
    pub const fn address(self) -> &'static str {
        match self {
            Self::Thread(address) | Self::Kin(address) | Self::Documented(address) => address,
        }
    }

    /// Its kind in a word.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Thread(_) => "thread",
            Self::Kin(_) => "kin",
            Self::Documented(_) => "documented",
        }
    }
}

/// One bug.
#[derive(Debug)]
pub struct Entry {
    /// Its test's name.
    pub name: &'static str,
    /// Where it happens.
    pub peer: Peer,
    /// What goes wrong there.
    pub bug: &'static str,
    /// Where to read of it.
    pub links: &'static [Link],
}

/// The SDK sends a write again that was applied, and it comes back as refused.
const RETRIED_BY_THE_SDK: Link = Link::Kin("https://github.com/aws/aws-sdk-java/issues/2667");
const LEASE_SOURCE: Link =
    Link::Documented("https://docs.rs/crate/dynamodb-lease/latest/source/src/lease.rs");
const SAMPLE: Link = Link::Documented(
    "https://aws.amazon.com/blogs/compute/controlling-concurrency-in-distributed-systems-using-aws-step-functions/",
);

/// All that is on record.
pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "a_lost_answer_to_acquire",
        peer: Peer::DynamodbLease,
        bug: "its own lease, written but not confirmed, keeps it out until that lease has run out",
        links: &[RETRIED_BY_THE_SDK],
    },
    Entry {
        name: "a_lost_answer_to_release",
        peer: Peer::DynamodbLease,
        bug: "a release that was applied is told as a failure",
        links: &[RETRIED_BY_THE_SDK],
    },
    Entry {
        name: "one_failed_extend_is_the_last",
        peer: Peer::DynamodbLease,
        bug: "after one error nothing is extended any more, and only who asks is told: two hold it",
        links: &[
            Link::Kin("https://github.com/cirello-io/dynamolock/issues/280"),
            Link::Kin("https://github.com/apache/iceberg/pull/2034"),
            LEASE_SOURCE,
        ],
    },
    Entry {
        name: "a_release_in_drop_at_the_end",
        peer: Peer::DynamodbLease,
        bug: "dropped at the end of a program, a lease is not released but left to run out",
        links: &[
            Link::Kin("https://github.com/hexcowboy/rslock/issues/30"),
            LEASE_SOURCE,
        ],
    },
    Entry {
        name: "an_own_lock_is_waited_for",
        peer: Peer::PythonDynamodbLock,
        bug: "its own lock, written but not confirmed, is taken for somebody else's and waited for",
        links: &[
            Link::Kin("https://github.com/awslabs/git-remote-s3/pull/67"),
            RETRIED_BY_THE_SDK,
        ],
    },
    Entry {
        name: "an_own_heartbeat_steals",
        peer: Peer::PythonDynamodbLock,
        bug: "a heartbeat whose answer was lost is told as LOCK_STOLEN, though nobody else was there",
        links: &[
            Link::Kin("https://github.com/cirello-io/dynamolock/issues/280"),
            Link::Kin("https://github.com/awslabs/amazon-kinesis-client/pull/777"),
        ],
    },
    Entry {
        name: "a_dead_lock_and_short_callers",
        peer: Peer::PythonDynamodbLock,
        bug: "a lock whose holder was killed is never taken by callers that wait for less than the lease",
        links: &[
            Link::Thread("https://github.com/mohankishore/python_dynamodb_lock/issues/2793"),
            Link::Thread("https://github.com/mohankishore/python_dynamodb_lock/pull/366"),
            Link::Kin("https://github.com/awslabs/amazon-dynamodb-lock-client/issues/34"),
        ],
    },
    Entry {
        name: "a_failure_inside_is_swallowed",
        peer: Peer::PythonDynamodbLock,
        bug: "an error inside the protected block disappears",
        links: &[Link::Thread(
            "https://github.com/mohankishore/python_dynamodb_lock/issues/426",
        )],
    },
    Entry {
        name: "a_paused_holder_writes_late",
        peer: Peer::PythonDynamodbLock,
        bug: "a holder paused between its check and its write overwrites the next one's: there is no fencing token",
        links: &[Link::Kin(
            "https://github.com/awslabs/amazon-dynamodb-lock-client/issues/63",
        )],
    },
    Entry {
        name: "a_late_failure_deletes_anothers_record",
        peer: Peer::Powertools,
        bug: "work that outlived its record deletes the next one's when it fails, and a third gets in",
        links: &[Link::Kin(
            "https://github.com/aws-powertools/powertools-lambda-typescript/issues/5675",
        )],
    },
    Entry {
        name: "a_lowered_limit_is_no_limit",
        peer: Peer::Semaphore,
        bug: "once the limit is below the count, everybody gets in",
        links: &[
            Link::Kin("https://github.com/discord/semaphore/issues/6"),
            SAMPLE,
        ],
    },
    Entry {
        name: "two_branches_hold_one_permit",
        peer: Peer::Semaphore,
        bug: "two branches of one execution both get the only permit",
        links: &[SAMPLE],
    },
    Entry {
        name: "a_late_acquire_leaks",
        peer: Peer::Semaphore,
        bug: "an acquire that arrives after the clean-up of its execution occupies a permit for ever",
        links: &[Link::Thread(
            "https://github.com/aws-samples/aws-stepfunctions-examples/issues/3",
        )],
    },
    Entry {
        name: "a_lost_event_leaks",
        peer: Peer::Semaphore,
        bug: "when the event of an execution's end is not delivered, its permit is occupied for ever",
        links: &[Link::Documented(
            "https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-states.html",
        )],
    },
    Entry {
        name: "a_clean_up_while_the_step_runs",
        peer: Peer::Semaphore,
        bug: "a stopped execution's permit is freed while its Lambda function still works",
        links: &[
            Link::Kin(
                "https://stackoverflow.com/questions/45596276/what-happens-when-i-stop-an-execution-in-aws-step-functions",
            ),
            SAMPLE,
        ],
    },
    Entry {
        name: "a_redriven_step_is_unprotected",
        peer: Peer::Semaphore,
        bug: "a redriven execution resumes past its acquire, and works without the permit it gave back",
        links: &[Link::Documented(
            "https://docs.aws.amazon.com/step-functions/latest/dg/redrive-executions.html",
        )],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = include_str!("../README.md");

    #[test]
    fn the_readme_tells_every_entry_with_its_links() {
        for entry in ENTRIES {
            let row = README
                .lines()
                .find(|line| line.contains(&format!("`{}`", entry.name)));
            let row = row.expect(entry.name);
            assert!(row.contains(entry.peer.told()), "{}", entry.name);
            for link in entry.links {
                let told = format!("[{}]({})", link.kind(), link.address());
                assert!(row.contains(&told), "{}: {told}", entry.name);
            }
        }
        let rows = README.lines().filter(|line| line.starts_with("| `"));
        assert_eq!(rows.count(), ENTRIES.len());
    }

    #[test]
    fn the_versions_are_the_ones_that_run() {
        let manifest = include_str!("../../../Cargo.toml");
        let requirements = include_str!("../../bench/python/requirements.txt");
        let version = |peer: Peer| peer.told().rsplit(' ').next().unwrap();
        let lease = format!("\"={}\"", version(Peer::DynamodbLease));
        assert!(
            manifest
                .lines()
                .any(|line| line.starts_with("dynamodb-lease") && line.contains(&lease))
        );
        for (name, peer) in [
            ("python-dynamodb-lock", Peer::PythonDynamodbLock),
            ("aws-lambda-powertools", Peer::Powertools),
        ] {
            assert!(requirements.contains(&format!("{name}=={} ", version(peer))));
        }
    }
}
