//! That a failure can be seen again, and that little of it has to be.

use crate::cases::shrink;

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
