//! The Secrets: the owner's password, the authority, and the instances' certificate. What is random comes from outside.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::{Owner, Parent, names};
use crate::pki::authority::{AUTHORITY_KEY, BUNDLE, CERTIFICATE, Data, KEY};

/// The key of the owner's role.
pub const USERNAME: &str = "username";
/// The key of the owner's password.
pub const PASSWORD: &str = "password";

/// Characters of a password.
const LENGTH: usize = 32;
const ALPHANUMERICS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Randomness for a password.
pub type Randomness = [u8; 2 * LENGTH];

/// A password of 32 letters and digits. Of two random bytes for each, no character is likelier than another by more than a thousandth.
pub fn password(randomness: &Randomness) -> String {
    let (pairs, _) = randomness.as_chunks::<2>();
    let character = |pair: &[u8; 2]| {
        let index = usize::from(u16::from_le_bytes(*pair)) % ALPHANUMERICS.len();
        char::from(ALPHANUMERICS[index])
    };
    pairs.iter().map(character).collect()
}

/// The password in a Secret, if it has one that can be used.
pub fn password_in(secret: &Secret) -> Option<&[u8]> {
    let password = &secret.data.as_ref()?.get(PASSWORD)?.0;
    (!password.is_empty()).then_some(password)
}

/// What clients need to log in as the owner.
pub fn credentials(owner: &Owner<'_>, password: &[u8], cluster_domain: &str) -> Secret {
    let name = owner.name();
    let host = names::host(name, &owner.database.namespace, cluster_domain);
    let port = names::POSTGRES_PORT;
    let parameters = if owner.database.tls.required {
        "?sslmode=require"
    } else {
        ""
    };
    // The name is a label of DNS and means itself in a URI; the password may have been chosen by somebody.
    let escaped = percent_encoded(password);
    let uri = format!("postgresql://{name}:{escaped}@{host}:{port}/{name}{parameters}");
    let data = [
        (USERNAME, name.as_bytes().to_vec()),
        (PASSWORD, password.to_vec()),
        ("host", host.into_bytes()),
        ("port", port.to_string().into_bytes()),
        ("dbname", name.as_bytes().to_vec()),
        ("uri", uri.into_bytes()),
    ];
    secret(
        &owner.parent,
        name.to_owned(),
        data.map(|(key, value)| (key.to_owned(), ByteString(value)))
            .into(),
    )
}

/// The authority of a database, from what a [`step`](crate::pki::authority::step) says that its Secrets should hold.
pub fn authority(parent: &Parent, held: &Data) -> Secret {
    secret(
        parent,
        names::authority(&parent.name),
        only(held, &[BUNDLE, AUTHORITY_KEY]),
    )
}

/// The certificate that instances show, and the authorities that they trust. The key of these is not in it, since pods mount it.
pub fn tls(parent: &Parent, held: &Data) -> Secret {
    secret(
        parent,
        names::tls(&parent.name),
        only(held, &[BUNDLE, CERTIFICATE, KEY]),
    )
}

fn only(held: &Data, keys: &[&str]) -> BTreeMap<String, ByteString> {
    let held = held.iter().filter(|(key, _)| keys.contains(&key.as_str()));
    held.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn secret(parent: &Parent, name: String, data: BTreeMap<String, ByteString>) -> Secret {
    Secret {
        metadata: parent.metadata(name),
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

fn percent_encoded(bytes: &[u8]) -> String {
    let encode = |byte: &u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_password_is_32_letters_and_digits(low: [u8; 32], high: [u8; 32]) {
            let mut randomness = [0; 64];
            randomness[..32].copy_from_slice(&low);
            randomness[32..].copy_from_slice(&high);
            let password = password(&randomness);
            prop_assert_eq!(password.len(), 32);
            prop_assert!(password.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        }
    }

    #[test]
    fn other_randomness_gives_another_password() {
        let mut other = [0; 64];
        other[63] = 1;
        assert_ne!(password(&[0; 64]), password(&other));
    }

    #[test]
    fn a_password_that_somebody_chose_is_escaped_in_the_uri() {
        assert_eq!(percent_encoded(b"a@b/c:%"), "a%40b%2Fc%3A%25");
    }
}
