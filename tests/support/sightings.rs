//! Who was seen to accept writes, and whether two ever did at the same time.

use std::collections::BTreeMap;
use std::time::Instant;

/// An instance of a database accepted a write at some moment between the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub instance: String,
    /// PostgreSQL's timeline, on which the write is.
    pub timeline: u32,
    pub begun: Instant,
    pub ended: Instant,
}

/// What cannot be if at any time there is but one primary: every promotion begins a timeline of its own, and nothing is written to one that
/// has been left. What the sightings leave open is no contradiction.
pub fn contradictions(sightings: &[Sighting]) -> Vec<String> {
    let mut found = Vec::new();
    let mut owners: BTreeMap<u32, &str> = BTreeMap::new();
    for it in sightings {
        let owner = owners.entry(it.timeline).or_insert(&it.instance);
        if *owner != it.instance {
            found.push(format!(
                "{} and {} wrote to timeline {}",
                owner, it.instance, it.timeline
            ));
        }
    }
    for old in sightings {
        let left = sightings.iter().filter(|new| new.timeline > old.timeline);
        if let Some(new) = left.filter(|new| new.ended < old.begun).min_by_key(|it| it.ended) {
            found.push(format!(
                "{} accepted a write on timeline {} {:?} after {} had on timeline {}",
                old.instance,
                old.timeline,
                old.begun - new.ended,
                new.instance,
                new.timeline
            ));
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seen(sightings: &[(&str, u32, u64, u64)]) -> Vec<String> {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let sightings: Vec<Sighting> = sightings
            .iter()
            .map(|&(instance, timeline, begun, ended)| Sighting {
                instance: instance.to_owned(),
                timeline,
                begun: at(begun),
                ended: at(ended),
            })
            .collect();
        contradictions(&sightings)
    }

    #[test]
    fn one_after_the_other_is_no_contradiction() {
        let good = [
            ("a", 1, 0, 10),
            ("a", 1, 20, 30),
            ("b", 2, 40, 50),
            ("a", 3, 60, 70),
        ];
        assert_eq!(seen(&good), [""; 0]);
        // It may have been before the other one
        assert_eq!(seen(&[("b", 2, 40, 50), ("a", 1, 45, 60)]), [""; 0]);
        // Told late, but long before
        assert_eq!(seen(&[("b", 2, 40, 50), ("a", 1, 0, 20)]), [""; 0]);
    }

    #[test]
    fn a_write_to_a_timeline_that_was_left_is_one() {
        let found = seen(&[("a", 1, 0, 10), ("b", 2, 40, 50), ("a", 1, 60, 70)]);
        assert_eq!(
            found,
            ["a accepted a write on timeline 1 10ms after b had on timeline 2"]
        );
    }

    #[test]
    fn two_on_one_timeline_are_one() {
        assert_eq!(
            seen(&[("a", 2, 0, 10), ("b", 2, 5, 12)]),
            ["a and b wrote to timeline 2"]
        );
    }
}
