//! Volumes of Secrets and ConfigMaps, as the kubelet keeps them. They are in memory, and small.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file of a volume cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {source}", path = path.display())]
pub struct MountedError {
    /// Which file.
    pub path: PathBuf,
    /// Why not.
    pub source: io::Error,
}

/// What is in these files of the volume now, all from the same side of a change.
///
/// # Errors
/// When one cannot be read.
pub fn read<const N: usize>(volume: &Path, names: [&str; N]) -> Result<[Vec<u8>; N], MountedError> {
    let folder = generation(volume);
    let mut files = [const { Vec::new() }; N];
    for (file, name) in files.iter_mut().zip(names) {
        let path = folder.join(name);
        *file = fs::read(&path).map_err(|source| MountedError { path, source })?;
    }
    Ok(files)
}

/// Which of these files there are not.
pub fn missing<'a>(volume: &Path, names: &[&'a str]) -> Vec<&'a str> {
    let folder = generation(volume);
    let mut missing = names.to_vec();
    missing.retain(|name| !folder.join(name).exists());
    missing
}

/// The kubelet replaces the link `..data` to bring all files of a volume at once. Read through that link, they might come from two sides of the change; so
/// it is followed once for all.
fn generation(volume: &Path) -> PathBuf {
    fs::canonicalize(volume.join("..data")).unwrap_or_else(|_| volume.to_owned())
}
