//! What an image is called, where a registry is to be asked for it.

use std::fmt;
use std::net::IpAddr;

use super::{Digest, Error};
use crate::olm::fbc::image::Reference;

/// The name by which container tools know Docker Hub, and the host that answers for it.
const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";

/// `HOST[:PORT]/PATH` with a tag or a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The host with its port, as it was written.
    pub host: String,
    /// What the host calls the repository.
    pub path: String,
    /// Which of its images.
    pub version: Version,
}

/// Which image of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// What somebody calls it, which may come to mean another.
    Tag(String),
    /// What it is called by its content. A tag beside it says nothing more.
    Digest(Digest),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

impl Name {
    /// Reads a name that has all its parts: nothing is guessed, since what was pushed somewhere else is hard to take back.
    ///
    /// # Errors
    /// [`Error::Value`], with what is missing.
    pub fn of(field: &'static str, text: &str) -> Result<Self, Error> {
        let wrong = |accepted: String| Error::Value {
            field,
            value: text.to_owned(),
            accepted,
        };
        let parts = Reference::of(text).map_err(wrong)?;
        let Some(host) = parts.host else {
            return Err(wrong(
                "it names no registry; write HOST/PATH:TAG, as in registry.example.com/me/widgets-bundle:v1.0.0, or docker.io/me/widgets-bundle:v1.0.0".to_owned(),
            ));
        };
        let version = match (parts.tag, parts.digest) {
            (_, Some(digest)) => Version::Digest(digest.parse().map_err(wrong)?),
            (Some(tag), None) => Version::Tag(tag.to_owned()),
            (None, None) => {
                return Err(wrong(format!(
                    "it names no version; write a tag or a digest, as in {text}:v1.0.0"
                )));
            }
        };
        let path = if host == DOCKER_HUB && !parts.path.contains('/') {
            format!("library/{}", parts.path)
        } else {
            parts.path.to_owned()
        };
        Ok(Self {
            host: host.to_owned(),
            path,
            version,
        })
    }

    /// Reads a name as the kubelet does, which guesses what is left out: Docker Hub, and the tag `latest`.
    ///
    /// # Errors
    /// [`Error::Value`] of what is no name.
    pub fn guessed(field: &'static str, text: &str) -> Result<Self, Error> {
        let parts = Reference::of(text).map_err(|accepted| Error::Value {
            field,
            value: text.to_owned(),
            accepted,
        })?;
        let host = match parts.host {
            Some(_) => String::new(),
            None => format!("{DOCKER_HUB}/"),
        };
        let version = match (parts.tag, parts.digest) {
            (None, None) => ":latest",
            _ => "",
        };
        Self::of(field, &format!("{host}{text}{version}"))
    }

    /// The host to ask.
    pub(super) fn endpoint(&self) -> &str {
        if self.host == DOCKER_HUB {
            DOCKER_HUB_HOST
        } else {
            &self.host
        }
    }

    /// The same repository with the image's digest: how to name what was built or pushed for good.
    pub fn with_digest(&self, digest: &Digest) -> String {
        format!("{}/{}@{digest}", self.host, self.path)
    }

    /// The tag; none where it is named by digest alone.
    pub fn tag(&self) -> Option<&str> {
        match &self.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(_) => None,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.version {
            Version::Tag(_) => ':',
            Version::Digest(_) => '@',
        };
        write!(f, "{}/{}{mark}{}", self.host, self.path, self.version)
    }
}

/// Whether a host, with or without a port, is this machine itself.
pub(super) fn is_loopback(host: &str) -> bool {
    let bare = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn of(text: &str) -> Result<Name, String> {
        Name::of("IMAGE", text).map_err(|error| error.to_string())
    }

    #[rstest]
    #[case("registry.example.com/me/a:v1")]
    #[case("localhost:5000/a:v1")]
    #[case("registry.example.com/a@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")]
    fn a_name_is_read_as_it_is_written(#[case] text: &str) {
        assert_eq!(of(text).unwrap().to_string(), text);
    }

    #[rstest]
    #[case("widgets:v1", "names no registry")]
    #[case("registry.example.com/a", "names no version")]
    #[case("registry.example.com/A:v1", "\"A\" is neither")]
    fn what_is_missing_is_told_with_the_name(#[case] text: &str, #[case] why: &str) {
        let error = of(text).unwrap_err();
        assert!(
            error.starts_with(&format!("IMAGE is {text:?}")) && error.contains(why),
            "{error}"
        );
    }

    #[rstest]
    #[case("nginx", "docker.io/library/nginx:latest")]
    #[case("me/widgets:v1", "docker.io/me/widgets:v1")]
    #[case("localhost:5000/a", "localhost:5000/a:latest")]
    #[case("registry.example.com/me/a:v1", "registry.example.com/me/a:v1")]
    fn what_a_name_leaves_out_is_guessed_as_the_kubelet_does(#[case] text: &str, #[case] name: &str) {
        assert_eq!(Name::guessed("image", text).unwrap().to_string(), name);
    }

    #[test]
    fn docker_hub_is_asked_at_its_own_host_and_for_its_own_paths() {
        let name = of("docker.io/nginx:1").unwrap();
        assert_eq!(
            (name.endpoint(), &*name.path),
            ("registry-1.docker.io", "library/nginx")
        );
    }

    #[rstest]
    #[case("localhost:5000", true)]
    #[case("127.0.0.2", true)]
    #[case("[::1]:5000", true)]
    #[case("localhost.example.com", false)]
    #[case("127.0.0.1.example.com", false)]
    #[case("registry.example.com:5000", false)]
    fn this_machine_is_told_from_others(#[case] host: &str, #[case] expected: bool) {
        assert_eq!(is_loopback(host), expected);
    }
}
