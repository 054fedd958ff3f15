//! Files that are read whole: no larger than what is accepted, and nothing but files. A pipe may never begin, and a device never end, and manifests, bundles and
//! catalogs may be anybody's.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The largest text or image that somebody makes for one operator, in bytes. All of a bundle is smaller when it is installed.
pub const LARGEST: u64 = 4 << 20;

/// What a file holds.
///
/// # Errors
/// It cannot be read, is no file, or has more than `largest` bytes.
pub fn bytes(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    // Before it is opened, for which a pipe would wait
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    of_any(path, largest)
}

/// The text of a file.
///
/// # Errors
/// As [`bytes`], or it is no UTF-8.
pub fn text(path: &Path, largest: u64) -> io::Result<String> {
    utf8(bytes(path, largest)?)
}

/// The same of what may be a pipe, where a person names it.
///
/// # Errors
/// As [`text`], but for what is no file.
pub(super) fn text_of_any(path: &Path, largest: u64) -> io::Result<String> {
    utf8(of_any(path, largest)?)
}

/// The text of a stream.
///
/// # Errors
/// It cannot be read, is no UTF-8, or holds more than `largest` bytes.
pub fn stream(stream: impl Read, largest: u64) -> io::Result<String> {
    utf8(limited(stream, Vec::new(), largest)?)
}

fn of_any(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    if length > largest {
        return Err(too_large(format!(
            "it has {length} bytes; {largest} are accepted"
        )));
    }
    let mut content = Vec::new();
    content.reserve_exact(usize::try_from(length).unwrap_or_default());
    limited(file, content, largest)
}

/// A file may grow meanwhile, and of a stream nobody knows the length.
fn limited(stream: impl Read, mut content: Vec<u8>, largest: u64) -> io::Result<Vec<u8>> {
    stream.take(largest + 1).read_to_end(&mut content)?;
    if content.len() as u64 > largest {
        return Err(too_large(format!(
            "it has more bytes than the {largest} that are accepted"
        )));
    }
    Ok(content)
}

fn too_large(why: String) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, why)
}

fn utf8(content: Vec<u8>) -> io::Result<String> {
    String::from_utf8(content).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(ErrorKind::InvalidData, format!("it is no UTF-8 after {at} bytes"))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let device = folder.path().join("device");
        symlink("/dev/zero", &device).unwrap();
        for path in [&pipe, &device, folder.path()] {
            assert_eq!(text(path, LARGEST).unwrap_err().to_string(), "it is no file");
        }
    }

    #[test]
    fn a_file_is_read_up_to_what_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(text(&path, 3).unwrap(), "abc");
        let told = text(&path, 2).unwrap_err().to_string();
        assert_eq!(told, "it has 3 bytes; 2 are accepted");
        File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        let told = text(&path, LARGEST).unwrap_err().to_string();
        assert_eq!(told, "it has 4194305 bytes; 4194304 are accepted");
    }

    #[test]
    fn a_stream_is_read_up_to_what_is_accepted() {
        assert_eq!(stream(&b"abc"[..], 3).unwrap(), "abc");
        let told = stream(io::repeat(b'a'), 3).unwrap_err().to_string();
        assert_eq!(told, "it has more bytes than the 3 that are accepted");
        let told = text_of_any(Path::new("/dev/zero"), 3).unwrap_err().to_string();
        assert_eq!(told, "it has more bytes than the 3 that are accepted");
        assert_eq!(
            stream(&b"ab\xff"[..], 3).unwrap_err().to_string(),
            "it is no UTF-8 after 2 bytes"
        );
    }
}
