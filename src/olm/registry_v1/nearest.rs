//! What was meant by a name that is misspelt.

/// How many letters it may differ in.
const NEAR: usize = 2;
/// Of how many letters one may be another: short names are all alike.
const LETTERS: usize = 3;

/// The name that differs the least from this one. Two letters the other way around are one difference, and capitals are none.
pub(super) fn nearest<'a>(name: &str, others: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let letters = name.chars().count();
    let most = NEAR.min(letters / LETTERS);
    others
        // How far a long name is takes long to tell
        .filter(|other| other.chars().count().abs_diff(letters) <= most)
        .map(|other| (strsim::osa_distance(&name, &other.to_lowercase()), other))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    #[rstest]
    #[case("versoin", Some("version"))]
    #[case("Version", Some("version"))]
    #[case("maturty", Some("maturity"))]
    #[case("nmae", Some("name"))]
    #[case("serviceAcountNames", Some("serviceAccountName"))]
    #[case("ip", None)]
    #[case("size", None)]
    fn what_is_misspelt_is_near_what_was_meant(#[case] name: &str, #[case] meant: Option<&str>) {
        let known = ["version", "maturity", "name", "serviceAccountName", "os"];
        assert_eq!(super::nearest(name, known.into_iter()), meant);
    }
}
