//! Certificates for PostgreSQL: what it shows, what instances show to it, and by what they verify it.
//!
//! All are copied, since it refuses a key that others might read, which a mounted Secret's often is. In the run folder there are then:
//!
//! | file | what it is |
//! | --- | --- |
//! | `ca.crt`, `tls.crt`, `tls.key` | the instances' own, by which they know each other |
//! | `server.crt`, `server.key` | what PostgreSQL shows: the author's where one is named, the instances' own otherwise |
//! | `server-ca.crt` | who vouches for that |
//! | `trusted.crt` | by which a replica verifies its primary: all that vouch for what any instance says that it shows |

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::files;
use super::options::Options;
use crate::api::database::agent::TLS_FILES;
use crate::pki::Pair;
use crate::pki::trust::needed_by_libpq;
use crate::pki::x509::{Facts, certificates_in, key_in, to_pem};
use crate::runtime::mounted::{self, MountedError};

/// As [`TLS_FILES`], of what PostgreSQL shows: so they are copied, and the instances' own as they are mounted.
const SHOWN: [&str; 3] = ["server-ca.crt", "server.crt", "server.key"];
/// Whom replicas trust.
const TRUSTED: &str = "trusted.crt";
/// What is said of the authorities fits into a report, in bytes.
const AUTHORITIES: usize = 16 << 10;
/// RSA and ECDSA with SHA-256, SHA-384 and SHA-512. Clients that log in with a password bind it to the connection by the digest of the signature; PostgreSQL
/// has none for others, and turns them away.
const WITH_DIGEST: [&str; 6] = [
    "1.2.840.113549.1.1.11",
    "1.2.840.113549.1.1.12",
    "1.2.840.113549.1.1.13",
    "1.2.840.10045.4.3.2",
    "1.2.840.10045.4.3.3",
    "1.2.840.10045.4.3.4",
];

/// Authorities, chain and key.
type Files = [Vec<u8>; 3];

/// What could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// One of the instances' own.
    #[error(transparent)]
    Unread(#[from] MountedError),
    /// A copy.
    #[error("cannot write {path}: {source}", path = path.display())]
    Unwritten {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What came of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Whether any file has changed, so that PostgreSQL has to read them again.
    pub changed: bool,
    /// Why the author's certificate is not shown, and what is instead, if there is to be one.
    pub refused: Option<String>,
    /// Who vouches for what is shown, as PEM; empty where the instances' own authority does.
    pub authorities: String,
}

/// Copies the mounted certificates to the run folder. `others` are the authorities that the other instances have told of.
///
/// Of the author's only what PostgreSQL and its clients can go by at `now` is taken. Until there is such a one, what was shown before is, as long as
/// that is valid, and then the instances' own: replication goes by it as well.
///
/// # Errors
/// When one of the instances' own is not there, or the run folder cannot be written. All are read before any is written.
pub fn copy(options: &Options, others: &[&str], now: Timestamp) -> Result<Copied, CertificateError> {
    let own = mounted::read(&options.tls, TLS_FILES)?;
    let (authors, refused) = choose(options, now);
    let authorities = match &authors {
        Some([authorities, ..]) => String::from_utf8_lossy(authorities).into_owned(),
        None => String::new(),
    };
    let trusted = trusted(&own, others.iter().copied().chain([authorities.as_str()]));
    let shown = authors.unwrap_or_else(|| own.clone());
    let contents = TLS_FILES.into_iter().zip(own).chain(SHOWN.into_iter().zip(shown));
    let changed = write(options, contents.chain([(TRUSTED, trusted)]))?;
    Ok(Copied {
        changed,
        refused,
        authorities,
    })
}

/// What to show of the author's, and why not what is mounted.
fn choose(options: &Options, now: Timestamp) -> (Option<Files>, Option<String>) {
    let why = match authors(&options.server_tls, now) {
        Ok(authors) => return (authors, None),
        Err(why) => why,
    };
    let before = before(&options.certificates(), now);
    let instead = if before.is_some() {
        "the one before"
    } else {
        "the operator's own"
    };
    (before, Some(format!("{why}; {instead} is shown")))
}

/// The author's, if the pod has a place for one, or why it is of no use.
fn authors(folder: &Path, now: Timestamp) -> Result<Option<Files>, String> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let missing = mounted::missing(folder, &TLS_FILES);
    if missing.len() == TLS_FILES.len() {
        return Err(format!(
            "it is not there, or has none of {}",
            TLS_FILES.join(", ")
        ));
    }
    if !missing.is_empty() {
        return Err(format!("it has no {}", missing.join(" and no ")));
    }
    let files = mounted::read(folder, TLS_FILES).map_err(|error| error.to_string())?;
    judge(files, now).map(Some)
}

/// What was shown before of the author's, as long as it is of use.
fn before(run: &Path, now: Timestamp) -> Option<Files> {
    let [own, ..] = mounted::read(run, TLS_FILES).ok()?;
    let shown = mounted::read(run, SHOWN).ok()?;
    // Who vouches for the instances' own is nobody else's authority.
    if own == shown[0] {
        return None;
    }
    judge(shown, now).ok()
}

/// The same without whatever else is in the texts, if PostgreSQL can show it at `now`, and its clients and replicas can verify it.
fn judge([authorities, chain, key]: Files, now: Timestamp) -> Result<Files, String> {
    let facts = certificates_in(&chain).first().and_then(Facts::of);
    if facts.as_ref().is_some_and(|facts| !facts.is_v3) {
        return Err("tls.crt is of X.509 version 1; accepted is version 3, which has extensions".to_owned());
    }
    let pair = Pair::from_pem(&chain, &key).map_err(|error| format!("tls.crt and tls.key: {error}"))?;
    let validity = pair.validity();
    if validity.from > now {
        return Err(format!("tls.crt is valid from {} on", validity.from));
    }
    if validity.until < now {
        return Err(format!("tls.crt was valid until {}", validity.until));
    }
    let signature = facts.map(|facts| facts.signature).unwrap_or_default();
    if !WITH_DIGEST.contains(&signature.as_str()) {
        return Err(format!(
            "tls.crt is signed by algorithm {signature}; accepted are RSA (PKCS #1) and ECDSA with SHA-256, SHA-384 or SHA-512"
        ));
    }
    let bundle = certificates_in(&authorities);
    let authorities = to_pem(needed_by_libpq(&bundle, &pair, now));
    if authorities.is_empty() {
        return Err(
            "ca.crt holds no authority that has signed itself and vouches for tls.crt as a server's"
                .to_owned(),
        );
    }
    if authorities.len() > AUTHORITIES {
        return Err(format!(
            "ca.crt: more than {AUTHORITIES} bytes of it are needed for tls.crt"
        ));
    }
    let key = key_in(&key).unwrap_or_default();
    let chain = to_pem(pair.chain());
    Ok([authorities, chain, key].map(String::into_bytes))
}

/// The instances' own authority and these, each once.
fn trusted<'a>(own: &Files, others: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let others: BTreeSet<_> = others
        .flat_map(|authorities| certificates_in(authorities.as_bytes()))
        .map(|authority| to_pem([&authority]))
        .collect();
    let mut trusted = own[0].clone();
    for authority in others {
        trusted.extend(authority.into_bytes());
    }
    trusted
}

/// Whether any of them is another than it was.
fn write<'a>(
    options: &Options,
    contents: impl Iterator<Item = (&'a str, Vec<u8>)>,
) -> Result<bool, CertificateError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| CertificateError::Unwritten { path, source }
    };
    let folder = options.certificates();
    files::make_folder(&folder, options.user).map_err(failed(&folder))?;
    let mut changed = false;
    for (name, content) in contents {
        let path = folder.join(name);
        changed |= files::write_if_changed(&path, content, options.user).map_err(failed(&path))?;
    }
    Ok(changed)
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
