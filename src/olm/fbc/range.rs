//! Ranges of versions, as OLM reads them (`github.com/blang/semver/v4`): `>=1.0.0 <2.0.0 !1.3.0 || 3.x`.

use std::fmt;

use semver::Version;

/// Versions that are meant: any of several alternatives, of each all conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range(Vec<Vec<Condition>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    comparison: Comparison,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Is,
    IsNot,
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// What is wrong with a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotARange(String);

impl fmt::Display for NotARange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotARange {}

impl Range {
    /// Whether a version is meant. Build metadata does not count.
    pub fn contains(&self, version: &Version) -> bool {
        let is_met = |Condition {
                          comparison,
                          version: bound,
                      }: &Condition| {
            let order = version.cmp_precedence(bound);
            match comparison {
                Comparison::Is => order.is_eq(),
                Comparison::IsNot => order.is_ne(),
                Comparison::Above => order.is_gt(),
                Comparison::AtLeast => order.is_ge(),
                Comparison::Below => order.is_lt(),
                Comparison::AtMost => order.is_le(),
            }
        };
        self.0.iter().any(|all| all.iter().all(is_met))
    }

    /// Versions of which each is meant as all of those are that lie between it and the next: each bound, what is next below and above it, and the lowest of all.
    pub fn edges(&self) -> Vec<Version> {
        let lowest = semver::Prerelease::new("0").unwrap_or_default();
        let mut edges = vec![Version {
            pre: lowest.clone(),
            ..Version::new(0, 0, 0)
        }];
        for Condition { version, .. } in self.0.iter().flatten() {
            let below = Version {
                pre: lowest.clone(),
                ..version.clone()
            };
            let above = if version.pre.is_empty() {
                Version {
                    patch: version.patch.saturating_add(1),
                    ..below.clone()
                }
            } else {
                let longer = semver::Prerelease::new(&format!("{}.0", version.pre));
                Version {
                    pre: longer.unwrap_or_default(),
                    ..version.clone()
                }
            };
            edges.extend([below, version.clone(), above]);
        }
        edges
    }
}

impl std::str::FromStr for Range {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let parts = parts(text);
        let mut alternatives = Vec::new();
        for alternative in parts.split(|part| part == "||") {
            if alternative.is_empty() {
                let message = if parts.is_empty() {
                    "it is empty"
                } else {
                    "there is nothing beside a ||"
                };
                return Err(NotARange(message.to_owned()));
            }
            let mut all = Vec::new();
            for part in alternative {
                conditions(part, &mut all)?;
            }
            alternatives.push(all);
        }
        Ok(Self(alternatives))
    }
}

/// What stands between spaces; a space after a comparison belongs to it.
fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match parts.last_mut() {
            Some(last) if last.ends_with(['<', '>', '=']) => last.push_str(word),
            _ => parts.push(word.to_owned()),
        }
    }
    parts
}

/// The conditions of one part: two where it stands for all patches, or all minor versions.
fn conditions(part: &str, all: &mut Vec<Condition>) -> Result<(), NotARange> {
    let refused = |why: String| NotARange(format!("{part:?}: {why}"));
    let digit = part.find(|c: char| c.is_ascii_digit());
    let Some((comparison, version)) = digit.map(|at| part.split_at(at)) else {
        return Err(refused("it has no version".to_owned()));
    };
    let comparison = match comparison {
        "" | "=" | "==" => Comparison::Is,
        "!" | "!=" => Comparison::IsNot,
        ">" => Comparison::Above,
        ">=" => Comparison::AtLeast,
        "<" => Comparison::Below,
        "<=" => Comparison::AtMost,
        other => return Err(refused(format!("{other:?} is no comparison"))),
    };
    let bound = |comparison, version| Condition { comparison, version };
    let Some((first, next)) = wildcard(version) else {
        let version = version
            .parse()
            .map_err(|error| refused(format!("{version:?} is no version: {error}")))?;
        all.push(bound(comparison, version));
        return Ok(());
    };
    match comparison {
        Comparison::Is => all.extend([bound(Comparison::AtLeast, first), bound(Comparison::Below, next)]),
        // As upstream has it: both at once, which no version meets
        Comparison::IsNot => all.extend([bound(Comparison::Below, first), bound(Comparison::AtLeast, next)]),
        Comparison::Above => all.push(bound(Comparison::AtLeast, next)),
        Comparison::AtLeast => all.push(bound(Comparison::AtLeast, first)),
        Comparison::Below => all.push(bound(Comparison::Below, first)),
        Comparison::AtMost => all.push(bound(Comparison::Below, next)),
    }
    Ok(())
}

/// `1.x`, `1.x.x` and `1.2.x`: the first version that is meant, and the first after those.
fn wildcard(version: &str) -> Option<(Version, Version)> {
    let numbers: Vec<&str> = version.split('.').collect();
    let number = |text: &str| text.parse::<u64>().ok();
    match numbers[..] {
        [major, "x"] | [major, "x", "x"] => {
            let major = number(major)?;
            Some((
                Version::new(major, 0, 0),
                Version::new(major.checked_add(1)?, 0, 0),
            ))
        }
        [major, minor, "x"] => {
            let (major, minor) = (number(major)?, number(minor)?);
            Some((
                Version::new(major, minor, 0),
                Version::new(major, minor.checked_add(1)?, 0),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(">=1.0.0 <2.0.0", "1.9.9", true)]
    #[case(">=1.0.0 <2.0.0", "2.0.0", false)]
    #[case(">= 1.0.0 < 2.0.0", "1.0.0", true)]
    #[case(">1.0.0 <3.0.0 !2.0.3-beta.2", "2.0.3-beta.2", false)]
    #[case("<2.0.0 || >=3.0.0", "2.5.0", false)]
    #[case("<2.0.0 || >=3.0.0", "3.1.0", true)]
    #[case("1.2.x", "1.2.7", true)]
    #[case("1.2.x", "1.3.0", false)]
    #[case("1.x", "1.99.0", true)]
    #[case("1.x.x", "2.0.0", false)]
    #[case("<=1.2.x", "1.2.9", true)]
    #[case(">1.2.x", "1.2.9", false)]
    #[case("1.0.0", "1.0.0+build.5", true)]
    #[case(">=1.0.0", "1.0.0-rc.1", false)]
    fn a_version_is_meant_or_not(#[case] range: &str, #[case] version: &str, #[case] meant: bool) {
        let range: Range = range.parse().unwrap();
        assert_eq!(range.contains(&version.parse().unwrap()), meant);
    }

    #[rstest]
    #[case("")]
    #[case("   ")]
    #[case("|| 1.0.0")]
    #[case("1.0.0 ||")]
    #[case(">=")]
    #[case("~1.0.0")]
    #[case("^1.2.0")]
    #[case("1.2")]
    #[case("01.2.3")]
    #[case("=>1.0.0")]
    #[case("latest")]
    fn what_olm_could_not_read_is_no_range(#[case] text: &str) {
        assert!(text.parse::<Range>().is_err(), "{text}");
    }
}
