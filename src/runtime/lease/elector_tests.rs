//! Candidates against a lease in memory, on a paused clock, over a network that delays, loses and cuts off.

mod network;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Elector, Leadership, LeaseLost, Outlook};
use network::{Network, Trouble, late_answers, network};

/// Stands for election again and again; leads for a while; is cut off, or gives up in order, or is killed.
async fn candidate(network: Network, name: usize, leadership: Leadership) {
    for life in 0_u32.. {
        let mut elector = network.elector(&format!("{name}-{life}"), &leadership);
        elector.acquire(std::future::pending()).await;
        let patience = network.chance.lock().unwrap().next_unit() * 60.0;
        let end = network.chance.lock().unwrap().next_unit();
        let lost = tokio::time::timeout(Duration::from_secs_f64(patience), elector.hold()).await;
        match lost {
            Ok(_) => {}
            Err(_) if end < 0.5 => elector.release().await,
            // Killed: whatever it had sent may still arrive, and nothing is given back. A dead process writes nothing.
            Err(_) => leadership.end(),
        }
    }
}

/// `SEEDS=first..last` tries others than the usual few: `make soak PART=random`.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("SEEDS") else {
        return 0..15;
    };
    let (first, last) = text.split_once("..").expect("SEEDS: first..last");
    first.parse().expect("SEEDS: a number")..last.parse().expect("SEEDS: a number")
}

#[tokio::test(start_paused = true)]
async fn whatever_the_network_does_there_are_never_two_leaders_and_in_the_end_there_is_one() {
    for seed in seeds() {
        let network = network(seed, Duration::from_secs(200));
        let leaderships: Vec<Leadership> = (0..3).map(|_| Leadership::standby()).collect();
        let mut candidates = tokio::task::JoinSet::new();
        for (name, leadership) in leaderships.iter().enumerate() {
            let line = Network {
                cut_until: Arc::default(),
                ..network.clone()
            };
            candidates.spawn(candidate(line, name, leadership.clone()));
        }
        let leaders = || {
            leaderships
                .iter()
                .filter(|leadership| leadership.is_leader())
                .count()
        };
        let mut led = 0;
        while Instant::now() < network.faulty_until {
            sleep(Duration::from_millis(20)).await;
            assert!(leaders() <= 1, "two leaders with seed {seed}");
            led += leaders();
        }
        assert!(
            led > 0,
            "nobody ever led with seed {seed}: the test tests nothing"
        );
        // Once it is quiet, somebody leads after a lease has run out at the latest.
        let mut without = Duration::ZERO;
        for _ in 0..3_000 {
            sleep(Duration::from_millis(20)).await;
            assert!(leaders() <= 1, "two leaders with seed {seed}");
            without = if leaders() == 0 {
                without + Duration::from_millis(20)
            } else {
                Duration::ZERO
            };
            assert!(without < Duration::from_secs(25), "nobody leads with seed {seed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_at_once() {
    let network = network(0, Duration::ZERO);
    let (first, second) = (Leadership::standby(), Leadership::standby());
    let mut leader = network.elector("first", &first);
    leader.acquire(std::future::pending()).await;
    let mut standby = network.elector("second", &second);
    let waiting = tokio::spawn(async move {
        standby.acquire(std::future::pending()).await;
        Instant::now()
    });
    let _ = tokio::time::timeout(Duration::from_secs(60), leader.hold()).await;
    assert!(!second.is_leader() && !waiting.is_finished());
    leader.release().await;
    let released = Instant::now();
    assert!(!first.is_leader());
    assert!(waiting.await.unwrap().duration_since(released) < Duration::from_millis(100));
    assert_eq!(network.server.lock().unwrap().holder(), "second");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_falls_silent_keeps_the_lease_for_its_whole_length_and_no_longer() {
    let network = network(0, Duration::ZERO);
    let (first, second) = (Leadership::standby(), Leadership::standby());
    let mut leader = network.elector("first", &first);
    leader.acquire(std::future::pending()).await;
    let silent = Instant::now();
    drop(leader);
    network
        .elector("second", &second)
        .acquire(std::future::pending())
        .await;
    let took = silent.elapsed();
    assert!(
        took >= Duration::from_secs(15) && took < Duration::from_millis(15_100),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_an_answer_ends_at_its_deadline() {
    let network = network(0, Duration::ZERO);
    let leadership = Leadership::standby();
    let mut leader = network.elector("first", &leadership);
    leader.acquire(std::future::pending()).await;
    let renewed = Instant::now();
    *network.cut_until.lock().unwrap() = Some(Instant::now() + Duration::from_secs(1_000));
    let lost = leader.hold().await;
    assert!(
        lost.to_string().contains("could not be renewed within 10000 ms"),
        "{lost}"
    );
    assert_eq!(renewed.elapsed(), Duration::from_secs(10));
    assert!(!leadership.is_leader());
}

/// A leader, and the network to the server, where this befalls its writes from now on.
async fn leader_in(
    troubles: impl IntoIterator<Item = Trouble>,
    leadership: &Leadership,
) -> (Elector, Network) {
    let network = network(0, Duration::ZERO);
    let mut leader = network.elector("first", leadership);
    leader.acquire(std::future::pending()).await;
    network.server.lock().unwrap().troubles.extend(troubles);
    (leader, network)
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_is_annotated_again_and_again_goes_on_leading() {
    let leadership = Leadership::standby();
    let troubles = (0..5).map(|_| Trouble::Annotated);
    let (mut leader, network) = leader_in(troubles, &leadership).await;
    let lost = tokio::time::timeout(Duration::from_secs(60), leader.hold()).await;
    assert!(lost.is_err(), "{lost:?}");
    assert!(leadership.is_leader());
    let server = network.server.lock().unwrap();
    assert!(server.troubles.is_empty(), "this tests nothing");
    assert_eq!(server.holder(), "first");
    assert_eq!(
        server.lease.as_ref().unwrap()["spec"]["leaseTransitions"],
        json!(0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_only_meets_conflicts_ends_at_its_deadline() {
    let leadership = Leadership::standby();
    let troubles = (0..100).map(|_| Trouble::Annotated);
    let (mut leader, _) = leader_in(troubles, &leadership).await;
    let begun = Instant::now();
    let lost = leader.hold().await;
    assert!(matches!(lost, LeaseLost::NotRenewed { .. }), "{lost}");
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    assert!(!leadership.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_somebody_else_holds_stops_and_names_who() {
    for troubles in [
        vec![Trouble::Handed("other")],
        vec![Trouble::Annotated, Trouble::Handed("other")],
    ] {
        let leadership = Leadership::standby();
        let (mut leader, network) = leader_in(troubles, &leadership).await;
        let lost = leader.hold().await;
        assert!(
            matches!(&lost, LeaseLost::Taken { by, .. } if by == "other"),
            "{lost}"
        );
        assert!(!leadership.is_leader());
        assert_eq!(network.server.lock().unwrap().holder(), "other");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_never_leads_by_a_lease_that_names_nobody() {
    // Somebody clears the holder; the leader sees it, and its first try to take the lease back fails.
    let leadership = Leadership::standby();
    let troubles = [Trouble::Handed(""), Trouble::Failed];
    let (mut leader, network) = leader_in(troubles, &leadership).await;
    let lost = tokio::time::timeout(Duration::from_secs(60), leader.hold()).await;
    assert!(lost.is_err(), "{lost:?}");
    assert!(leadership.is_leader());
    assert_eq!(network.server.lock().unwrap().holder(), "first");
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_a_namespace_is_tried_at_the_pace_of_retries() {
    let network = network(0, Duration::ZERO);
    network.server.lock().unwrap().homeless = Some(0);
    let mut candidate = network.elector("first", &Leadership::standby());
    assert!(!candidate.acquire(sleep(Duration::from_secs(60))).await);
    let tries = network.server.lock().unwrap().homeless.unwrap();
    assert!((10..=30).contains(&tries), "{tries} tries in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_stopped_during_its_claim_leaves_the_lease_free() {
    for late in [1, 4, 1_000].map(Duration::from_secs) {
        let (server, leadership) = (Arc::default(), Leadership::standby());
        let mut elector = late_answers(&server, late, &leadership);
        let stop = sleep(Duration::from_millis(100));
        let won = tokio::time::timeout(Duration::from_secs(7), elector.acquire(stop)).await;
        assert_eq!(won, Ok(false), "answer after {late:?}");
        assert!(!leadership.is_leader());
        let server = server.lock().unwrap();
        assert!(
            server.lease.is_some(),
            "the claim took effect: else this tests nothing"
        );
        assert_eq!(server.holder(), "", "answer after {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_work_was_cut_off_stops_writing_and_keeps_the_lease() {
    let network = network(0, Duration::ZERO);
    let leadership = Leadership::standby();
    let mut leader = network.elector("first", &leadership);
    leader.acquire(std::future::pending()).await;
    leader.leave();
    assert!(!leadership.is_leader());
    assert_eq!(network.server.lock().unwrap().holder(), "first");
}

#[tokio::test(start_paused = true)]
async fn who_cannot_reach_the_lease_for_long_is_not_ready_and_a_standby_is() {
    let network = network(0, Duration::ZERO);
    let (first, second) = (Outlook::default(), Outlook::default());
    let patience = Duration::from_secs(15);
    let leadership = Leadership::standby();
    let mut leader = network.elector("first", &leadership);
    leader.acquire(std::future::pending()).await;
    tokio::spawn(async move { leader.hold().await });

    let mut standby = network
        .elector("second", &Leadership::standby())
        .with_outlook(first.clone());
    tokio::spawn(async move { standby.acquire(std::future::pending()).await });
    let line = Network {
        cut_until: Arc::new(Mutex::new(Some(Instant::now() + Duration::from_secs(60)))),
        ..network.clone()
    };
    let mut lonely = line
        .elector("third", &Leadership::standby())
        .with_outlook(second.clone());
    tokio::spawn(async move { lonely.acquire(std::future::pending()).await });

    sleep(Duration::from_secs(10)).await;
    assert_eq!(second.check(patience), Ok(()), "a short outage is none");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(first.check(patience), Ok(()));
    assert!(
        second
            .check(patience)
            .unwrap_err()
            .starts_with("Lease: no success for")
    );
    sleep(Duration::from_secs(60)).await;
    assert_eq!(second.check(patience), Ok(()), "it is over");
}
