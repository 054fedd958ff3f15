use std::collections::BTreeSet;

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn of(numbers: &BTreeSet<u16>) -> Slots {
    numbers.iter().map(|&number| Slot(number)).collect()
}

fn numbers(slots: &Slots) -> BTreeSet<u16> {
    slots.iter().map(Slot::number).collect()
}

/// Ranges and single ones near each other, so that they touch and overlap.
fn sets() -> impl Strategy<Value = BTreeSet<u16>> {
    let range = (0u16..120, 0u16..12).prop_map(|(first, size)| first..first + size);
    let high = (SLOTS - 8..SLOTS).prop_map(|last| last..last + 1);
    prop::collection::vec(prop_oneof![4 => range, 1 => high], 0..12)
        .prop_map(|ranges| ranges.into_iter().flatten().collect())
}

proptest! {
    #[test]
    fn a_set_of_slots_does_what_a_plain_set_of_numbers_does(a in sets(), b in sets(), slot in 0u16..140, count in 0u16..60) {
        let (left, right) = (of(&a), of(&b));
        prop_assert_eq!(usize::from(left.len()), a.len());
        prop_assert_eq!(left.contains(Slot(slot)), a.contains(&slot));
        prop_assert_eq!(numbers(&left.union(&right)), &a | &b);
        prop_assert_eq!(numbers(&left.difference(&right)), &a - &b);
        prop_assert_eq!(numbers(&left.intersection(&right)), &a & &b);
        prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
        prop_assert_eq!(numbers(&left.lowest(count)), a.iter().take(count.into()).copied().collect::<BTreeSet<_>>());
        let (mut more, mut less) = (left.clone(), left);
        more.insert(Slot(slot));
        less.remove(Slot(slot));
        let mut expected = a.clone();
        expected.insert(slot);
        prop_assert_eq!(numbers(&more), expected.clone());
        expected.remove(&slot);
        prop_assert_eq!(numbers(&less), expected);
    }

    #[test]
    fn what_is_written_is_read_again_and_equal_sets_are_written_alike(a in sets()) {
        let text = of(&a).to_string();
        prop_assert_eq!(text.parse::<Slots>().unwrap(), of(&a));
        prop_assert_eq!(of(&a).union(&of(&a)).difference(&Slots::none()).to_string(), text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[0-9,-]{0,20}|\\PC{0,20}") {
        let _ = text.parse::<Slots>();
    }
}

#[rstest]
#[case("", Ok(""))]
#[case("0-5460,10923", Ok("0-5460,10923"))]
#[case("3,1-2,2", Ok("1-3"))]
#[case("16383", Ok("16383"))]
#[case("16384", Err(SlotError::OutOfRange("16384".into())))]
#[case("99999999", Err(SlotError::OutOfRange("99999999".into())))]
#[case("5-3", Err(SlotError::Backwards("5-3".into())))]
#[case("1,,2", Err(SlotError::NotANumber(String::new())))]
#[case("+1", Err(SlotError::NotANumber("+1".into())))]
fn ranges_are_read_as_redis_writes_them(#[case] text: &str, #[case] expected: Result<&str, SlotError>) {
    assert_eq!(
        text.parse::<Slots>().map(|slots| slots.to_string()),
        expected.map(str::to_owned)
    );
}

#[test]
fn shares_cover_every_slot_once_and_differ_by_one_at_most() {
    assert!(even_shares(0).is_empty());
    for shards in 1..=100 {
        let shares = even_shares(shards);
        let all = shares.iter().fold(Slots::none(), |all, share| all.union(share));
        assert_eq!(all, Slots::all());
        let counts: Vec<u16> = shares.iter().map(Slots::len).collect();
        assert_eq!(counts.iter().sum::<u16>(), SLOTS);
        assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
        assert_eq!(counts, even_counts(shards));
    }
    assert_eq!(even_shares(3)[0].to_string(), "0-5461");
}
