//! Tests on virtual time.

use std::{
    future::{Future, pending},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU32, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use crate::{
    Acquire, Acquired, Clock, Error, Lease, Leases, Settings, Timestamp,
    clock::paused::Paused,
    store::wire::{Fate, ROUND_TRIP, Wire},
    test_support::{grant, make},
};

const TTL: Duration = Duration::from_secs(30);
const HOUR_MS: i64 = 3_600_000;

/// Virtual time, whose time of day can be set: by somebody, or because the machine was suspended.
struct SettableClock {
    timer: Arc<Paused>,
    ahead_ms: AtomicI64,
}

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        let now = self.timer.now().as_millis();
        let now = now.checked_add_signed(self.ahead_ms.load(Relaxed));
        Timestamp::from_millis(now.expect("after the epoch"))
    }

    fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.timer.sleep(length)
    }
}

struct Scene {
    wire: Wire,
    clock: Arc<SettableClock>,
    leases: Leases<Wire>,
}

impl Scene {
    fn new() -> Self {
        let wire = Wire::default();
        let clock = Arc::new(SettableClock {
            timer: Paused::new(),
            ahead_ms: AtomicI64::new(0),
        });
        let leases = Leases::new(wire.clone(), Settings::default()).with_clock(clock.clone());
        Self {
            wire,
            clock,
            leases,
        }
    }

    fn asks(who: &str) -> Acquire {
        Acquire::new(make::key("k"), make::holder(who), make::ttl(TTL))
    }

    async fn lease(&self) -> Lease {
        grant(&self.leases, Self::asks("a")).await.lease
    }

    async fn is_free(&self) -> bool {
        let asked = self.leases.acquire(Self::asks("b")).await;
        matches!(asked.expect("an answer"), Acquired::Granted(_))
    }
}

#[tokio::test(start_paused = true)]
async fn work_is_held_extended_and_released() {
    let scene = Scene::new();
    let lease = scene.lease().await;
    let held = scene.leases.hold(lease, |_| async {
        scene.clock.sleep(TTL * 5).await;
        assert!(!scene.is_free().await, "five times its ttl later");
        "done"
    });
    assert_eq!(Box::pin(held).await.expect("held"), "done");
    assert!(scene.is_free().await);
}

/// The last instant at which the work was polled, and whether it was dropped.
struct Work<'a> {
    scene: &'a Scene,
    last: &'a Mutex<Timestamp>,
}

impl Work<'_> {
    async fn run(self) {
        loop {
            *self.last.lock().expect("no panic") = self.scene.leases.now();
            self.scene.clock.sleep(Duration::from_millis(7)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn work_drops_before_lease_is_unsafe() {
    for fate in [Fate::RequestLost, Fate::Throttled] {
        let scene = Scene::new();
        let lease = scene.lease().await;
        scene.wire.always(fate);
        let last = Mutex::new(Timestamp::MAX);
        let work = Work {
            scene: &scene,
            last: &last,
        };
        let held = scene.leases.hold(lease.clone(), |_| work.run()).await;
        let error = held.expect_err("not extended");
        assert!(
            matches!(error, Error::Unavailable { .. } | Error::Throttled { .. }),
            "{error}"
        );
        let last = *last.lock().expect("no panic");
        assert!(last < lease.safe_until(), "{last} is too late");
        assert!(
            last.plus(TTL / 10) > lease.safe_until(),
            "and {last} not too early"
        );
        scene.wire.always(Fate::Answered);
        assert!(
            !scene.is_free().await,
            "what the work sent last may be on its way"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn lost_lease_drops_work_immediately() {
    let scene = Scene::new();
    let lease = scene.lease().await;
    let _ = scene.leases.release(&lease).await.expect("released");
    let since = scene.leases.now();
    let held = scene.leases.hold(lease.clone(), |_| pending::<()>());
    assert!(matches!(held.await, Err(Error::Lost { .. })));
    assert!(scene.leases.now() <= since.plus(lease.extend_due().since(since) + ROUND_TRIP));
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_starts_no_work() {
    let scene = Scene::new();
    let lease = scene.lease().await;
    scene.clock.ahead_ms.store(HOUR_MS, Relaxed);
    let held = scene.leases.hold(lease, |_| {
        panic!("the work is started");
        #[expect(unreachable_code, reason = "the type of the work")]
        pending::<()>()
    });
    assert!(matches!(held.await, Err(Error::Expired { .. })));
}

/// As after a suspension: the timers have stood still. The work wakes up by itself all the time.
#[tokio::test(start_paused = true)]
async fn clock_jump_stops_next_poll() {
    for fate in [Fate::Answered, Fate::Throttled] {
        // The first extend is sent at about the 2710th poll, and some jumps are while it is under way.
        for at_poll in (0..4000).step_by(200).chain(2700..2730) {
            let scene = Scene::new();
            let lease = scene.lease().await;
            scene.wire.always(fate);
            let polls = AtomicU32::new(0);
            let held = scene.leases.hold(lease, |_| async {
                loop {
                    if polls.fetch_add(1, Relaxed) == at_poll {
                        scene.clock.ahead_ms.store(HOUR_MS, Relaxed);
                    }
                    scene.clock.sleep(Duration::from_millis(7)).await;
                }
            });
            let ended: Result<(), Error> = Box::pin(held).await;
            let _ = ended.expect_err("it is an hour too late");
            assert_eq!(polls.load(Relaxed), at_poll + 1, "{fate:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn clock_set_back_prolongs_no_work() {
    let scene = Scene::new();
    let lease = scene.lease().await;
    let end = scene
        .clock
        .timer
        .now()
        .plus(lease.remaining(scene.clock.now()));
    scene.wire.always(Fate::Throttled);
    let last = Mutex::new(Timestamp::MAX);
    let held = scene.leases.hold(lease, |_| async {
        scene.clock.ahead_ms.store(-HOUR_MS, Relaxed);
        loop {
            *last.lock().expect("no panic") = scene.clock.timer.now();
            scene.clock.sleep(Duration::from_millis(7)).await;
        }
    });
    let ended: Result<(), Error> = Box::pin(held).await;
    assert!(matches!(ended, Err(Error::Throttled { .. })));
    let last = *last.lock().expect("no panic");
    assert!(last < end, "{last} is too late");
}

/// Dropped at any of its awaits, it leaves a lease that expires and work that has stopped.
#[tokio::test(start_paused = true)]
async fn dropped_hold_leaves_expiring_lease() {
    for polls in 0.. {
        let scene = Scene::new();
        let lease = scene.lease().await;
        let at_work = AtomicU32::new(0);
        let dropped = {
            let mut held = pin!(scene.leases.hold(lease, |_| async {
                let _inside = Inside::new(&at_work);
                scene.clock.sleep(TTL * 2).await;
            }));
            let mut left = polls;
            std::future::poll_fn(|context| match held.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => {
                    left -= 1;
                    Poll::Pending
                }
            })
            .await
            .is_none()
        };
        assert_eq!(at_work.load(Relaxed), 0, "after {polls} polls");
        scene
            .clock
            .sleep(TTL + Settings::default().clock_margin)
            .await;
        assert!(scene.is_free().await, "after {polls} polls");
        if !dropped {
            assert!(polls > 5, "there were more awaits than that");
            return;
        }
    }
}

struct Inside<'a>(&'a AtomicU32);

impl<'a> Inside<'a> {
    fn new(inside: &'a AtomicU32) -> Self {
        inside.fetch_add(1, Relaxed);
        Self(inside)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn text_request_names_wrong_field() {
    let asked = Acquire::of("orders/42", "worker 7", TTL);
    assert_eq!(asked.expect("valid").holder.as_str(), "worker 7");
    for (key, holder, ttl, field) in [
        ("", "h", TTL, "key"),
        ("k", "", TTL, "holder"),
        ("k", "h", Duration::ZERO, "ttl"),
    ] {
        let Err(Error::Invalid { field: named, .. }) = Acquire::of(key, holder, ttl) else {
            panic!("{field} is accepted");
        };
        assert_eq!(named.as_deref(), Some(field));
    }
}
