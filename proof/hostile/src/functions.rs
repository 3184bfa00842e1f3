//! The functions themselves: the source of each binary, compiled in here, so that what is judged is what runs.

use std::fmt;

use leasehold::{Queue, store::Store};
use leasehold_lambda::{Diagnostic, answer};
use serde_json::Value;

/// The handlers of the binaries; their `main` is not for here.
macro_rules! binaries {
    ($($name:ident: $path:literal, $variant:ident, $doc:literal;)*) => {
        $(
            #[path = $path]
            #[expect(dead_code, reason = "it is a whole program")]
            mod $name;
        )*

        /// A function of the stack.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Function {
            $(#[doc = $doc] $variant,)*
        }

        impl Function {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name of its binary, and the first word of its sample events.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)*
                }
            }

            /// What Lambda would be answered to this event.
            pub(crate) async fn answer<S: Store>(
                self,
                queue: Queue<S>,
                event: &[u8],
            ) -> Result<Value, Diagnostic> {
                match self {
                    $(Self::$variant => answer(&$name::handle, queue.into(), event).await,)*
                }
            }
        }
    };
}

binaries! {
    acquire: "../../../functions/acquire/src/main.rs", Acquire, "Grants.";
    extend: "../../../functions/extend/src/main.rs", Extend, "Extends.";
    inspect: "../../../functions/inspect/src/main.rs", Inspect, "Shows.";
    operate: "../../../functions/operate/src/main.rs", Operate, "Does what operators want.";
    reap: "../../../functions/reap/src/main.rs", Reap, "Frees what executions held.";
    release: "../../../functions/release/src/main.rs", Release, "Gives back.";
    start: "../../../functions/start/src/main.rs", Start, "Starts through keys.";
    sweep: "../../../functions/sweep/src/main.rs", Sweep, "Frees what crashed.";
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
