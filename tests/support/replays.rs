//! That a failure can be seen again, and that little of it has to be.

use crate::cases;
use crate::cases::shrink::{self, Steps};
use crate::life;
use crate::sim::Entry;
use crate::sim::storms::Storms;
use crate::sim::world::World;
use crate::subjects::Of;
use crate::subjects::proxies::PROXIES;

fn log_of(storms: &Of<Storms>) -> Vec<String> {
    cases::on_a_paused_clock(async {
        let mut world = World::in_weather(storms.subject, storms.case.faults());
        life::live(&mut world).await;
        let told = |entry: &Entry| format!("{:?} {} {}", entry.at, entry.code, entry.summary);
        world.sim.log().iter().map(told).collect()
    })
}

/// What a seed is good for: a failure can be seen again. So can storms of which each mishap is listed, through what is printed.
#[test]
fn the_same_seed_gives_the_same_run() {
    let storms = Of {
        subject: &PROXIES,
        case: Storms::new(1),
    };
    let first = log_of(&storms);
    let listed = storms.only(&storms.steps()).to_string();
    for again in [storms, listed.parse().unwrap()] {
        let second = log_of(&again);
        let differ = first
            .iter()
            .zip(&second)
            .position(|(first, second)| first != second);
        assert_eq!(differ.map(|at| (&first[at], &second[at])), None);
        assert_eq!(first.len(), second.len());
    }
    assert!(
        first.iter().any(|entry| entry.contains(" 429 ")),
        "the weather was not bad at all"
    );
}

/// A mishap stays what it is without the others, of which there are some before the Service is made.
#[test]
fn of_storms_one_mishap_can_be_had() {
    // It comes at another time.
    let told = |storms: &Of<Storms>| {
        let lines = storms.steps().iter().map(Of::<Storms>::line).collect::<Vec<_>>();
        let without_time = |line: &String| line.split_once(" s  ").unwrap().1.to_owned();
        lines.iter().map(without_time).collect::<Vec<_>>()
    };
    let (all, lines, at) = (1..20)
        .find_map(|seed| {
            let all = Of {
                subject: &PROXIES,
                case: Storms::new(seed),
            };
            log_of(&all);
            let lines = told(&all);
            let at = lines.iter().position(|line| line.starts_with("Apply Service"))?;
            Some((all, lines, at))
        })
        .expect("a mishap of a Service");
    let one = all.only(&all.steps()[at..=at]);
    log_of(&one);
    assert_eq!(told(&one), lines[at..=at]);
}

#[rstest::rstest]
#[case::one(&[411])]
#[case::neighbours(&[3, 4])]
#[case::far_apart(&[0, 599])]
#[case::none(&[])]
fn what_a_failure_needs_is_found(#[case] needed: &[usize]) {
    let mut attempts = 0;
    let shortest = shrink::shortened((0..600).collect(), |some| {
        attempts += 1;
        needed.iter().all(|one| some.contains(one))
    });
    assert_eq!(shortest, needed);
    assert!(attempts <= shrink::ATTEMPTS, "{attempts}");
}
