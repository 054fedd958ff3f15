//! Certificates for PostgreSQL: what it shows, what instances show to it, and by what they verify it.
//!
//! All are copied, since it refuses a key that others might read, which a mounted Secret's often is. In the run folder there are then:
//!
//! | file | what it is |
//! | --- | --- |
//! | `ca.crt`, `tls.crt`, `tls.key` | the instances' own, by which they know each other |
//! | `server.crt`, `server.key` | what PostgreSQL shows: the author's where one is named, the instances' own otherwise |
//! | `server-ca.crt` | who vouches for that |
//! | `trusted.crt` | both authorities, by which a replica verifies its primary |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::files;
use super::options::Options;
use crate::pki::Pair;
use crate::pki::trust::vouches_for_any_name;
use crate::pki::x509::{certificates_in, to_pem};
use crate::webhook::certificates::folder::generation;

/// Authorities, chain and key, as they are mounted; and the instances' own as they are copied.
const FILES: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];
/// The same of what PostgreSQL shows, as they are copied.
const SHOWN: [&str; 3] = ["server-ca.crt", "server.crt", "server.key"];
/// All authorities.
const TRUSTED: &str = "trusted.crt";

/// Authorities, chain and key.
type Files = [Vec<u8>; 3];

/// What could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct CertificateError {
    path: PathBuf,
    source: io::Error,
}

/// What came of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Whether any file has changed, so that PostgreSQL has to read them again.
    pub changed: bool,
    /// Why the author's certificate is not shown, and what is instead, if there is to be one.
    pub refused: Option<String>,
}

/// Copies the mounted certificates to the run folder.
///
/// Of the author's only what PostgreSQL and its clients can go by at `now` is taken. Until there is such a one, what was shown before is, as long as
/// that is valid, and then the instances' own: replication goes by it as well.
///
/// # Errors
/// When one of the instances' own is not there, or the run folder cannot be written. All are read before any is written.
pub fn copy(options: &Options, now: Timestamp) -> Result<Copied, CertificateError> {
    let folder = options.certificates();
    let own = read(&generation(&options.tls), FILES)?;
    let (shown, refused) = match authors(&options.server_tls, now) {
        Ok(None) => (own.clone(), None),
        Ok(Some(authors)) => (authors, None),
        Err(why) => match before(&folder, now) {
            Some(before) => (before, Some(format!("{why}; the one before is shown"))),
            None => (own.clone(), Some(format!("{why}; the operator's own is shown"))),
        },
    };
    let mut trusted = own[0].clone();
    if shown[0] != own[0] {
        trusted.extend_from_slice(&shown[0]);
    }
    files::make_folder(&folder, options.user).map_err(failed(&folder))?;
    let contents = FILES.into_iter().zip(own).chain(SHOWN.into_iter().zip(shown));
    let mut changed = false;
    for (name, content) in contents.chain([(TRUSTED, trusted)]) {
        let path = folder.join(name);
        changed |= files::write_if_changed(&path, content, options.user).map_err(failed(&path))?;
    }
    Ok(Copied { changed, refused })
}

fn read(folder: &Path, names: [&str; 3]) -> Result<Files, CertificateError> {
    let mut contents = Files::default();
    for (content, name) in contents.iter_mut().zip(names) {
        let path = folder.join(name);
        *content = fs::read(&path).map_err(failed(&path))?;
    }
    Ok(contents)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CertificateError {
    let path = path.to_owned();
    |source| CertificateError { path, source }
}

/// The author's, if the pod has a place for one, or why it is of no use.
fn authors(folder: &Path, now: Timestamp) -> Result<Option<Files>, String> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let folder = generation(folder);
    let missing: Vec<_> = FILES
        .into_iter()
        .filter(|name| !folder.join(name).exists())
        .collect();
    if missing.len() == FILES.len() {
        return Err(format!("it is not there, or has none of {}", FILES.join(", ")));
    }
    if !missing.is_empty() {
        return Err(format!("it has no {}", missing.join(" and no ")));
    }
    let files = read(&folder, FILES).map_err(|error| error.to_string())?;
    judge(files, now).map(Some)
}

/// What was shown before of the author's, as long as it is of use.
fn before(run: &Path, now: Timestamp) -> Option<Files> {
    let (own, shown) = (read(run, FILES).ok()?, read(run, SHOWN).ok()?);
    // Who vouches for the instances' own is nobody else's authority.
    (own[0] != shown[0]).then(|| judge(shown, now).ok())?
}

/// The same without whatever else is in the texts, if PostgreSQL can show it at `now`, and its clients and replicas can verify it.
fn judge([authorities, chain, key]: Files, now: Timestamp) -> Result<Files, String> {
    let pair = Pair::from_pem(&chain, &key).map_err(|error| format!("tls.crt and tls.key: {error}"))?;
    let validity = pair.validity();
    if validity.from > now {
        return Err(format!("tls.crt is valid from {} on", validity.from));
    }
    if validity.until < now {
        return Err(format!("tls.crt was valid until {}", validity.until));
    }
    let authorities = certificates_in(&authorities);
    if !vouches_for_any_name(&authorities, &pair, now) {
        return Err("no authority in ca.crt vouches for tls.crt".to_owned());
    }
    let texts = [to_pem(&authorities), to_pem(pair.chain())];
    let [authorities, chain] = texts.map(String::into_bytes);
    Ok([authorities, chain, key])
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
