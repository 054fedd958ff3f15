//! An authority of our own: the webhook's in clusters without OLM, and each database's. It lives in a Secret: [`BUNDLE`] holds the authorities that clients should trust, the
//! issuing one first; [`AUTHORITY_KEY`] the key of that one; [`CERTIFICATE`] and [`KEY`] what is served.
//!
//! [`step`] is all there is to it: given what the Secret holds and the time, it says what is to be served, and what the Secret should hold
//! instead. It follows from what is there alone and has no memory, so it mends whatever it finds, and a replica may end at any point.
//!
//! # Rotation
//!
//! An authority is valid for a year, a certificate for 90 days, and each is replaced when two thirds of that are over. A new authority is
//! announced first: for [`OVERLAP`] it is in the bundle and issues nothing, so that every replica can have read it and put it wherever it is
//! needed. Then it issues, and the old one stays in the bundle for as long again, since a replica may still serve what that one issued. The old
//! key is gone from the beginning: nothing is issued with it any more. Only where there is no usable certificate does a new authority issue
//! at once.
//!
//! A year is short for an authority. But what happens every eight months is known to work, and an operator that is stopped for four
//! finds the old one valid still.

mod decide;
mod held;
pub(super) mod issue;
#[cfg(test)]
mod life_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use rustls::pki_types::CertificateDer;

use self::decide::decide;
use self::held::Held;
pub use self::issue::IssueError;
use super::pair::Pair;
use super::x509::to_pem;
use super::{Served, Trust};

/// The key of the Secret under which the authorities are.
pub const BUNDLE: &str = "ca.crt";
/// The key of the Secret under which the issuing authority's private key is.
pub const AUTHORITY_KEY: &str = "ca.key";
/// The key of the Secret under which the certificate is.
pub const CERTIFICATE: &str = "tls.crt";
/// The key of the Secret under which the certificate's private key is.
pub const KEY: &str = "tls.key";

/// For how long a new authority is announced before it issues, and an old one kept afterwards.
pub const OVERLAP: SignedDuration = SignedDuration::from_hours(24);

/// What a client shows, and whom it trusts.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Its certificate and key.
    pub pair: Pair,
    /// Who may have issued what the server shows.
    pub authorities: Vec<CertificateDer<'static>>,
}

/// What a Secret holds.
pub type Data = BTreeMap<String, ByteString>;

/// What is to be done. It cannot be printed, since it holds keys.
#[derive(Clone, PartialEq)]
pub struct Step {
    /// What is to be served, once `write` has been written.
    pub served: Served,
    /// What the Secret should hold instead of what it does; `None` when all is well.
    pub write: Option<Write>,
}

/// What a Secret should hold. It cannot be printed, since it holds keys.
#[derive(Clone, PartialEq)]
pub struct Write {
    /// All of its data. What is not ours is as it was.
    pub data: Data,
    /// What was found, for people.
    pub why: Vec<&'static str>,
}

/// What certificates of an authority say besides for which hosts they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// What the authority is called; since when it issues is added, so that whoever looks at a bundle sees which is which.
    pub authority: &'static str,
    /// The common name of what it issues.
    pub common_name: &'static str,
    /// The organisational unit of that, if any.
    pub unit: Option<&'static str>,
    /// Whether clients may show it too, and not servers alone.
    pub is_client: bool,
}

/// What is to be served at `now` for `names`, and what the Secret should hold instead of `data`.
///
/// # Errors
/// When the library cannot make a key or a certificate.
pub fn step(
    data: &Data,
    subject: &Subject,
    names: &BTreeSet<String>,
    now: Timestamp,
) -> Result<Step, IssueError> {
    let held = Held::read(data);
    let plan = decide(&held, names, now);
    let mut wanted = data.clone();
    let signer = match (plan.new_authority, held.signer) {
        (None, Some(signer)) => signer,
        _ => {
            let signer = issue::authority(subject, now)?;
            put(&mut wanted, AUTHORITY_KEY, signer.key.serialize_pem());
            signer
        }
    };
    let authorities: Vec<_> = std::iter::once(signer.certificate.clone())
        .chain(plan.kept)
        .collect();
    put(&mut wanted, BUNDLE, to_pem(&authorities));
    let pair = match (plan.new_certificate, held.pair) {
        (None, Ok(pair)) => pair,
        _ => {
            let (certificate, key) = issue::serving(&signer, subject, names, now)?;
            let certificate = to_pem([&certificate]);
            let pair = Pair::from_pem(certificate.as_bytes(), key.as_bytes())?;
            put(&mut wanted, CERTIFICATE, certificate);
            put(&mut wanted, KEY, key);
            pair
        }
    };
    let mut why: Vec<_> = [plan.new_authority, plan.new_certificate]
        .into_iter()
        .flatten()
        .collect();
    if why.is_empty() {
        why.push("the bundle is not what is needed any more");
    }
    let write = (wanted != *data).then_some(Write { data: wanted, why });
    let trust = Trust::Authorities(authorities);
    Ok(Step {
        served: Served { pair, trust },
        write,
    })
}

/// What a client of `subject` logs in with for `life` from `now`, and whom it trusts. Issued by the authority in `data`, which has to be there, and
/// kept nowhere.
///
/// # Errors
/// When there is no usable authority, or the library cannot make a key or a certificate.
pub fn client(
    data: &Data,
    subject: &Subject,
    life: SignedDuration,
    now: Timestamp,
) -> Result<Identity, IssueError> {
    let held = Held::read(data);
    let signer = held.signer.ok_or(IssueError::NoAuthority)?;
    let (certificate, key) = issue::client(&signer, subject, life, now)?;
    Ok(Identity {
        pair: Pair::from_pem(to_pem([&certificate]).as_bytes(), key.as_bytes())?,
        authorities: held
            .authorities
            .into_iter()
            .map(|authority| authority.certificate)
            .collect(),
    })
}

fn put(data: &mut Data, key: &str, text: String) {
    data.insert(key.to_owned(), ByteString(text.into_bytes()));
}
