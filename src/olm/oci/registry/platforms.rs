//! What an image is for. Of its layers nothing is asked.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::failure::Failure;
use super::retry::retrying;
use super::{Registry, answer};
use crate::olm::oci::types::{Document, Index, LARGEST_DOCUMENT, media};
use crate::olm::oci::{Descriptor, Error, Platform};

impl Registry {
    /// The platforms that the image is for: those that its index names, or the one of its configuration where it has no index. Builders file attestations in an
    /// index as `unknown/unknown`, which is given as it is.
    ///
    /// # Errors
    /// [`Error::Registry`]; [`Error::Content`] of what is no image, or does not say what it is for.
    pub async fn platforms(&mut self) -> Result<BTreeSet<Platform>, Error> {
        let (place, version) = (self.name.to_string(), self.name.version.clone());
        let (root, bytes) = self.root(&version).await?;
        let platforms = match Document::read(&place, &root.media_type, &bytes)? {
            // Upstream's validator reads lists alone, so for it an image for one platform is for none, and refused
            Document::Manifest(manifest) => match self.configured(&manifest.config).await? {
                Some(platform) => BTreeSet::from([platform]),
                None => {
                    let why = "its configuration names no architecture and OS";
                    return Err(Error::content(place, why));
                }
            },
            Document::Index(index) => self.indexed(index).await?,
        };
        let called = self.name.path.rsplit('/').next().unwrap_or_default();
        self.watch.begins(called, root.size);
        self.watch.ends("looked at");
        Ok(platforms)
    }

    /// An index need not say what its images are for, as those do themselves. Other things that are filed in it are passed over.
    async fn indexed(&mut self, index: Index) -> Result<BTreeSet<Platform>, Error> {
        let mut platforms = BTreeSet::new();
        for descriptor in index.manifests {
            let is_image = [media::MANIFEST, media::DOCKER_MANIFEST].contains(&&*descriptor.media_type);
            if let Some(platform) = descriptor.platform {
                platforms.insert(platform);
            } else if is_image {
                let (manifest, _) = self.child(&descriptor).await?;
                platforms.extend(self.configured(&manifest.config).await?);
            }
        }
        Ok(platforms)
    }

    /// What a configuration says that the image is for; that of an artifact says nothing.
    async fn configured(&mut self, config: &Descriptor) -> Result<Option<Platform>, Error> {
        let Descriptor { digest, size, .. } = config;
        if *size > LARGEST_DOCUMENT {
            let why = format!("its configuration has {size} bytes; {LARGEST_DOCUMENT} are accepted");
            return Err(Error::content(&self.name, why));
        }
        let (limits, watch) = (self.limits(), self.watch.clone());
        let bytes = retrying(limits, &*watch, async || self.document_of(config).await).await?;
        let found = digest.same_of(&bytes);
        if found != *digest {
            let why = format!("what came as its configuration {digest} has the digest {found}");
            return Err(Error::content(&self.name, why));
        }
        // It has the fields of a platform among others
        let said = serde_json::from_slice::<Platform>(&bytes).ok();
        Ok(said.filter(|platform| !platform.os.is_empty() && !platform.architecture.is_empty()))
    }

    async fn document_of(&mut self, part: &Descriptor) -> Result<Bytes, Failure> {
        let (asked, response) = self.open(part).await?;
        answer::body(&asked, response, part.size, self.limits()).await
    }
}
