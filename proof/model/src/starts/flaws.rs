//! Designs that are wrong in one point each. Most are of the design's first draft.

use super::{
    invariants::Invariant,
    scope::{self, Scope},
};
use crate::lists::flaws;

flaws! {
    GrantsKeepTheToken S1 PLAIN "a start from the queue is granted the key with the token of the last"
    NamesAreRandom Twice LATE "every call of StartExecution has a name of its own"
    ExistsIsAFailure Both LATE "a name in use counts as a failure"
    UnknownIsOver S8 LATE "an execution that does not exist frees its key, and nobody calls StartExecution again"
    EventsAreBelieved S8 KEPT_ONE "the event of an execution's end frees its key"
    ForcedIsFree S8 FORCED "a force-release of a start that has not begun hands over at once"
    CancelledIsOver Both FORCED_ONE "a cancelled start has failed as soon as the service does not know its execution"
    AnswersAreFresh Both FORCED_ONE "a cancelled start waits for slow functions and late calls, and takes the answer for fresh"
    CallsAreNeverLate Both FORCED_ONE "a cancelled start waits for slow functions and old answers, not for late calls"
    FunctionsAreFast Both FORCED_ONE "a cancelled start waits for late calls and old answers, not for slow functions"
    RefusedByAnyIsOver Both DENIED_ONE "a start that is refused has failed, although an earlier call was not answered"
    LooksDoNotMark Both FORCED_ONE "a look calls StartExecution, and does not mark the row before"
    WaitsEndBlindly Both LEAVING "a start whose wait is over fails, whether it has its turn or not"
    FailsUnasked Both PURGED "a start whose wait is over fails, and the service is not asked whether it ran"
    LeavesKeepTheVersion Both LEAVING_THREE "a start that has waited too long leaves the queue, and the version stays"
    FailedItemsArePurged Lost PURGED "a failed start's item is purged while its event may come again"
    WholeInputsAreCompared Both PASSED "the lease in the input counts as part of it: a duplicate has another input"
    LooksEndWhateverIsThere S8 PLAIN "a look ends the grant whatever the row's version is by now"
    NobodyJoinsAgain L4 ORPHAN "nobody looks after an item that has no place"
    NobodyBegins L4 ORPHAN "only who wrote a grant calls StartExecution"
    ItemsAreNotReadAgain Both DIRECT "who is granted a free key does not read its item again"
    ThrottledGoesToTheBack L3 THROTTLED "a start that is throttled goes to the end of the queue"
    ReleasesMarkTheItem L1 RELEASED "an early release marks the item, and leaves the row to the looks"
    DuplicatesDoNotAsk L1 RELEASED_LONG "a duplicate joins again, and does not ask whether its execution began"
    LooksJoinUnasked L1 RELEASED_LONG "a look joins an item that has no place again, and does not ask whether its execution began"
    ServedBeforeTheCall Lost DENIED_ONE "the item is marked as served before StartExecution was answered"
    ServedIsOver S8 PLAIN "a served start that the service does not know is over at once"
    ForgottenBeginsAgain Twice FORGOTTEN "a served start that the service does not know any more begins again"
    ForgottenIsKept L4 FORGOTTEN "a served start that the service does not know any more keeps its key"
    ItemsAreGoneTooEarly S8 OTHER "a served item is purged while its execution runs"
    InputsAreNotCompared Same OTHER "a start with another input is taken for a duplicate"
    ServedItemsAreDeleted Same OTHER "a served item is deleted, and its name may be used again"
    FailedIsRemembered Lost REPEATED_ONE "the row remembers a start that has failed, so that it cannot be repeated"
    RedrivesCount S8 REDRIVEN "a redrive that kept nothing counts (no design holds)"
    ServedAfterItsSignature S8 SERVED_EVER "a call arrives after its signature has expired, and an old answer ends what it began"
    LaterThanItsSignature Both DENIED_EVER "a call arrives after its signature has expired (no design holds)"
}
