//! A generation: a folder that holds one complete configuration with the certificate that it uses.
//!
//! nginx is started with `active/nginx.conf`, where `active` is a link, and resolves every other name relative to that folder.
//! So replacing the link, which is atomic, is what changes the configuration, and putting it back undoes it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use super::Options;
use super::inputs::Inputs;
use super::machine::{Machine, http_conf, listen_conf, main_conf};
use crate::api::my_proxy::agent::config_hash;

/// A folder that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}", path = path.display())]
pub struct Unwritable {
    path: PathBuf,
    source: io::Error,
}

impl Unwritable {
    /// Names the path that could not be written.
    pub fn new(path: PathBuf, source: io::Error) -> Self {
        Self { path, source }
    }
}

/// Makes what nginx needs to exist before its first start.
///
/// # Errors
/// When a folder cannot be made.
pub fn prepare(options: &Options) -> Result<(), Unwritable> {
    for folder in [&options.run, &options.scratch] {
        at(folder, fs::create_dir_all(folder))?;
    }
    Ok(())
}

/// Writes the folder of these inputs and gives its path.
///
/// # Errors
/// When it cannot be written.
pub fn write(options: &Options, machine: &Machine, inputs: &Inputs) -> Result<PathBuf, Unwritable> {
    let name = inputs.generation();
    let folder = options.run.join(&name);
    at(&folder, fs::create_dir_all(&folder))?;
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        at(&path, write_private(&path, bytes))
    };
    file("main.conf", main_conf(options, machine).as_bytes())?;
    file(
        "http.conf",
        http_conf(options, machine, &inputs.resolv_conf, &name).as_bytes(),
    )?;
    file("listen.conf", listen_conf(options.port, machine, "").as_bytes())?;
    file(
        "listen_tls.conf",
        listen_conf(options.tls_port, machine, " ssl").as_bytes(),
    )?;
    if let Some((certificate, key)) = &inputs.tls {
        file("tls.crt", certificate)?;
        file("tls.key", key)?;
    }
    file("nginx.conf", &inputs.config)?;
    Ok(folder)
}

/// Names the configuration of a generation; none if its folder does not have one.
pub fn config(folder: &Path) -> Option<String> {
    fs::read(folder.join("nginx.conf")).ok().map(config_hash)
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

/// The folder that the link names, if there is one.
pub fn active(options: &Options) -> Option<PathBuf> {
    let folder = fs::read_link(options.active()).ok()?;
    folder.join("nginx.conf").is_file().then_some(folder)
}

/// Points the link at a folder, atomically.
///
/// # Errors
/// When the link cannot be written.
pub fn activate(options: &Options, folder: &Path) -> Result<(), Unwritable> {
    let link = options.active();
    let next = options.run.join("active.next");
    let swap = || {
        match fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(folder, &next)?;
        fs::rename(&next, &link)
    };
    at(&link, swap())
}

/// Removes a folder that is not the active one. What cannot be removed costs a few kilobytes and is no reason to fail.
pub fn discard(options: &Options, folder: &Path) {
    if active(options).as_deref() != Some(folder) {
        let _ = fs::remove_dir_all(folder);
    }
}

fn at<T>(path: &Path, outcome: io::Result<T>) -> Result<T, Unwritable> {
    outcome.map_err(|source| Unwritable {
        path: path.to_owned(),
        source,
    })
}
