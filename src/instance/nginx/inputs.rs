//! What the cluster mounts into the pod.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Options;
use crate::api::my_proxy::agent::config_hash;
use crate::api::text::hex;

/// Everything a generation is made of, as it was at one moment. Small files (a ConfigMap holds at most 1 MiB), so they are read
/// whole: modification times of mounted files say little.
#[derive(Clone, PartialEq, Eq)]
pub struct Inputs {
    /// `nginx.conf`.
    pub config: Vec<u8>,
    /// Certificate chain and key, PEM. Absent when there is no Secret.
    pub tls: Option<(Vec<u8>, Vec<u8>)>,
    /// `resolv.conf`; empty where there is none.
    pub resolv_conf: String,
}

/// Without the files: one of them is a private key.
impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Inputs").field(&self.generation()).finish()
    }
}

/// Names the `nginx.conf` that is mounted, whether or not the rest can be read; none if it cannot.
pub fn mounted_config(options: &Options) -> Option<String> {
    read(&config_file(options)).ok().map(config_hash)
}

fn config_file(options: &Options) -> PathBuf {
    options.config.join("nginx.conf")
}

/// A mounted file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {source}", path = path.display())]
pub struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

impl Inputs {
    /// Reads the files.
    ///
    /// # Errors
    /// When `nginx.conf`, or one of the two files of a certificate, cannot be read.
    pub fn read(options: &Options) -> Result<Self, Unreadable> {
        let tls = match &options.tls {
            Some(folder) => Some((read(&folder.join("tls.crt"))?, read(&folder.join("tls.key"))?)),
            None => None,
        };
        let config = read(&config_file(options))?;
        let resolv_conf = fs::read_to_string(&options.resolv_conf).unwrap_or_default();
        Ok(Self {
            config,
            tls,
            resolv_conf,
        })
    }

    /// Names `nginx.conf`, as the operator does.
    pub fn config_hash(&self) -> String {
        config_hash(&self.config)
    }

    /// Names the whole: 16 hex digits that differ when any of the files does.
    pub fn generation(&self) -> String {
        let empty = (Vec::new(), Vec::new());
        let (certificate, key) = self.tls.as_ref().unwrap_or(&empty);
        let mut hash = Sha256::new();
        for part in [&self.config, certificate, key, self.resolv_conf.as_bytes()] {
            hash.update(Sha256::digest(part));
        }
        let mut name = hex(&hash.finalize());
        name.truncate(16);
        name
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Unreadable> {
    fs::read(path).map_err(|source| Unreadable {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_is_not_printed() {
        let inputs = Inputs {
            config: Vec::new(),
            tls: Some((b"chain".into(), b"PRIVATE".into())),
            resolv_conf: String::new(),
        };
        let printed = format!("{inputs:?}");
        assert!(!printed.contains(&format!("{:?}", b"PRIVATE")), "{printed}");
        assert!(printed.contains(&inputs.generation()), "{printed}");
    }

    #[test]
    fn a_generation_differs_when_any_input_does() {
        let one = Inputs {
            config: b"a".into(),
            tls: Some((b"b".into(), b"c".into())),
            resolv_conf: "d".into(),
        };
        let others = [
            Inputs {
                config: b"x".into(),
                ..one.clone()
            },
            Inputs {
                tls: None,
                ..one.clone()
            },
            Inputs {
                tls: Some((b"bc".into(), b"".into())),
                ..one.clone()
            },
            Inputs {
                resolv_conf: "x".into(),
                ..one.clone()
            },
        ];
        assert_eq!(one.generation().len(), 16);
        assert!(others.iter().all(|other| other.generation() != one.generation()));
    }
}
