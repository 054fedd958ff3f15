//! The files of a folder, as they come into a layer.

use std::fs;
use std::path::Path;

use bytes::Bytes;

use super::Error;
use super::layer::Layer;

/// Files and folders of what becomes an image.
const MOST_ENTRIES: usize = 10_000;
/// All files together, in bytes.
const MOST_BYTES: u64 = 512 << 20;

/// Adds a folder with all that is in it, below `name` in the image.
///
/// # Errors
/// [`Error::File`]; [`Error::Content`] of what is neither a file nor a folder, or more than the bounds.
pub(super) fn add(layer: &mut Layer, folder: &Path, name: &str) -> Result<(), Error> {
    layer.folder(name);
    // Deeper folders wait their turn in a list, so that no depth is too much for the stack
    let mut waiting = vec![(folder.to_owned(), name.to_owned())];
    while let Some((folder, name)) = waiting.pop() {
        let listed = fs::read_dir(&folder).map_err(|source| Error::file("list", &folder, source))?;
        for entry in listed {
            let entry = entry.map_err(|source| Error::file("list", &folder, source))?;
            let path = entry.path();
            let Some(inner) = path.file_name().and_then(|name| name.to_str()) else {
                return Err(Error::content(path.display(), "its name is no UTF-8; rename it"));
            };
            let name = format!("{name}/{inner}");
            let found = fs::symlink_metadata(&path).map_err(|source| Error::file("read", &path, source))?;
            if found.is_dir() {
                layer.folder(&name);
                waiting.push((path, name));
            } else if found.is_file() {
                if layer.bytes() + found.len() > MOST_BYTES {
                    let why = format!(
                        "with it there are more than {} MiB of files, which is too much for an image",
                        MOST_BYTES >> 20
                    );
                    return Err(Error::content(path.display(), why));
                }
                let content = fs::read(&path).map_err(|source| Error::file("read", &path, source))?;
                layer.file(&name, Bytes::from(content), false);
            } else {
                let why = "it is neither a file nor a folder; put a file in its place, since links and devices do not get into the image";
                return Err(Error::content(path.display(), why));
            }
            if layer.len() > MOST_ENTRIES {
                let why = format!(
                    "it holds more than {MOST_ENTRIES} files and folders, which is too much for an image"
                );
                return Err(Error::content(folder.display(), why));
            }
        }
    }
    Ok(())
}
