use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout, timeout_at};

use super::failure::Failure;
use super::payload::Payload;
use super::retry::retrying;
use super::{Ask, Registry, answer, transport};
use crate::olm::oci::content::{Blob, no_platform};
use crate::olm::oci::types::{Document, Index, LARGEST_DOCUMENT, media};
use crate::olm::oci::{Content, Descriptor, Digest, Error, Platform, Version};

/// The header by which a registry says what a manifest is called.
pub(super) const DIGEST: &str = "docker-content-digest";

impl Registry {
    /// Pulls the image with all that it is made of, its layers into files of a folder. Of an index, what is for one platform if one is given, else all.
    ///
    /// # Errors
    /// [`Error::Registry`]; [`Error::Content`] of what is no image, or is larger than the limits say; [`Error::File`].
    pub async fn pull(&mut self, platform: Option<&Platform>, folder: &Path) -> Result<Content, Error> {
        let place = self.name.to_string();
        let mut blobs = BTreeMap::new();
        let version = self.name.version.clone();
        let (mut root, bytes) = self.root(&version).await?;
        let mut manifests = Vec::new();
        match Document::read(&place, &root.media_type, &bytes)? {
            Document::Manifest(manifest) => manifests.push(manifest),
            Document::Index(index) => {
                let chosen = chosen(&place, index, platform)?;
                for descriptor in &chosen {
                    let (manifest, bytes) = self.child(descriptor).await?;
                    manifests.push(manifest);
                    blobs.insert(descriptor.digest.clone(), Blob::Memory(bytes));
                }
                if let (Some(_), Some(only)) = (platform, chosen.into_iter().next()) {
                    root = only;
                }
            }
        }
        blobs.entry(root.digest.clone()).or_insert(Blob::Memory(bytes));
        let config = manifests.iter().map(|manifest| manifest.config.size).max();
        if let Some(size) = config.filter(|size| *size > LARGEST_DOCUMENT) {
            let why = format!("its configuration has {size} bytes; {LARGEST_DOCUMENT} are accepted");
            return Err(Error::content(&self.name, why));
        }
        let parts = manifests
            .into_iter()
            .flat_map(|manifest| std::iter::once(manifest.config).chain(manifest.layers));
        self.parts(parts, folder, &mut blobs).await?;
        Ok(Content { root, blobs, place })
    }

    /// What the image, or the index of images, is called by its content now.
    ///
    /// # Errors
    /// [`Error::Registry`].
    pub async fn digest(&mut self) -> Result<Digest, Error> {
        let version = self.name.version.clone();
        let (root, _) = self.root(&version).await?;
        Ok(root.digest)
    }

    /// Pulls each of these once.
    async fn parts(
        &mut self,
        parts: impl Iterator<Item = Descriptor>,
        folder: &Path,
        blobs: &mut BTreeMap<Digest, Blob>,
    ) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        let parts: Vec<Descriptor> = parts.filter(|part| seen.insert(part.digest.clone())).collect();
        let total = parts.iter().map(|part| part.size).fold(0, u64::saturating_add);
        let largest = self.limits().largest;
        if total > largest {
            let why = format!("it has {total} bytes; {largest} are accepted");
            return Err(Error::content(&self.name, why));
        }
        for part in parts {
            let path = folder.join(part.digest.parts().1);
            self.watch.begins(&part.digest.to_string(), part.size);
            let (limits, watch) = (self.limits(), self.watch.clone());
            retrying(limits, &*watch, async || self.blob(&part, &path).await).await?;
            self.watch.ends("pulled");
            let blob = Blob::File {
                path,
                offset: 0,
                length: part.size,
            };
            blobs.insert(part.digest, blob);
        }
        Ok(())
    }

    /// What the name leads to, and what the registry says it is.
    pub(super) async fn root(&mut self, version: &Version) -> Result<(Descriptor, Bytes), Failure> {
        let (limits, watch) = (self.limits(), self.watch.clone());
        retrying(limits, &*watch, async || self.document(version).await).await
    }

    pub(super) async fn child(
        &mut self,
        descriptor: &Descriptor,
    ) -> Result<(crate::olm::oci::types::Manifest, Bytes), Error> {
        let version = Version::Digest(descriptor.digest.clone());
        let (_, bytes) = self.root(&version).await?;
        let place = format!("{}: {}", self.name, descriptor.digest);
        if bytes.len() as u64 != descriptor.size {
            let why = format!(
                "it has {} bytes, and the index says {}",
                bytes.len(),
                descriptor.size
            );
            return Err(Error::content(place, why));
        }
        match Document::read(&place, &descriptor.media_type, &bytes)? {
            Document::Manifest(manifest) => Ok((manifest, bytes)),
            Document::Index(_) => Err(Error::content(
                place,
                "it is an index within an index, which is not accepted",
            )),
        }
    }

    async fn document(&mut self, version: &Version) -> Result<(Descriptor, Bytes), Failure> {
        let accept = media::DOCUMENTS.join(", ");
        let ask = Ask {
            method: Method::GET,
            uri: self.uri(&format!("manifests/{version}"))?,
            accept: &accept,
            payload: Payload::Nothing,
            time: self.limits().answer,
        };
        let response = self.exchange(&ask).await?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(&ask, response).await);
        }
        let media_type = answer::text_header(&response, &header::CONTENT_TYPE).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim().to_owned();
        let said = response
            .headers()
            .get(DIGEST)
            .and_then(|digest| digest.to_str().ok()?.parse().ok());
        let bytes = answer::body(&ask.told(), response, LARGEST_DOCUMENT, self.limits()).await?;
        let asked = match version {
            Version::Digest(digest) => Some(digest.clone()),
            Version::Tag(_) => None,
        };
        let expected: Option<Digest> = asked.or(said);
        let digest = match &expected {
            Some(expected) => expected.same_of(&bytes),
            None => Digest::of(&bytes),
        };
        if expected.is_some_and(|expected| expected != digest) {
            let why = format!(
                "what came has the digest {digest}, which is not the one that was asked for or announced"
            );
            return Err(Failure::never(&ask.told(), why));
        }
        let mut descriptor = Descriptor::of(&media_type, &bytes);
        descriptor.digest = digest;
        Ok((descriptor, bytes))
    }

    async fn blob(&mut self, part: &Descriptor, path: &Path) -> Result<(), Failure> {
        let (asked, response) = self.open(part).await?;
        self.save(&asked, response.into_body(), part, path).await
    }

    /// A part's bytes as they begin to come, and what was asked, as messages tell it.
    pub(super) async fn open(&mut self, part: &Descriptor) -> Result<(String, Response<Incoming>), Failure> {
        let ask = Ask {
            method: Method::GET,
            uri: self.uri(&format!("blobs/{}", part.digest))?,
            accept: "*/*",
            payload: Payload::Nothing,
            time: self.limits().answer,
        };
        let response = self.exchange(&ask).await?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(&ask, response).await);
        }
        Ok((ask.told(), response))
    }

    /// Writes a body into a file, as far as it is what was meant.
    async fn save(
        &self,
        asked: &str,
        mut body: Incoming,
        part: &Descriptor,
        path: &Path,
    ) -> Result<(), Failure> {
        let limits = self.limits();
        let deadline = Instant::now() + limits.transfer(part.size);
        let local = |error: std::io::Error| {
            Failure::never(asked, format!("cannot write {}: {error}", path.display()))
        };
        let mut file = File::create(path).await.map_err(local)?;
        let (mut hasher, mut left) = (part.digest.hasher(), part.size);
        loop {
            let frame = timeout_at(deadline, timeout(limits.answer, body.frame())).await;
            let late = || {
                Failure::soon(
                    asked,
                    format!(
                        "no more came for too long, and {left} of {} bytes are missing",
                        part.size
                    ),
                )
            };
            let data = match frame.map_err(|_| late())?.map_err(|_| late())? {
                None => break,
                Some(frame) => frame.map_err(|error| {
                    let why = transport::told(&error);
                    Failure::soon(asked, format!("{left} of {} bytes are missing: {why}", part.size))
                })?,
            };
            let data = data.into_data().unwrap_or_default();
            left = left
                .checked_sub(data.len() as u64)
                .ok_or_else(|| Failure::never(asked, format!("more came than {} bytes", part.size)))?;
            hasher.update(&data);
            self.watch.moves(data.len() as u64);
            file.write_all(&data).await.map_err(local)?;
        }
        if left > 0 {
            return Err(Failure::soon(
                asked,
                format!(
                    "the answer ended early: {left} of {} bytes are missing",
                    part.size
                ),
            ));
        }
        let found = hasher.finish();
        if found != part.digest {
            return Err(Failure::never(asked, format!("what came has the digest {found}")));
        }
        file.flush().await.map_err(local)
    }
}

/// Those manifests of an index that are asked for.
fn chosen(place: &str, index: Index, platform: Option<&Platform>) -> Result<Vec<Descriptor>, Error> {
    let Some(platform) = platform else {
        return Ok(index.manifests);
    };
    let serves = |descriptor: &&Descriptor| {
        let found = descriptor.platform.as_ref();
        found.is_some_and(|found| found.serves(platform))
    };
    match index.manifests.iter().find(serves) {
        Some(found) => Ok(vec![found.clone()]),
        None => {
            let found = index.manifests.iter();
            Err(no_platform(
                place,
                platform,
                found.filter_map(|it| it.platform.as_ref()),
            ))
        }
    }
}
