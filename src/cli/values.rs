//! Values of flags: durations, addresses, and values that differ from kind to kind.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use semver::Version;

use crate::api::database::{MAX_MAJOR, MIN_MAJOR};
use crate::package;

/// A length of time as people write it: `5ms`, `1m30s`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let accepted =
        || format!("{text:?} is not a duration; accepted are lengths of time such as 5ms, 15s, 1m30s, 2h");
    let parsed = text.parse::<SignedDuration>().map_err(|_| accepted())?;
    Duration::try_from(parsed).map_err(|_| accepted())
}

/// A semantic version. Tags have a `v` before it, and versions none.
pub(super) fn version(text: &str) -> Result<Version, String> {
    text.parse().map_err(|error| match text.strip_prefix('v') {
        Some(rest) if rest.parse::<Version>().is_ok() => {
            format!("{text:?} is a tag, not a version; accepted is {rest}")
        }
        _ => format!("{text:?} is no semantic version ({error}); accepted are such as 1.0.0 and 1.1.0-rc.1"),
    })
}

/// A duration of more than nothing.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!(
            "{text:?} is no time at all; accepted is more than 0, such as 5ms or 15s"
        )),
        duration => Ok(duration),
    }
}

/// A number of at least one, and at most what makes sense on one machine.
pub(super) fn concurrency(text: &str) -> Result<usize, String> {
    let number = text
        .parse::<usize>()
        .ok()
        .filter(|number| (1..=256).contains(number));
    number.ok_or_else(|| {
        format!("{text:?} is not a number of workers; accepted is a whole number from 1 to 256")
    })
}

/// PostgreSQL's image of a major version: `17=registry.example.org/postgres:17`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PostgresImage {
    pub(super) major: u32,
    pub(super) image: String,
}

impl FromStr for PostgresImage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let accepted = || {
            format!(
                "{text:?} is not MAJOR=IMAGE; accepted are majors from {MIN_MAJOR} to {MAX_MAJOR}, as in 17=postgres:17"
            )
        };
        let (major, image) = text.split_once('=').ok_or_else(accepted)?;
        let major = major
            .trim()
            .parse()
            .ok()
            .filter(|major| (MIN_MAJOR..=MAX_MAJOR).contains(major));
        match (major, image.trim()) {
            (None, _) | (_, "") => Err(accepted()),
            (Some(major), image) => Ok(Self {
                major,
                image: image.to_owned(),
            }),
        }
    }
}

/// PostgreSQL's images by major version: what flags say over what variables say. An empty variable says nothing.
pub(super) fn postgres_images(
    flags: &[PostgresImage],
    variable: impl Fn(&str) -> Option<String>,
) -> BTreeMap<u32, String> {
    let of_variable = |major| {
        let image = variable(&package::postgres_variable(major))?;
        (!image.trim().is_empty()).then(|| (major, image.trim().to_owned()))
    };
    let mut images: BTreeMap<_, _> = (MIN_MAJOR..=MAX_MAJOR).filter_map(of_variable).collect();
    images.extend(flags.iter().map(|flag| (flag.major, flag.image.clone())));
    images
}

/// An address to listen on, or none. Without one, `:PORT`, it is every address, of IPv6 and of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listen(pub(super) Option<SocketAddr>);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let whole = if text.starts_with(':') {
            format!("[::]{text}")
        } else {
            text.to_owned()
        };
        whole.parse().map(|address| Self(Some(address))).map_err(|_| {
            format!("{text:?} is not an address; accepted are IP:PORT, [IPv6]:PORT, :PORT, or off")
        })
    }
}

/// An address that only this machine reaches, or none.
pub(super) fn loopback(text: &str) -> Result<Listen, String> {
    let listen: Listen = text.parse()?;
    match listen.0 {
        Some(address) if !address.ip().is_loopback() => Err(format!(
            "{text:?} can be reached from elsewhere; accepted are 127.0.0.1:PORT, [::1]:PORT, or off"
        )),
        _ => Ok(listen),
    }
}

/// One element of a flag that may differ from kind to kind: `VALUE` for all, `KIND=VALUE` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForKind<T> {
    kind: Option<String>,
    value: T,
}

/// Reads one element, its value with `parse`.
pub(super) fn for_kind<T>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<ForKind<T>, String> {
    match text.split_once('=') {
        Some((kind, value)) => Ok(ForKind {
            kind: Some(kind.trim().to_lowercase()),
            value: parse(value.trim())?,
        }),
        None => Ok(ForKind {
            kind: None,
            value: parse(text.trim())?,
        }),
    }
}

/// The elements of such a flag, put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PerKind<T> {
    default: T,
    kinds: BTreeMap<String, T>,
}

impl<T: Copy> PerKind<T> {
    /// The last element counts, of those for all kinds and of those for each kind; without any, `default` does.
    ///
    /// # Errors
    /// When an element names a kind that is not among `known`.
    pub(super) fn new(
        flag: &str,
        default: T,
        elements: &[ForKind<T>],
        known: &[&str],
    ) -> Result<Self, String> {
        let mut whole = Self {
            default,
            kinds: BTreeMap::new(),
        };
        for element in elements {
            match &element.kind {
                None => whole.default = element.value,
                Some(kind) if known.contains(&kind.as_str()) => {
                    whole.kinds.insert(kind.clone(), element.value);
                }
                Some(kind) => {
                    let known = if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join(", ")
                    };
                    return Err(format!(
                        "--{flag}: {kind:?} is not a kind of this operator; accepted are {known}"
                    ));
                }
            }
        }
        Ok(whole)
    }

    pub(super) fn of(&self, kind: &str) -> T {
        self.kinds.get(kind).copied().unwrap_or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("5ms", 5)]
    #[case("15s", 15_000)]
    #[case("1m30s", 90_000)]
    #[case("0s", 0)]
    fn durations_are_read_as_people_write_them(#[case] text: &str, #[case] milliseconds: u64) {
        assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)));
    }

    #[rstest]
    #[case("15")]
    #[case("-1s")]
    #[case("soon")]
    #[case("")]
    fn what_is_no_duration_is_named_with_what_is_accepted(#[case] text: &str) {
        let error = duration(text).unwrap_err();
        assert!(
            error.contains(&format!("{text:?}")) && error.contains("5ms"),
            "{error}"
        );
    }

    #[rstest]
    #[case("off", None)]
    #[case(":8080", Some("[::]:8080"))]
    #[case("127.0.0.1:1", Some("127.0.0.1:1"))]
    #[case("[::]:8080", Some("[::]:8080"))]
    fn addresses_are_read_as_people_write_them(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(
            text.parse(),
            Ok(Listen(expected.map(|address| address.parse().unwrap())))
        );
    }

    #[test]
    fn the_admin_listener_cannot_be_opened_to_others() {
        assert!(loopback("0.0.0.0:1").unwrap_err().contains("127.0.0.1:PORT"));
        assert!(loopback("[::1]:1").is_ok());
    }

    #[rstest]
    #[case("postgres:17")]
    #[case("13=postgres:13")]
    #[case("17=")]
    #[case("latest=postgres:latest")]
    fn what_is_no_image_of_a_major_version_is_named_with_what_is_accepted(#[case] text: &str) {
        let error = text.parse::<PostgresImage>().unwrap_err();
        assert!(
            error.contains(&format!("{text:?}")) && error.contains("14 to 18"),
            "{error}"
        );
    }

    #[test]
    fn an_image_of_a_flag_goes_before_that_of_a_variable_and_an_empty_variable_says_nothing() {
        let flags = ["17=b", "17=example.org:5000/c"].map(|text| text.parse().unwrap());
        let variable = |name: &str| match name {
            "RELATED_IMAGE_POSTGRES_14" => Some(String::new()),
            "RELATED_IMAGE_POSTGRES_16" | "RELATED_IMAGE_POSTGRES_17" => Some("a".to_owned()),
            _ => None,
        };
        assert_eq!(
            postgres_images(&flags, variable),
            [(16, "a".to_owned()), (17, "example.org:5000/c".to_owned())].into()
        );
    }

    #[test]
    fn a_value_for_one_kind_leaves_the_others_alone() {
        let elements = ["1s", "myproxy=10ms", "2s"].map(|text| for_kind(text, duration).unwrap());
        let whole = PerKind::new("backoff-base", Duration::ZERO, &elements, &["myproxy"]).unwrap();
        assert_eq!(whole.of("myproxy"), Duration::from_millis(10));
        assert_eq!(whole.of("other"), Duration::from_secs(2));
    }

    #[test]
    fn a_kind_that_is_none_is_named_with_those_there_are() {
        let element = for_kind("mypoxy=1s", duration).unwrap();
        let error = PerKind::new("backoff-base", Duration::ZERO, &[element], &["myproxy"]).unwrap_err();
        assert_eq!(
            error,
            "--backoff-base: \"mypoxy\" is not a kind of this operator; accepted are myproxy"
        );
    }
}
