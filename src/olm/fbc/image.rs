//! Names of images, as container tools read them: `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`.
//!
//! The grammar is that of `go.podman.io/image/docker/reference`, by which `opm` reads them: it has no IPv6 addresses. It is written out here
//! since the regular expression by which the library `oci-spec` reads them takes 18 MiB, twice as much as all else that a registry keeps of a
//! large catalog.

/// The longest name, without tag and digest, in bytes.
const MAX_NAME: usize = 255;
/// The longest tag, in bytes.
const MAX_TAG: usize = 128;
/// Algorithms, and how many hexadecimal digits each gives.
const ALGORITHMS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// A name in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The host with its port; without one, container tools ask Docker Hub.
    pub host: Option<&'a str>,
    /// What the host calls the repository.
    pub path: &'a str,
    /// The name of a version, which may come to mean another.
    pub tag: Option<&'a str>,
    /// ALGORITHM:DIGITS of its content.
    pub digest: Option<&'a str>,
}

impl<'a> Reference<'a> {
    /// Reads a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(text: &'a str) -> Result<Self, String> {
        if is_identifier(text) {
            return Err("64 hexadecimal digits are the number of an image, not its name".to_owned());
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        // A colon before the last slash is that of a port
        let last = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match rest[last..].find(':') {
            Some(colon) => (&rest[..last + colon], Some(&rest[last + colon + 1..])),
            None => (rest, None),
        };
        let (host, path) = match name.split_once('/') {
            Some((host, path)) if is_host(host) => (Some(host), path),
            _ => (None, name),
        };
        check_path(path)?;
        if name.len() > MAX_NAME {
            return Err(format!(
                "its name has {} characters, and may have {MAX_NAME}",
                name.len()
            ));
        }
        if let Some(tag) = tag {
            check_tag(tag)?;
        }
        if let Some(digest) = digest {
            check_digest(digest)?;
        }
        Ok(Self {
            host,
            path,
            tag,
            digest,
        })
    }
}

/// Whether the first part is a host with or without its port: what has neither a dot nor a colon is the first part of a path.
fn is_host(first: &str) -> bool {
    let (host, port) = match first.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (first, None),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_meant = first == "localhost" || first.contains(['.', ':']);
    is_meant && host.split('.').all(is_label) && port.is_none_or(is_port)
}

/// Whether it can stand between the dots of a host's name.
fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn check_path(path: &str) -> Result<(), String> {
    let refused = path.split('/').find(|component| !is_component(component));
    let Some(component) = refused else { return Ok(()) };
    Err(if component.is_empty() {
        "a part of its path is empty".to_owned()
    } else {
        format!(
            "{component:?} is neither a host nor a part of a path: that is of lowercase letters and digits, with one of `.`, `_`, `__` or any number of `-` in between"
        )
    })
}

fn is_identifier(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(is_digit)
}

/// A hexadecimal digit, of which only those in lowercase count.
fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn is_component(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_separator =
        |between: &str| matches!(between, "." | "_" | "__") || between.bytes().all(|byte| byte == b'-');
    text.starts_with(is_plain) && text.ends_with(is_plain) && text.split(is_plain).all(is_separator)
}

fn check_tag(tag: &str) -> Result<(), String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_tag = tag.bytes().next().is_some_and(is_word)
        && tag
            .bytes()
            .all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
        && tag.len() <= MAX_TAG;
    if is_tag {
        Ok(())
    } else {
        Err(format!(
            "{tag:?} is no tag: that is of letters, digits, `_`, `.` and `-`, begins with none of the last two, and has at most {MAX_TAG} characters"
        ))
    }
}

fn check_digest(text: &str) -> Result<(), String> {
    let is_it = |&(algorithm, length): &(&str, usize)| {
        let digits = text
            .strip_prefix(algorithm)
            .and_then(|rest| rest.strip_prefix(':'));
        digits.is_some_and(|digits| digits.len() == length && digits.bytes().all(is_digit))
    };
    if ALGORITHMS.iter().any(is_it) {
        Ok(())
    } else {
        Err(format!(
            "{text:?} is no digest: it is sha256: and 64 hexadecimal digits in lowercase, or sha384: and 96, or sha512: and 128"
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_in_its_parts() {
        let of = |host, path, tag, digest| Reference {
            host,
            path,
            tag,
            digest,
        };
        let digest = format!("sha256:{}", "a".repeat(64));
        assert_eq!(Reference::of("nginx").unwrap(), of(None, "nginx", None, None));
        assert_eq!(
            Reference::of("me/nginx:1.29").unwrap(),
            of(None, "me/nginx", Some("1.29"), None)
        );
        assert_eq!(
            Reference::of("localhost:5000/a/b").unwrap(),
            of(Some("localhost:5000"), "a/b", None, None)
        );
        let whole = format!("registry.example.org/a__b:v1@{digest}");
        assert_eq!(
            Reference::of(&whole).unwrap(),
            of(Some("registry.example.org"), "a__b", Some("v1"), Some(&digest))
        );
    }

    #[test]
    fn what_is_refused_is_told_with_what_would_be_accepted() {
        let told = |text: &str| Reference::of(text).unwrap_err();
        assert!(
            told("registry.example.org/A/b:v1").starts_with("\"A\" is neither a host nor a part of a path")
        );
        assert!(told("registry.example.org/a:").starts_with("\"\" is no tag"));
        assert!(told("registry.example.org/a@").starts_with("\"\" is no digest"));
        assert!(told("registry.-example.org/a").starts_with("\"registry.-example.org\" is neither a host"));
        assert_eq!(told("registry.example.org//a"), "a part of its path is empty");
    }
}
