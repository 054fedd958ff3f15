//! A client with little patience, and the image that it moves.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roadstead::olm::oci::credentials::{Credentials, Secret};
use roadstead::olm::oci::registry::{Limits, Options, Registry};
use roadstead::olm::oci::{Content, Created, Name, Platform, bundle};

use crate::broken_bundles::plain;
use crate::played_registry::{Played, Reply, Seen};

pub const PASSWORD: &str = "geheim-17";

pub fn image() -> Content {
    let folder = tempfile::tempdir().unwrap();
    plain().write(folder.path());
    bundle::image(folder.path(), &[Platform::linux("amd64")], Created::default()).unwrap()
}

pub fn name(host: &str) -> Name {
    Name::of("IMAGE", &format!("{host}/me/widgets-bundle:v1")).unwrap()
}

pub fn hasty() -> Options {
    Options {
        limits: Limits {
            answer: Duration::from_millis(700),
            attempts: 3,
            pause: Duration::from_millis(5),
            ..Limits::default()
        },
        ..Options::default()
    }
}

pub fn password() -> Option<Credentials> {
    Some(Credentials::Password {
        user: "me".to_owned(),
        password: Secret::new(PASSWORD),
    })
}

pub struct Client {
    pub options: Options,
    pub credentials: Option<Credentials>,
    pub host: String,
}

impl Client {
    pub fn of(played: &Played) -> Self {
        Self {
            options: hasty(),
            credentials: None,
            host: played.host.clone(),
        }
    }

    pub fn with(mut self, credentials: Option<Credentials>) -> Self {
        self.credentials = credentials;
        self
    }

    pub fn registry(&self) -> Registry {
        let credentials = self.credentials.clone();
        Registry::new(&name(&self.host), credentials, &self.options, Arc::new(())).unwrap()
    }

    /// The image's digest, or what a person would be told.
    pub async fn push(&self) -> Result<String, String> {
        let pushed = self.registry().push(&image()).await;
        pushed.map(|digest| digest.to_string()).map_err(told)
    }

    pub async fn pull(&self) -> Result<Content, String> {
        let folder = tempfile::tempdir().unwrap();
        let pulled = self.registry().pull(None, folder.path()).await.map_err(told)?;
        pulled.verify().map_err(|error| error.to_string())?;
        Ok(pulled)
    }
}

/// Whatever goes wrong, a secret is not told.
pub fn told(error: roadstead::olm::oci::Error) -> String {
    let text = format!("{error} {error:?}");
    let encoded = STANDARD.encode(format!("me:{PASSWORD}"));
    assert!(!text.contains(PASSWORD) && !text.contains(&encoded), "{text}");
    error.to_string()
}

/// A registry with the image in it.
pub async fn filled() -> Played {
    let played = Played::start(None).await;
    Client::of(&played).push().await.unwrap();
    played.forget();
    played
}

pub fn basic() -> String {
    format!("Basic {}", STANDARD.encode(format!("me:{PASSWORD}")))
}

/// Lets nobody in without `wanted`, and says that it wants `challenge`.
pub fn guarded(wanted: String, challenge: String) -> impl FnMut(&Seen) -> Option<Reply> + Send {
    move |seen: &Seen| {
        let is_known = seen.authorization.as_deref() == Some(&*wanted);
        let is_let_in = is_known || !seen.path.starts_with("/v2/");
        (!is_let_in).then(|| Reply::new(401, "").with("www-authenticate", challenge.clone()))
    }
}

pub fn bearer(realm: &str) -> String {
    format!(r#"Bearer realm="{realm}",service="the registry",scope="repository:me/widgets-bundle:pull""#)
}
