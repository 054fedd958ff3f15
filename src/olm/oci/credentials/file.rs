use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{Credentials, Secret};
use crate::olm::oci::Error;

/// The longest file, in bytes.
const LARGEST: u64 = 4 << 20;
/// What Docker's client calls Docker Hub.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// The fields that count.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AuthFile {
    auths: BTreeMap<String, Auth>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Auth {
    /// USER:PASSWORD, in base64.
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

/// Of what it holds, nothing is for other eyes.
impl fmt::Debug for AuthFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthFile")
            .field("auths", &self.auths.keys().collect::<Vec<_>>())
            .field("cred_helpers", &self.cred_helpers)
            .field("creds_store", &self.creds_store)
            .finish()
    }
}

/// Reads a file.
///
/// # Errors
/// [`Error::File`]; [`Error::Content`], which tells the line and nothing of what stands there.
pub(super) fn read(path: &Path) -> Result<AuthFile, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
    read.map_err(|source| Error::file("read", path, source))?;
    if bytes.len() as u64 > LARGEST {
        let why = format!("it has more than {LARGEST} bytes, which no file of credentials needs");
        return Err(Error::content(path.display(), why));
    }
    if bytes.trim_ascii().is_empty() {
        return Ok(AuthFile::default());
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        let why = format!(
            "line {}, column {}: it is no file of credentials as `podman login` or `docker login` write it",
            error.line(),
            error.column()
        );
        Error::content(path.display(), why)
    })
}

/// What helpers call a host.
pub(super) fn server(host: &str) -> &str {
    if host == "docker.io" { DOCKER_HUB } else { host }
}

impl AuthFile {
    /// The helper that has what is for a host.
    pub(super) fn helper_of(&self, host: &str) -> Option<&str> {
        let named = self.cred_helpers.get(host);
        let named = named.or_else(|| self.cred_helpers.get(server(host)));
        named.map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The helper that has what is for every host.
    pub(super) fn store(&self) -> Option<&str> {
        Some(&*self.creds_store).filter(|name| !name.is_empty())
    }

    /// What is there for the longest part of HOST/PATH, from its beginning, of which anything is said.
    ///
    /// # Errors
    /// Which entry cannot be read.
    pub(super) fn credentials(&self, host: &str, path: &str) -> Result<Option<Credentials>, String> {
        let whole = format!("{host}/{path}");
        let mut key = &*whole;
        loop {
            if let Some(found) = self.at(key)? {
                return Ok(Some(found));
            }
            match key.rfind('/') {
                Some(slash) => key = &key[..slash],
                None => break,
            }
        }
        // Docker's client has always written hosts as addresses
        let legacy = self.auths.keys().find(|key| {
            let bare = key
                .strip_prefix("https://")
                .or_else(|| key.strip_prefix("http://"));
            let is_hub = host == "docker.io" && key.as_str() == DOCKER_HUB;
            is_hub || bare.is_some_and(|bare| bare.split('/').next() == Some(host))
        });
        legacy.map_or(Ok(None), |key| self.at(key))
    }

    fn at(&self, key: &str) -> Result<Option<Credentials>, String> {
        let Some(auth) = self.auths.get(key) else {
            return Ok(None);
        };
        if !auth.registrytoken.is_empty() {
            return Ok(Some(Credentials::Token(Secret::new(&*auth.registrytoken))));
        }
        if !auth.identitytoken.is_empty() {
            return Ok(Some(Credentials::Identity(Secret::new(&*auth.identitytoken))));
        }
        if auth.auth.is_empty() {
            let is_there = !auth.username.is_empty();
            return Ok(is_there.then(|| Credentials::Password {
                user: auth.username.clone(),
                password: Secret::new(&*auth.password),
            }));
        }
        let wrong = || format!("auths[{key:?}].auth is not USER:PASSWORD in base64; log in again");
        let decoded = STANDARD.decode(auth.auth.trim()).map_err(|_| wrong())?;
        let decoded = String::from_utf8(decoded).map_err(|_| wrong())?;
        let (user, password) = decoded.split_once(':').ok_or_else(wrong)?;
        Ok(Some(Credentials::Password {
            user: user.to_owned(),
            // Some clients have written it with zeros after it
            password: Secret::new(password.trim_end_matches('\0')),
        }))
    }
}
