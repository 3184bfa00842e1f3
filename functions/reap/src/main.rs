//! Ends or shortens the leases of an execution that has ended, and removes its waiters from the queues. Runs on
//! status events of Step Functions and of durable functions; an event of which it could not decide goes back to its queue once. Fails with `Lease.Invalid` for any other event.

use leasehold::{Error, Queue, Reaped, store::Store};
use leasehold_lambda::{Delivered, ExecutionEvent, Fatal, Function, Handled};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new(env!("CARGO_PKG_NAME"))
        .that_looks()
        .serve(handle)
        .await
}

pub(crate) async fn handle<S: Store>(
    queue: Queue<S>,
    ends: Delivered<ExecutionEvent>,
) -> Result<Handled<Reaped>, Error> {
    let queue = &queue;
    let reap = |end: ExecutionEvent, _| async move {
        if let Some(execution) = end.running() {
            return queue.redriven(execution).await;
        }
        match end.ended() {
            Some(execution) => queue.reap_ended(&execution).await,
            None => Ok(Reaped::Running),
        }
    };
    ends.each_unless(Reaped::is_undecided, reap).await
}
