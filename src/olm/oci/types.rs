//! The documents of an image, in the form of OCI and in that of Docker before it, which have the same fields.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Digest, Error};

/// Types of content.
pub(super) mod media {
    pub(in crate::olm::oci) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    pub(in crate::olm::oci) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    pub(in crate::olm::oci) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    pub(in crate::olm::oci) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
    pub(in crate::olm::oci) const DOCKER_LIST: &str =
        "application/vnd.docker.distribution.manifest.list.v2+json";
    pub(in crate::olm::oci) const DOCKER_MANIFEST: &str =
        "application/vnd.docker.distribution.manifest.v2+json";
    /// Those of a document that an image begins with.
    pub(in crate::olm::oci) const DOCUMENTS: [&str; 4] = [INDEX, MANIFEST, DOCKER_LIST, DOCKER_MANIFEST];
}

/// The longest manifest or index, in bytes: registries accept no longer one.
pub(super) const LARGEST_DOCUMENT: u64 = 4 << 20;
/// Manifests of an index.
const MOST_MANIFESTS: usize = 64;
/// Layers of an image: containers have no more.
const MOST_LAYERS: usize = 128;

/// What is meant, by its type, digest and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The type of the content.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its size, in bytes.
    pub size: u64,
    /// In an index: what it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// In the index of a layout: what it is called.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    pub(super) fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            platform: None,
            annotations: BTreeMap::new(),
        }
    }
}

/// What a program runs on: `OS/ARCHITECTURE`, and for some a variant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Platform {
    /// As Go calls it: `amd64`, `arm64`, `ppc64le`, `s390x`.
    pub architecture: String,
    /// As Go calls it: `linux`.
    pub os: String,
    /// Such as `v8` of `arm64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    /// `linux` on an architecture.
    pub fn linux(architecture: &str) -> Self {
        Self {
            architecture: architecture.to_owned(),
            os: "linux".to_owned(),
            variant: None,
        }
    }

    /// Whether what is built for `self` is what somebody asks for: a variant counts where it is asked for.
    pub(super) fn serves(&self, asked: &Self) -> bool {
        let is_variant = asked.variant.is_none() || asked.variant == self.variant;
        self.os == asked.os && self.architecture == asked.architecture && is_variant
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant
            .iter()
            .try_for_each(|variant| write!(f, "/{variant}"))
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_word = |word: &&str| {
            let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            !word.is_empty() && word.bytes().all(is_inner)
        };
        let parts: Vec<&str> = text.split('/').filter(is_word).collect();
        let of = |os: &str, architecture: &str, variant: Option<&str>| Self {
            architecture: architecture.to_owned(),
            os: os.to_owned(),
            variant: variant.map(str::to_owned),
        };
        match parts[..] {
            [os, architecture] if text.matches('/').count() == 1 => Ok(of(os, architecture, None)),
            [os, architecture, variant] if text.matches('/').count() == 2 => {
                Ok(of(os, architecture, Some(variant)))
            }
            _ => Err(format!(
                "{text:?} is no platform; accepted is OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, as in linux/amd64"
            )),
        }
    }
}

/// An image for one platform.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) schema_version: u32,
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
}

/// The same image for several platforms, or the images of a layout.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    pub(super) schema_version: u32,
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) manifests: Vec<Descriptor>,
}

/// What an image begins with.
#[derive(Debug)]
pub(super) enum Document {
    Manifest(Manifest),
    Index(Index),
}

impl Document {
    /// Reads one of the type that its descriptor, or the registry, gives.
    ///
    /// # Errors
    /// [`Error::Content`] of what cannot be read, or is more than an image has.
    pub(super) fn read(place: &str, media_type: &str, bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |why: String| Error::content(place, why);
        match media_type {
            media::INDEX | media::DOCKER_LIST => {
                let index: Index = serde_json::from_slice(bytes)
                    .map_err(|why| wrong(format!("it is no index of images: {why}")))?;
                same_type(media_type, &index.media_type).map_err(wrong)?;
                match index.manifests.len() {
                    1..=MOST_MANIFESTS => Ok(Self::Index(index)),
                    count => Err(wrong(format!(
                        "it lists {count} manifests; accepted are 1 to {MOST_MANIFESTS}"
                    ))),
                }
            }
            media::MANIFEST | media::DOCKER_MANIFEST => {
                let manifest: Manifest = serde_json::from_slice(bytes)
                    .map_err(|why| wrong(format!("it is no manifest: {why}")))?;
                same_type(media_type, &manifest.media_type).map_err(wrong)?;
                match manifest.layers.len() {
                    0..=MOST_LAYERS => Ok(Self::Manifest(manifest)),
                    count => Err(wrong(format!(
                        "it has {count} layers; {MOST_LAYERS} are accepted"
                    ))),
                }
            }
            other => Err(wrong(format!(
                "its type is {other:?}; accepted are manifests and indexes of OCI, and of Docker's schema 2"
            ))),
        }
    }
}

/// What a document says that it is, where it does: it may be read in two ways, under the same digest.
fn same_type(given: &str, said: &str) -> Result<(), String> {
    if said.is_empty() || said == given {
        return Ok(());
    }
    Err(format!(
        "it says that its type is {said:?}, and was given as {given:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("linux/amd64")]
    #[case("linux/arm64/v8")]
    fn a_platform_is_read_as_it_is_written(#[case] text: &str) {
        assert_eq!(text.parse::<Platform>().unwrap().to_string(), text);
    }

    #[rstest]
    #[case("amd64")]
    #[case("linux/")]
    #[case("linux//v8")]
    #[case("Linux/amd64")]
    #[case("linux/arm64/v8/x")]
    fn what_is_no_platform_is_told_with_what_would_be(#[case] text: &str) {
        let error = text.parse::<Platform>().unwrap_err();
        assert!(error.contains(text) && error.contains("linux/amd64"), "{error}");
    }

    #[test]
    fn a_variant_counts_where_it_is_asked_for() {
        let of = |text: &str| text.parse::<Platform>().unwrap();
        assert!(of("linux/arm64/v8").serves(&of("linux/arm64")));
        assert!(!of("linux/arm64").serves(&of("linux/arm64/v8")));
        assert!(!of("linux/arm64").serves(&of("linux/amd64")));
    }

    #[test]
    fn what_an_image_begins_with_has_bounds_and_a_known_type() {
        let told =
            |media_type: &str, bytes: &[u8]| Document::read("x", media_type, bytes).unwrap_err().to_string();
        assert!(told("text/plain", b"{}").contains("\"text/plain\""));
        assert!(told(media::INDEX, br#"{"schemaVersion":2,"manifests":[]}"#).contains("0 manifests"));
        assert!(told(media::MANIFEST, b"[]").contains("no manifest"));
        let other = format!(
            r#"{{"schemaVersion":2,"mediaType":{:?},"manifests":[]}}"#,
            media::MANIFEST
        );
        assert!(told(media::INDEX, other.as_bytes()).contains("was given as"));
    }
}
