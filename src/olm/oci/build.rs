//! An image put together: layers, and how they are run.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;

use super::content::Blob;
use super::layer::{Layer, Packed};
use super::types::{Index, Manifest, media};
use super::{Content, Descriptor, Digest, Error, Platform};

/// The time that all of an image has, so that the same content is the same image: seconds since 1970, or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Created(u64);

impl Created {
    /// The time after so many seconds, as in `SOURCE_DATE_EPOCH`.
    ///
    /// # Errors
    /// When that is beyond the year 9999.
    pub fn after(seconds: u64) -> Result<Self, String> {
        let is_time =
            i64::try_from(seconds).is_ok_and(|seconds| jiff::Timestamp::from_second(seconds).is_ok());
        is_time
            .then_some(Self(seconds))
            .ok_or_else(|| format!("{seconds} is beyond the year 9999; accepted are seconds since 1970"))
    }

    fn text(self) -> String {
        let moment = i64::try_from(self.0).map(jiff::Timestamp::from_second);
        moment.ok().and_then(Result::ok).unwrap_or_default().to_string()
    }
}

/// How an image is run, and what it says of itself.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Run {
    /// USER[:GROUP], by number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) user: String,
    /// `NAME=VALUE` each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) env: Vec<String>,
    /// The program and its first arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) entrypoint: Vec<String>,
    /// The arguments that somebody else's take the place of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cmd: Vec<String>,
    /// Labels, by their names.
    pub(super) labels: BTreeMap<String, String>,
}

/// What becomes an image.
#[derive(Debug)]
pub(super) struct Plan {
    /// What each platform has: layers that several share are there once.
    pub(super) platforms: Vec<(Platform, Vec<Packing>)>,
    /// How it is run.
    pub(super) run: Run,
    /// Its time.
    pub(super) created: Created,
    /// By which command, for the history.
    pub(super) made_by: &'static str,
}

/// A layer that is packed.
#[derive(Debug, Clone)]
pub(super) struct Packing(Packed);

impl Packing {
    /// Packs a layer.
    ///
    /// # Errors
    /// [`Error::Content`]: a name that an archive cannot hold.
    pub(super) fn of(layer: &Layer, created: Created) -> Result<Self, Error> {
        layer
            .pack(created.0)
            .map(Self)
            .map_err(|error| Error::content("the layer", error.to_string()))
    }
}

#[derive(Serialize)]
struct Config<'a> {
    architecture: &'a str,
    config: &'a Run,
    created: &'a str,
    history: Vec<History<'a>>,
    os: &'a str,
    rootfs: RootFs<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<&'a str>,
}

#[derive(Serialize)]
struct History<'a> {
    created: &'a str,
    created_by: &'a str,
}

#[derive(Serialize)]
struct RootFs<'a> {
    diff_ids: Vec<&'a Digest>,
    r#type: &'static str,
}

impl Plan {
    /// Makes the image: a manifest for one platform, an index for several.
    ///
    /// # Errors
    /// [`Error::Content`]: no platform, or one of them twice.
    pub(super) fn build(&self) -> Result<Content, Error> {
        let mut blobs = BTreeMap::new();
        let mut manifests: Vec<Descriptor> = Vec::new();
        for (platform, layers) in &self.platforms {
            if manifests
                .iter()
                .any(|other| other.platform.as_ref() == Some(platform))
            {
                let why = format!("{platform} is there twice; name each platform once");
                return Err(Error::content("the image", why));
            }
            let mut manifest = self.manifest(platform, layers, &mut blobs)?;
            manifest.platform = Some(platform.clone());
            manifests.push(manifest);
        }
        let root = match &mut manifests[..] {
            [] => return Err(Error::content("the image", "it is for no platform")),
            // As other builders do: the configuration says what it is for
            [only] => Descriptor {
                platform: None,
                ..only.clone()
            },
            _ => {
                let index = Index {
                    schema_version: 2,
                    media_type: media::INDEX.to_owned(),
                    manifests,
                };
                keep(&mut blobs, media::INDEX, &index)?
            }
        };
        Ok(Content {
            root,
            blobs,
            place: "the image".to_owned(),
        })
    }

    fn manifest(
        &self,
        platform: &Platform,
        layers: &[Packing],
        blobs: &mut BTreeMap<Digest, Blob>,
    ) -> Result<Descriptor, Error> {
        let created = &self.created.text();
        let history = |_| History {
            created,
            created_by: self.made_by,
        };
        let config = Config {
            architecture: &platform.architecture,
            config: &self.run,
            created,
            history: layers.iter().map(history).collect(),
            os: &platform.os,
            rootfs: RootFs {
                diff_ids: layers.iter().map(|layer| &layer.0.diff_id).collect(),
                r#type: "layers",
            },
            variant: platform.variant.as_deref(),
        };
        for Packing(layer) in layers {
            blobs.insert(layer.descriptor.digest.clone(), Blob::Memory(layer.bytes.clone()));
        }
        let manifest = Manifest {
            schema_version: 2,
            media_type: media::MANIFEST.to_owned(),
            config: keep(blobs, media::CONFIG, &config)?,
            layers: layers.iter().map(|layer| layer.0.descriptor.clone()).collect(),
        };
        keep(blobs, media::MANIFEST, &manifest)
    }
}

fn keep(
    blobs: &mut BTreeMap<Digest, Blob>,
    media_type: &str,
    value: &impl Serialize,
) -> Result<Descriptor, Error> {
    let bytes = serde_json::to_vec(value).map_err(|error| Error::content(media_type, error.to_string()))?;
    let descriptor = Descriptor::of(media_type, &bytes);
    blobs.insert(descriptor.digest.clone(), Blob::Memory(Bytes::from(bytes)));
    Ok(descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(platforms: &[&str]) -> Plan {
        let mut layer = Layer::default();
        layer.file("a", Bytes::from_static(b"a"), false);
        let packing = Packing::of(&layer, Created::default()).unwrap();
        let of = |text: &&str| (text.parse().unwrap(), vec![packing.clone()]);
        Plan {
            platforms: platforms.iter().map(of).collect(),
            run: Run::default(),
            created: Created::default(),
            made_by: "a test",
        }
    }

    #[test]
    fn several_platforms_share_the_layer_and_have_an_index() {
        let image = plan(&["linux/amd64", "linux/arm64"]).build().unwrap();
        // An index, two manifests, two configurations and one layer
        assert_eq!((&*image.root.media_type, image.blobs.len()), (media::INDEX, 6));
        let manifests = image.manifests().unwrap();
        assert_eq!(manifests[0].1.layers, manifests[1].1.layers);
        assert!(image.manifest(&Platform::linux("arm64")).is_ok());
        let error = image.manifest(&Platform::linux("s390x")).unwrap_err().to_string();
        assert!(
            error.contains("linux/s390x") && error.contains("linux/arm64"),
            "{error}"
        );
    }

    #[test]
    fn a_platform_is_there_once() {
        let error = plan(&["linux/amd64", "linux/amd64"]).build().unwrap_err();
        assert!(error.to_string().contains("linux/amd64 is there twice"));
    }

    #[test]
    fn the_time_is_a_date_and_the_configuration_has_it() {
        assert_eq!(Created::after(86_400).unwrap().text(), "1970-01-02T00:00:00Z");
        assert!(Created::after(u64::MAX).unwrap_err().contains("9999"));
    }
}
