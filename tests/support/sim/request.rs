//! What a request asks for, read from its method, path, query and body.

use std::collections::BTreeMap;

use http::Method;
use serde_json::Value;

use super::kinds::{Kind, of_path};
use super::selector::Selector;
use super::store::Id;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    MergePatch,
    Apply,
    Delete,
}

impl Verb {
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// A request that has been understood.
#[derive(Clone, Debug)]
pub struct Request {
    pub verb: Verb,
    pub kind: &'static Kind,
    /// `None` for a list over all namespaces.
    pub namespace: Option<String>,
    /// Of the object; empty for a list, a watch or a creation.
    pub name: String,
    /// Whether the status is meant.
    pub status: bool,
    pub query: BTreeMap<String, String>,
    pub body: Value,
}

impl Request {
    /// Which object it is about.
    pub fn id(&self) -> Id {
        Id::new(
            self.kind,
            self.namespace.as_deref().unwrap_or_default(),
            &self.name,
        )
    }

    /// Understands a request.
    ///
    /// # Panics
    /// About everything that is not modelled.
    pub fn parse(method: &Method, path: &str, query: Option<&str>, content_type: &str, body: &[u8]) -> Self {
        let query = query.map(pairs).unwrap_or_default();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => panic!("{method} {path} is not simulated"),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            _ => (None, rest),
        };
        let (plural, name, status) = match rest {
            [plural] => (*plural, "", false),
            [plural, name] => (*plural, *name, false),
            [plural, name, "status"] => (*plural, *name, true),
            _ => panic!("{method} {path} is not simulated"),
        };
        let kind = of_path(group, version, plural);
        assert!(!status || kind.status, "{} has no status to write", kind.kind);
        let watches = query.get("watch").is_some_and(|watch| watch == "true");
        let verb = match (method.as_str(), name.is_empty()) {
            ("GET", true) if watches => Verb::Watch,
            ("GET", true) => Verb::List,
            ("GET", false) => Verb::Get,
            ("POST", true) => Verb::Create,
            ("PUT", false) => Verb::Update,
            ("PATCH", false) if content_type.starts_with("application/merge-patch+json") => Verb::MergePatch,
            ("PATCH", false) if content_type.starts_with("application/apply-patch+yaml") => Verb::Apply,
            ("DELETE", false) => Verb::Delete,
            _ => panic!("{method} {path} with content type {content_type:?} is not simulated"),
        };
        // A list says what is so at this moment: one of a version, which may be an old one, is not simulated.
        let known: &[&str] = match verb {
            Verb::List => &["labelSelector", "fieldSelector", "limit", "continue"],
            Verb::Watch => &[
                "labelSelector",
                "fieldSelector",
                "watch",
                "resourceVersion",
                "allowWatchBookmarks",
                "timeoutSeconds",
            ],
            Verb::Create | Verb::Update | Verb::MergePatch => &["fieldManager"],
            Verb::Apply => &["fieldManager", "force"],
            Verb::Get | Verb::Delete => &[],
        };
        let unknown = query.keys().find(|name| !known.contains(&name.as_str()));
        assert_eq!(unknown, None, "{method} {path}: that is not simulated");
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
        };
        Self {
            verb,
            kind,
            namespace,
            name: name.to_owned(),
            status,
            query,
            body,
        }
    }

    pub fn selector(&self) -> Selector {
        let get = |name: &str| self.query.get(name).map(String::as_str);
        Selector::parse(get("labelSelector"), get("fieldSelector"))
    }

    /// Whose fields a write touches.
    pub fn manager(&self) -> String {
        self.query
            .get("fieldManager")
            .cloned()
            .unwrap_or_else(|| "unknown".to_owned())
    }

    /// In one line, for people.
    pub fn summary(&self) -> String {
        let name = if self.name.is_empty() {
            self.body["metadata"]["name"].as_str().unwrap_or_default()
        } else {
            &self.name
        };
        let status = if self.status { " status" } else { "" };
        format!(
            "{:?} {}{status} {}/{name}",
            self.verb,
            self.kind.kind,
            self.namespace.as_deref().unwrap_or("*")
        )
    }
}

/// The pairs of a query. Percent signs are undone.
fn pairs(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let bytes = text.replace('+', " ").into_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let hex =
            (bytes[at] == b'%').then(|| std::str::from_utf8(&bytes[at + 1..at + 3]).unwrap_or_default());
        match hex.map(|hex| u8::from_str_radix(hex, 16)) {
            Some(Ok(byte)) => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|error| panic!("{text}: {error}"))
}
