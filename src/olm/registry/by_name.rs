//! A map that does not change any more. Of what is kept of a catalog most is many small maps, for which a tree takes several times the room.

use std::collections::BTreeMap;

/// Values by their names, sorted.
#[derive(Debug)]
pub(super) struct ByName<T>(Box<[(Box<str>, T)]>);

impl<T> ByName<T> {
    /// Where a name is among all.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()
    }

    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.at(self.position(name)?).map(|(_, value)| value)
    }

    pub(super) fn at(&self, position: usize) -> Option<(&str, &T)> {
        self.0.get(position).map(|(name, value)| (&**name, value))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

/// Of two of one name the last.
impl<T> FromIterator<(String, T)> for ByName<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(values: I) -> Self {
        let sorted: BTreeMap<String, T> = values.into_iter().collect();
        // Of exactly this length
        let mut all = Vec::with_capacity(sorted.len());
        all.extend(
            sorted
                .into_iter()
                .map(|(name, value)| (name.into_boxed_str(), value)),
        );
        Self(all.into_boxed_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_the_last_of_a_name_counts() {
        let all: ByName<u8> = [("b", 1), ("a", 2), ("b", 3)]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect();
        assert_eq!(all.iter().collect::<Vec<_>>(), [("a", &2), ("b", &3)]);
        assert_eq!((all.get("b"), all.get("c")), (Some(&3), None));
        assert_eq!(
            (all.position("b"), all.at(1), all.len()),
            (Some(1), Some(("b", &3)), 2)
        );
        assert!(all.contains("a") && !all.contains(""));
    }
}
