//! Certificates for PostgreSQL: it refuses a key that others might read, which a mounted Secret's often is.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::files;
use super::options::Options;

/// The files, as they are mounted and as they are copied.
const FILES: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];

/// What could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct CertificateError {
    path: PathBuf,
    source: io::Error,
}

/// Copies the mounted certificates to the run folder; true if any of them has changed, so that PostgreSQL has to read them again.
///
/// # Errors
/// When one is not there, or the run folder cannot be written. All are read before any is written.
pub fn copy(options: &Options) -> Result<bool, CertificateError> {
    let failed = |path: PathBuf| move |source| CertificateError { path, source };
    let mut contents = Vec::new();
    for name in FILES {
        let path = options.tls.join(name);
        contents.push((name, fs::read(&path).map_err(failed(path))?));
    }
    let folder = options.certificates();
    files::make_folder(&folder, options.user).map_err(failed(folder.clone()))?;
    let mut changed = false;
    for (name, content) in contents {
        let path = folder.join(name);
        changed |= files::write_if_changed(&path, content, options.user).map_err(failed(path))?;
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_is_copied_once_and_half_a_pair_never() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            tls: folder.path().join("mounted"),
            run: folder.path().join("run"),
            ..Options::default()
        };
        fs::create_dir(&options.tls).unwrap();
        for name in FILES {
            fs::write(options.tls.join(name), "one").unwrap();
        }
        assert_eq!([copy(&options).unwrap(), copy(&options).unwrap()], [true, false]);
        fs::write(options.tls.join("tls.crt"), "two").unwrap();
        fs::remove_file(options.tls.join("tls.key")).unwrap();
        let error = copy(&options).unwrap_err().to_string();
        assert!(error.contains("mounted/tls.key"), "{error}");
        let copied = fs::read_to_string(options.certificates().join("tls.crt")).unwrap();
        assert_eq!(copied, "one");
    }
}
