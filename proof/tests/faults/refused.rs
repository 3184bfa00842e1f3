//! What the table refuses: for want of capacity, because of other writers, for ever.

use leasehold::Error;
use leasehold_local::Fault;

use crate::calls::{Call, Told, UPDATE, each};

const FAULTS: [Fault; 2] = [Fault::Throttle, Fault::Conflict];

#[tokio::test(flavor = "multi_thread")]
async fn throttled_once_or_in_the_way_of_a_transaction_it_is_tried_again() {
    each(&FAULTS, &Call::ALL, async |fault, scene| {
        // A holder asks through as many transactions as those do who join its line.
        let times = if fault == Fault::Conflict { 6 } else { 2 };
        scene.table.proxy.inject(fault, UPDATE, times);
        let told = scene.make().await.unwrap();
        assert!(!matches!(told, Told::Held), "{fault:?}");
        assert_eq!(scene.requests(), u64::from(times) + 1, "{fault:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn throttled_for_ever_it_says_so_and_never_held_and_the_old_deadline_stands() {
    each(&FAULTS, &Call::ALL, async |fault, scene| {
        scene.table.proxy.inject(fault, UPDATE, u32::MAX);
        let refused = scene.make().await;
        let Err(error @ Error::Throttled { .. }) = refused else {
            panic!("{fault:?}: {refused:?}");
        };
        let text = error.to_string();
        assert!(
            text.contains("dynamodb:UpdateItem on table leases"),
            "{text}"
        );
        match fault {
            Fault::Conflict => assert!(scene.requests() > 6, "as long as a request may take"),
            _ => assert_eq!(scene.requests(), 3, "{fault:?}"),
        }
        if let Some(lease) = &scene.lease {
            scene.stands(lease).await;
        }
        scene.make().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn access_denied_names_action_and_table_and_is_not_tried_again() {
    each(&[Fault::Denied], &Call::ALL, async |fault, scene| {
        scene.table.proxy.inject(fault, UPDATE, 1);
        let refused = scene.make().await;
        let Err(error @ Error::Denied { .. }) = refused else {
            panic!("{refused:?}");
        };
        let text = error.to_string();
        assert!(
            text.contains("dynamodb:UpdateItem on table leases"),
            "{text}"
        );
        assert_eq!(scene.requests(), 1);
        if let Some(lease) = &scene.lease {
            scene.stands(lease).await;
        }
    })
    .await;
}
