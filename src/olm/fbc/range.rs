//! Ranges of versions, exactly as OLM reads them (`ParseRange` of `github.com/blang/semver/v4`): `>=1.0.0 <2.0.0 !1.3.0 || 3.x`. That includes what nobody
//! would expect, since a range means what the cluster makes of it: whatever holds an `x` is taken for one with a wildcard, and words of one
//! character are passed over.

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

/// What stands between spaces; a space after a comparison belongs to it. A single character is passed over, as in `! 1.0.0`, which means 1.0.0.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut begin, mut last) = (Vec::new(), 0, ' ');
    let mut take = |part: &str| {
        if part.len() > 1 {
            parts.push(part.replace(' ', ""));
        }
    };
    for (at, character) in text.char_indices() {
        if character != ' ' {
            last = character;
        } else if !matches!(last, '<' | '>' | '=') {
            take(&text[begin..at]);
            begin = at + 1;
        }
    }
    take(&text[begin..]);
    parts
}

/// The conditions of one part: two where it stands for all patches, or all minor versions.
fn conditions(part: &str, all: &mut Vec<Condition>) -> Result<(), NotARange> {
    let refused = |why: String| NotARange(format!("{part:?}: {why}"));
    let expanded = if part.contains('x') {
        expanded(part).map_err(refused)?
    } else {
        vec![part.to_owned()]
    };
    for condition in expanded {
        all.push(condition.parse().map_err(refused)?);
    }
    Ok(())
}

/// The comparison and the version of a part.
fn split(part: &str) -> Result<(&str, &str), String> {
    let is_digit = |c: char| c.is_ascii_digit() || !c.is_ascii() && c.is_numeric();
    let digit = part.find(is_digit).ok_or("it has no version")?;
    let (comparison, version) = part.split_at(digit);
    Ok((comparison.trim(), version))
}

/// What a part with an `x` stands for. What follows after all patches is `1.3.0` for `1.2.x`, and `2.0.0` for `1.x`; for a version in which the `x` is
/// none of the three numbers there is none, so that only comparisons that need none are accepted.
fn expanded(part: &str) -> Result<Vec<String>, String> {
    let (comparison, version) = split(part)?;
    let first = first(version);
    let next = next(version, &first);
    let following = |sign: &str| match &next {
        Some(next) => Ok(format!("{sign}{next}")),
        None => Err(format!(
            "after {comparison:?} the x of {version:?} can only be a number of the version; write it without x"
        )),
    };
    Ok(match comparison {
        ">" => vec![following(">=")?],
        ">=" | "<" => vec![format!("{comparison}{first}")],
        "<=" => vec![following("<")?],
        "" | "=" | "==" => vec![format!(">={first}"), following("<")?],
        // Both at once, which no version meets
        "!" | "!=" => vec![format!("<{first}"), following(">=")?],
        // Whatever else stands before it is forgotten
        _ => vec![first],
    })
}

/// The first version that is meant.
fn first(version: &str) -> String {
    let first = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if first.matches('.').count() == 1 {
        return first + ".0";
    }
    first
}

/// The first version after all that are meant, by how many numbers there are.
fn next(version: &str, first: &str) -> Option<String> {
    let numbers: Vec<&str> = version.split('.').collect();
    let place = match numbers[..] {
        [_, "x"] => 0,
        [_, _, "x"] => 1,
        _ => return None,
    };
    let mut numbers: Vec<String> = first.split('.').map(str::to_owned).collect();
    let number: i64 = numbers.get(place)?.parse().ok()?;
    numbers[place] = number.wrapping_add(1).to_string();
    Some(numbers.join("."))
}

impl std::str::FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (comparison, version) = split(text)?;
        let comparison = match comparison {
            "" | "=" | "==" => Comparison::Is,
            "!" | "!=" => Comparison::IsNot,
            ">" => Comparison::Above,
            ">=" => Comparison::AtLeast,
            "<" => Comparison::Below,
            "<=" => Comparison::AtMost,
            other => return Err(format!("{other:?} is no comparison")),
        };
        let told = |why: &dyn fmt::Display| format!("{version:?} is no version: {why}");
        let version: Version = version.parse().map_err(|error| told(&error))?;
        let too_large =
            |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u64>().is_err();
        let mut pre = version.pre.split('.').filter(|part| !part.is_empty());
        match pre.find(too_large) {
            Some(part) => Err(told(&format!("{part} is too large for a number"))),
            None => Ok(Self { comparison, version }),
        }
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

    const VERSIONS: [&str; 10] = [
        "0.9.0",
        "1.0.0-next",
        "1.0.0",
        "1.0.5",
        "1.1.0",
        "1.2.0",
        "1.2.9",
        "1.3.0",
        "2.0.0",
        "3.0.0",
    ];

    /// What upstream's `ParseRange` made of each.
    #[rstest]
    #[case(">=1.0.0-next", &["1.0.0-next", "1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9", "1.3.0", "2.0.0", "3.0.0"])]
    #[case("<1.0.0-next", &["0.9.0"])]
    #[case(">\t1.0.0", &["1.0.5", "1.1.0", "1.2.0", "1.2.9", "1.3.0", "2.0.0", "3.0.0"])]
    #[case("! 1.0.0", &["1.0.0"])]
    #[case("x.1.0", &["1.0.0"])]
    #[case(">=1.2.x-0", &["1.2.0", "1.2.9", "1.3.0", "2.0.0", "3.0.0"])]
    #[case("1.x.x", &["1.0.0", "1.0.5"])]
    #[case(">1.x.x", &["1.1.0", "1.2.0", "1.2.9", "1.3.0", "2.0.0", "3.0.0"])]
    #[case("<=1.x.x", &["0.9.0", "1.0.0-next", "1.0.0", "1.0.5"])]
    #[case("!=1.x.x", &[])]
    #[case("~1.2.x", &["1.2.0"])]
    #[case("1.2.x", &["1.2.0", "1.2.9"])]
    #[case("1.x", &["1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9", "1.3.0"])]
    #[case("<=1.02.x", &["0.9.0", "1.0.0-next", "1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9"])]
    #[case(">=1.0.0 x", &["1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9", "1.3.0", "2.0.0", "3.0.0"])]
    #[case("1 >=1.0.0", &["1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9", "1.3.0", "2.0.0", "3.0.0"])]
    #[case(">= 1.0.0", &["1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9", "1.3.0", "2.0.0", "3.0.0"])]
    #[case(">=1.0.0  <2.0.0", &["1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9", "1.3.0"])]
    #[case(">=1.0.0 < 2.0.0 ", &["1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9", "1.3.0"])]
    #[case("=1.0.0", &["1.0.0"])]
    #[case("= =1.0.0", &["1.0.0"])]
    #[case(">=1.0.0+x", &["1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9", "1.3.0", "2.0.0", "3.0.0"])]
    #[case("<=1.+2.x", &["0.9.0", "1.0.0-next", "1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9"])]
    #[case("<1.x.2", &["0.9.0", "1.0.0-next", "1.0.0"])]
    #[case("1.0.0 | 2.0.0", &[])]
    #[case(">=1.0.0 <2.0.0 !1.3.0 || 3.x", &["1.0.0", "1.0.5", "1.1.0", "1.2.0", "1.2.9", "3.0.0"])]
    #[case("vx1.0.0", &["1.0.0"])]
    #[case("x1.2.3-a.x", &[])]
    #[case("1.0.0 !", &["1.0.0"])]
    #[case("! 1.0.0 2.0.0", &[])]
    #[case("! =1.0.0", &["1.0.0"])]
    #[case("!= 1.0.0", &["0.9.0", "1.0.0-next", "1.0.5", "1.1.0", "1.2.0", "1.2.9", "1.3.0", "2.0.0", "3.0.0"])]
    fn a_range_means_what_upstream_makes_of_it(#[case] range: &str, #[case] expected: &[&str]) {
        let range: Range = range.parse().unwrap();
        let meant = VERSIONS
            .into_iter()
            .filter(|version| range.contains(&version.parse().unwrap()));
        assert_eq!(meant.collect::<Vec<_>>(), expected);
    }

    #[rstest]
    #[case("<=1.0.0-next")]
    #[case("!=1.0.0-x")]
    #[case(">1.0.0-xyz")]
    #[case("1.0.0-next")]
    #[case("1.0.0\n2.0.0")]
    #[case("x")]
    #[case(">=1.02.x")]
    #[case("1.0.0 ||")]
    #[case("|| 1.0.0")]
    #[case("1.0.0||2.0.0")]
    #[case("")]
    #[case(" ")]
    #[case("0")]
    #[case("1.2")]
    #[case("1.0.0-99999999999999999999")]
    #[case("1.0.0-01")]
    #[case("1.0.0+x")]
    #[case("<=1.9223372036854775807.x")]
    #[case("<=1.-2.x")]
    #[case("1.2.x.x")]
    #[case("<=1.2.3.x")]
    #[case(">=1.2.3.x")]
    #[case("1.x.2")]
    #[case("v1.0.0")]
    fn what_upstream_refuses_is_no_range(#[case] text: &str) {
        assert!(text.parse::<Range>().is_err(), "{text}");
    }

    /// Upstream reads it, and panics when it is asked of a version.
    #[test]
    fn nothing_between_two_alternatives_is_no_range() {
        assert!("1.0.0 || || 2.0.0".parse::<Range>().is_err());
    }
}
