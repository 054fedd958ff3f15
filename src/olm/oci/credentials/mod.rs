//! What a registry is shown, from the files in which container tools keep it: `containers-auth.json(5)` and Docker's `config.json`.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::{Error, Name};

mod file;
mod helper;

/// What nobody else is to see: it is neither printed nor logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// For the one whom it is for.
    pub(super) fn shown(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// By what somebody is known to a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A user with a password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// What the registry's token service gives tokens for (OAuth2's refresh token).
    Identity(Secret),
    /// A token as it is.
    Token(Secret),
}

/// The files that are looked at, in this order.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// It was named, so it has to be there, and no other one counts.
    pub named: Option<PathBuf>,
    /// Those that are where they always are, if they are there at all.
    pub usual: Vec<PathBuf>,
}

/// Where podman, buildah, skopeo and docker keep credentials, in the order in which the first three look: of the session, of the user, Docker's. `variable`
/// gives a variable of the environment, and `user` is the number of who asks.
pub fn usual(variable: impl Fn(&'static str) -> Option<OsString>, user: u32) -> Vec<PathBuf> {
    let folder = |name| variable(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let at_home = |below: &str| folder("HOME").map(|home| home.join(below));
    let run = folder("XDG_RUNTIME_DIR").map(|run| run.join("containers"));
    // As podman does where nobody has logged in to the machine by a session
    let run = run.unwrap_or_else(|| PathBuf::from(format!("/run/containers/{user}")));
    let config = folder("XDG_CONFIG_HOME").or_else(|| at_home(".config"));
    let docker = folder("DOCKER_CONFIG").or_else(|| at_home(".docker"));
    let user = config.map(|config| config.join("containers/auth.json"));
    let docker = docker.map(|docker| docker.join("config.json"));
    std::iter::once(run.join("auth.json"))
        .chain(user)
        .chain(docker)
        .collect()
}

impl Files {
    /// What the first file that knows the repository, one above it or its host says. Without any the registry is asked as nobody.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Content`] of a file that cannot be read; [`Error::Credentials`] of a helper that fails.
    pub async fn of(&self, name: &Name) -> Result<Option<Credentials>, Error> {
        if let Some(named) = &self.named {
            return of_file(named, &file::read(named)?, name).await;
        }
        for path in &self.usual {
            if !path.exists() {
                continue;
            }
            let found = of_file(path, &file::read(path)?, name).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

async fn of_file(path: &Path, file: &file::AuthFile, name: &Name) -> Result<Option<Credentials>, Error> {
    let server = file::server(&name.host);
    if let Some(helper) = file.helper_of(&name.host) {
        return helper::get(helper, server).await;
    }
    let wrong = |why| Error::content(path.display(), why);
    if let Some(found) = file.credentials(&name.host, &name.path).map_err(wrong)? {
        return Ok(Some(found));
    }
    match file.store() {
        Some(store) => helper::get(store, server).await,
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
