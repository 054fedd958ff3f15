//! A layer: the same files give the same bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

use super::digest::Digest;
use super::types::{Descriptor, media};

/// Files and folders by their names in the image, without a slash at either end.
#[derive(Debug, Default)]
pub(super) struct Layer {
    entries: BTreeMap<String, Entry>,
    bytes: u64,
}

#[derive(Debug)]
enum Entry {
    Folder,
    File {
        content: Bytes,
        is_program: bool,
    },
    /// Another name of what this leads to, from where it lies.
    Link(String),
}

/// A layer as registries keep it.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    pub(super) descriptor: Descriptor,
    pub(super) bytes: Bytes,
    /// Of what is compressed.
    pub(super) diff_id: Digest,
}

impl Layer {
    /// Adds a folder, and those in which it lies.
    pub(super) fn folder(&mut self, name: &str) {
        for (at, _) in name.match_indices('/') {
            self.entries.entry(name[..at].to_owned()).or_insert(Entry::Folder);
        }
        self.entries.entry(name.to_owned()).or_insert(Entry::Folder);
    }

    pub(super) fn file(&mut self, name: &str, content: Bytes, is_program: bool) {
        self.bytes += content.len() as u64;
        self.entries
            .insert(name.to_owned(), Entry::File { content, is_program });
    }

    pub(super) fn link(&mut self, name: &str, to: &str) {
        self.entries.insert(name.to_owned(), Entry::Link(to.to_owned()));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Compresses it. Owners, modes and times are those of no machine: `seconds` since 1970 is the time of all.
    ///
    /// # Errors
    /// A name that a tar cannot hold.
    pub(super) fn pack(&self, seconds: u64) -> io::Result<Packed> {
        let mut archive = Vec::new();
        self.write(&mut archive, seconds)?;
        let mut packed = GzBuilder::new().write(Vec::new(), Compression::best());
        packed.write_all(&archive)?;
        let bytes = Bytes::from(packed.finish()?);
        Ok(Packed {
            descriptor: Descriptor::of(media::LAYER, &bytes),
            bytes,
            diff_id: Digest::of(&archive),
        })
    }

    fn write(&self, out: &mut Vec<u8>, seconds: u64) -> io::Result<()> {
        let mut builder = tar::Builder::new(out);
        for (name, entry) in &self.entries {
            match entry {
                Entry::Folder => {
                    let mut header = header(EntryType::Directory, 0o755, 0, seconds);
                    builder.append_data(&mut header, format!("{name}/"), io::empty())?;
                }
                Entry::File { content, is_program } => {
                    let mode = if *is_program { 0o755 } else { 0o644 };
                    let mut header = header(EntryType::Regular, mode, content.len() as u64, seconds);
                    builder.append_data(&mut header, name, &content[..])?;
                }
                Entry::Link(to) => {
                    let mut header = header(EntryType::Symlink, 0o777, 0, seconds);
                    builder.append_link(&mut header, name, to)?;
                }
            }
        }
        builder.finish()
    }
}

/// Of what belongs to root, in an archive that tells nothing of the machine that made it.
pub(super) fn header(kind: EntryType, mode: u32, size: u64, seconds: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(seconds);
    header.set_uid(0);
    header.set_gid(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_layer_is_the_same_in_whatever_order_it_was_filled_and_tells_nothing_of_the_machine() {
        let long = format!("manifests/{}.yaml", "a".repeat(150));
        let files = ["manifests/b.yaml", "manifests/a.yaml", &long];
        let of = |order: &[usize]| {
            let mut layer = Layer::default();
            for &at in order {
                layer.file(files[at], Bytes::from_static(b"x"), false);
            }
            layer.folder("manifests");
            layer.pack(0).unwrap()
        };
        let packed = of(&[0, 1, 2]);
        assert_eq!(packed.bytes, of(&[2, 1, 0]).bytes);
        // No name and no time in the head of what is compressed
        assert_eq!(packed.bytes[3..8], [0; 5]);
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&packed.bytes[..]));
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(
                (
                    header.uid().unwrap(),
                    header.gid().unwrap(),
                    header.mtime().unwrap()
                ),
                (0, 0, 0)
            );
            names.push(entry.path().unwrap().display().to_string());
            entry.read_to_end(&mut Vec::new()).unwrap();
        }
        assert_eq!(
            names,
            ["manifests/", "manifests/a.yaml", &long, "manifests/b.yaml"]
        );
    }

    #[test]
    fn folders_in_which_something_lies_are_there_before_it() {
        let mut layer = Layer::default();
        layer.folder("tests/scorecard");
        let names: Vec<&String> = layer.entries.keys().collect();
        assert_eq!(names, ["tests", "tests/scorecard"]);
    }
}
