use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Method, StatusCode, header};

use super::failure::Failure;
use super::payload::Payload;
use super::pull::DIGEST;
use super::retry::retrying;
use super::{Ask, Registry, answer, resolve};
use crate::olm::oci::content::Blob;
use crate::olm::oci::{Content, Descriptor, Digest, Error, Version};

impl Registry {
    /// Pushes an image with all that it is made of, and gives its digest. What the registry has already is not sent again.
    ///
    /// # Errors
    /// [`Error::Registry`]; [`Error::Content`] of an image that lacks something; [`Error::Value`] if it is to have another digest.
    pub async fn push(&mut self, content: &Content) -> Result<Digest, Error> {
        self.actions = "pull,push";
        if let Version::Digest(digest) = &self.name.version
            && *digest != content.root.digest
        {
            return Err(Error::Value {
                field: "IMAGE",
                value: self.name.to_string(),
                accepted: format!(
                    "the image has the digest {}; name it by that, or by a tag",
                    content.root.digest
                ),
            });
        }
        let mut seen = BTreeSet::new();
        let mut children = Vec::new();
        for (descriptor, manifest) in content.manifests()? {
            for part in std::iter::once(&manifest.config).chain(&manifest.layers) {
                if seen.insert(part.digest.clone()) {
                    self.part(part, content.blob(part)?).await?;
                }
            }
            if descriptor.digest != content.root.digest {
                children.push(descriptor);
            }
        }
        for child in children {
            let bytes = content.document(&child)?.into();
            let version = Version::Digest(child.digest.clone());
            self.manifest(&version, &child, &bytes).await?;
        }
        let bytes = content.document(&content.root)?.into();
        let version = self.name.version.clone();
        self.manifest(&version, &content.root, &bytes).await?;
        Ok(content.root.digest.clone())
    }

    async fn part(&mut self, part: &Descriptor, blob: &Blob) -> Result<(), Failure> {
        let (limits, watch) = (self.limits(), self.watch.clone());
        retrying(limits, &*watch, async || {
            self.watch.begins(&part.digest.to_string(), part.size);
            let is_there = self.has(part).await?;
            if !is_there {
                self.upload(part, blob).await?;
            }
            self.watch
                .ends(if is_there { "is there already" } else { "pushed" });
            Ok(())
        })
        .await
    }

    async fn has(&mut self, part: &Descriptor) -> Result<bool, Failure> {
        let ask = Ask {
            method: Method::HEAD,
            uri: self.uri(&format!("blobs/{}", part.digest))?,
            accept: "*/*",
            payload: Payload::Nothing,
            time: self.limits().answer,
        };
        let response = self.exchange(&ask).await?;
        match response.status() {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            _ => Err(self.refused(&ask, response).await),
        }
    }

    /// Sends it as a whole: first the registry is asked where to.
    async fn upload(&mut self, part: &Descriptor, blob: &Blob) -> Result<(), Failure> {
        let ask = Ask {
            method: Method::POST,
            uri: self.uri("blobs/uploads/")?,
            accept: "*/*",
            payload: Payload::Nothing,
            time: self.limits().answer,
        };
        let response = self.exchange(&ask).await?;
        if response.status() != StatusCode::ACCEPTED {
            return Err(self.refused(&ask, response).await);
        }
        let location = answer::text_header(&response, &header::LOCATION);
        let wrong = |why: String| Failure::never(&ask.told(), why);
        let location =
            location.ok_or_else(|| wrong("it does not say where to send it (Location)".to_owned()))?;
        let mark = if location.contains('?') { '&' } else { '?' };
        let whole = format!("{location}{mark}digest={}", part.digest);
        let ask = Ask {
            method: Method::PUT,
            uri: resolve(&ask.uri, &whole).map_err(wrong)?,
            accept: "*/*",
            payload: Payload::Blob(blob),
            time: self.limits().transfer(part.size),
        };
        let response = self.exchange(&ask).await?;
        match response.status() {
            StatusCode::CREATED | StatusCode::NO_CONTENT => confirm(&ask, &response, &part.digest),
            _ => Err(self.refused(&ask, response).await),
        }
    }

    async fn manifest(
        &mut self,
        version: &Version,
        descriptor: &Descriptor,
        bytes: &Bytes,
    ) -> Result<(), Failure> {
        let (limits, watch) = (self.limits(), self.watch.clone());
        self.watch.begins(&format!("manifest {version}"), descriptor.size);
        retrying(limits, &*watch, async || {
            let ask = Ask {
                method: Method::PUT,
                uri: self.uri(&format!("manifests/{version}"))?,
                accept: "*/*",
                payload: Payload::Document {
                    media_type: &descriptor.media_type,
                    bytes,
                },
                time: limits.answer,
            };
            let response = self.exchange(&ask).await?;
            match response.status() {
                StatusCode::CREATED | StatusCode::OK | StatusCode::ACCEPTED => {
                    confirm(&ask, &response, &descriptor.digest)
                }
                _ => Err(self.refused(&ask, response).await),
            }
        })
        .await?;
        self.watch.ends("pushed");
        Ok(())
    }
}

/// Whether the registry calls it what it is called here, if it says so at all.
fn confirm(
    ask: &Ask<'_>,
    response: &http::Response<hyper::body::Incoming>,
    sent: &Digest,
) -> Result<(), Failure> {
    let said = response.headers().get(DIGEST).and_then(|said| said.to_str().ok());
    match said.map(str::parse::<Digest>) {
        Some(Ok(kept)) if kept != *sent => {
            let why = format!("the registry keeps {kept}, and {sent} was sent");
            Err(Failure::never(&ask.told(), why))
        }
        _ => Ok(()),
    }
}
