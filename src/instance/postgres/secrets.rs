//! The passwords of users, as they are in Secrets of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use super::bounded::{Deadline, Limit};
use crate::api::database::agent::User;
use crate::api::reference::KeyReference;

/// How many Secrets are asked for at once.
const AT_ONCE: usize = 8;

/// A password. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// This one.
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// What a Secret has, if it is one.
    ///
    /// # Errors
    /// With what it is instead, when nobody could log in with it: PostgreSQL refuses what is empty, and clients end a password at a NUL.
    pub fn of(value: &[u8]) -> Result<Self, &'static str> {
        match std::str::from_utf8(value) {
            Ok("") => Err("empty"),
            Ok(text) if !text.contains('\0') => Ok(Self::new(text)),
            _ => Err("not text"),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// Why a password is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPassword {
    /// The Secret does not have it.
    #[error("{0}")]
    Missing(String),
    /// What the Secret says is not known.
    #[error("Secret {secret} cannot be read: {why}")]
    Unread {
        /// Its name.
        secret: String,
        /// Why.
        why: String,
    },
}

/// The password of each user who is to have one.
pub type Passwords = BTreeMap<String, Result<Password, NoPassword>>;

/// Reads Secrets of one namespace.
#[derive(Clone)]
pub struct SecretClient {
    api: Api<Secret>,
    limit: Limit,
}

impl fmt::Debug for SecretClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretClient")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl SecretClient {
    /// Of this namespace. Each call takes at most `limit`.
    pub fn new(client: Client, namespace: &str, limit: impl Into<Limit>) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            limit: limit.into(),
        }
    }

    /// The passwords of these users; each Secret is read once.
    pub async fn passwords(&self, users: &[User]) -> Passwords {
        let named = users.iter().filter_map(|user| user.password_secret.as_ref());
        let names: BTreeSet<String> = named.map(|reference| reference.name.clone()).collect();
        let deadline = self.limit.begin();
        let reads = names.into_iter().map(|name| async move {
            let secret = self.read(&name, deadline).await;
            (name, secret)
        });
        let reads = futures::stream::iter(reads).buffer_unordered(AT_ONCE);
        let secrets: BTreeMap<String, Result<Option<Secret>, String>> = reads.collect().await;
        let password = |user: &User| {
            let reference = user.password_secret.as_ref()?;
            let password = match secrets.get(&reference.name)? {
                Ok(secret) => password_in(secret.as_ref(), reference),
                Err(why) => Err(NoPassword::Unread {
                    secret: reference.name.clone(),
                    why: why.clone(),
                }),
            };
            Some((user.name.clone(), password))
        };
        users.iter().filter_map(password).collect()
    }

    async fn read(&self, name: &str, deadline: Deadline) -> Result<Option<Secret>, String> {
        let answer = deadline.within(self.api.get_opt(name)).await;
        answer.map_err(|error| error.to_string())
    }
}

/// What a Secret says is the password.
fn password_in(secret: Option<&Secret>, reference: &KeyReference) -> Result<Password, NoPassword> {
    let KeyReference { name, key } = reference;
    let missing = |why: String| Err(NoPassword::Missing(why));
    let Some(secret) = secret else {
        return missing(format!("there is no Secret {name}"));
    };
    let Some(value) = secret.data.as_ref().and_then(|data| data.get(key)) else {
        return missing(format!("Secret {name} has no key {key}"));
    };
    Password::of(&value.0).or_else(|what| missing(format!("the key {key} of Secret {name} is {what}")))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::as_it_is(Some(&b"correct horse\n"[..]), Ok("correct horse\n"))]
    #[case::no_key(None, Err("Secret app has no key password"))]
    #[case::empty(Some(&b""[..]), Err("the key password of Secret app is empty"))]
    #[case::bytes(Some(&b"\xff\xfe"[..]), Err("the key password of Secret app is not text"))]
    #[case::nul(Some(&b"a\0b"[..]), Err("the key password of Secret app is not text"))]
    fn a_password_is_what_the_secret_says_or_why_it_is_not(
        #[case] value: Option<&[u8]>,
        #[case] expected: Result<&str, &str>,
    ) {
        let data = value.map(|value| ("password".to_owned(), ByteString(value.into())));
        let secret = Secret {
            data: Some(data.into_iter().collect()),
            ..Secret::default()
        };
        let found = password_in(Some(&secret), &reference());
        let found = found.map_err(|error| error.to_string());
        assert_eq!(
            found.as_ref().map(Password::as_str).map_err(String::as_str),
            expected
        );
    }

    fn reference() -> KeyReference {
        KeyReference {
            name: "app".into(),
            key: "password".into(),
        }
    }

    #[test]
    fn a_secret_that_is_not_there_is_told_by_its_name() {
        let error = password_in(None, &reference()).unwrap_err();
        assert_eq!(error.to_string(), "there is no Secret app");
    }

    #[test]
    fn a_password_cannot_be_printed() {
        let passwords: Passwords = [("app".to_owned(), Ok(Password::new("s3cret")))].into();
        assert!(!format!("{passwords:?}").contains("s3cret"));
    }
}
