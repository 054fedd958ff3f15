//! The manifests that a bundle is made from: any folder of YAML, whatever wrote it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::{Error, Tree, bounded, lists, yaml};

/// The largest file or stream of manifests, in bytes. A bundle holds no more than a hundredth of it.
pub const LARGEST: u64 = 64 << 20;

/// The annotation, `"true"`, of an object that is for clusters without OLM alone.
pub const LEFT_OUT: &str = "roadstead.dev/left-out-of-bundle";

/// One Kubernetes object and the file that holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The file, for messages.
    pub source: PathBuf,
    /// The object. It has an `apiVersion` and a `kind`.
    pub body: Value,
}

/// All objects of a folder, in the order of their files' paths.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifests(Vec<Manifest>);

impl Manifests {
    /// Reads every `*.yaml`, `*.yml` and `*.json` below a folder, or one file, whatever its name. Links are followed, and whatever they lead to is read once.
    /// Kustomizations, documents that are no objects and those with the annotation [`LEFT_OUT`] are left out. The items of a List stand for themselves.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Unreadable`], naming the file; [`Error::NoManifests`] when there is none at all.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        Self::read_beside(folder, &[])
    }

    /// The same, without what lies in these folders: what is made of manifests may be written below them.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_beside(folder: &Path, made: &[&Path]) -> Result<Self, Error> {
        let files = if folder.is_file() {
            vec![folder.to_owned()]
        } else {
            manifest_files(folder, made)?
        };
        let mut manifests = Self::default();
        for path in files {
            let text = bounded::text(&path, LARGEST).map_err(|source| Error::file("read", &path, source))?;
            manifests.add(&path, &text)?;
        }
        if manifests.0.is_empty() {
            return Err(Error::NoManifests(folder.to_owned()));
        }
        Ok(manifests)
    }

    /// The objects of files that were made but not written yet.
    ///
    /// # Errors
    /// [`Error::Unreadable`], naming the file.
    pub fn of_tree(tree: &Tree) -> Result<Self, Error> {
        let mut manifests = Self::default();
        for (path, text) in tree.files().filter(|(path, _)| is_manifest_file(path)) {
            manifests.add(path, text)?;
        }
        Ok(manifests)
    }

    /// The objects of a stream, such as what `kubectl kustomize` or `helm template` prints; `source` names it in messages.
    ///
    /// # Errors
    /// [`Error::Unreadable`], or [`Error::NoManifests`].
    pub fn of_text(source: &Path, text: &str) -> Result<Self, Error> {
        let mut manifests = Self::default();
        manifests.add(source, text)?;
        if manifests.0.is_empty() {
            return Err(Error::NoManifests(source.to_owned()));
        }
        Ok(manifests)
    }

    /// Objects that a program has, such as the definitions of its own types. In messages their kind and name are told alone.
    ///
    /// # Errors
    /// [`Error::Unwritable`] of a value that is no JSON; [`Error::NoManifests`], if none is an object of Kubernetes.
    pub fn of_objects<T: Serialize>(objects: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        let source = Path::new("an object");
        let mut manifests = Self::default();
        for object in objects {
            let body = serde_json::to_value(object).map_err(|error| Error::Unwritable(error.to_string()))?;
            manifests.add_object(source, body)?;
        }
        if manifests.0.is_empty() {
            return Err(Error::NoManifests(source.to_owned()));
        }
        Ok(manifests)
    }

    /// Objects from elsewhere.
    pub(super) fn of(manifests: impl IntoIterator<Item = Manifest>) -> Self {
        Self(manifests.into_iter().collect())
    }

    /// Adds all of another folder, after what is here.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    fn add(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        for body in yaml::parse::<Value>(&path.display().to_string(), text)? {
            self.add_object(path, body)?;
        }
        Ok(())
    }

    fn add_object(&mut self, source: &Path, body: Value) -> Result<(), Error> {
        if !is_wanted(&body) {
            return Ok(());
        }
        let objects = lists::objects(body).map_err(|message| Error::Unreadable {
            source_name: source.display().to_string(),
            message,
        })?;
        let source = || source.to_owned();
        let wanted = objects.into_iter().filter(is_wanted);
        self.0.extend(wanted.map(|body| Manifest {
            source: source(),
            body,
        }));
        Ok(())
    }

    /// The same with other bodies; where there is none the object is left out.
    pub(super) fn map(&self, body: impl Fn(&Value) -> Option<Value>) -> Self {
        let manifests = self.0.iter();
        Self(
            manifests
                .filter_map(|manifest| {
                    Some(Manifest {
                        source: manifest.source.clone(),
                        body: body(&manifest.body)?,
                    })
                })
                .collect(),
        )
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Manifest> {
        self.0.iter()
    }

    /// The objects of one API group and kind, whatever their version.
    pub fn of_kind<'a>(&'a self, group: &'a str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0
            .iter()
            .map(|manifest| &manifest.body)
            .filter(move |body| is_kind(body, group, kind))
    }
}

/// Whether a document is an object, or a list of some, that a bundle is made from.
fn is_wanted(body: &Value) -> bool {
    let is_object = body.get("apiVersion").is_some() && body.get("kind").is_some();
    let is_kustomize = api_group(body) == "kustomize.config.k8s.io";
    let is_left_out = body["metadata"]["annotations"][LEFT_OUT] == "true";
    is_object && !is_kustomize && !is_left_out
}

/// The files below a folder, sorted. Links may lead in circles, and to one place on so many ways that nobody would come to their end; so a folder and a file count
/// where they are come upon first, and not again.
fn manifest_files(folder: &Path, made: &[&Path]) -> Result<Vec<PathBuf>, Error> {
    // What is not there yet lies nowhere
    let made = made.iter().filter_map(|folder| folder.canonicalize().ok());
    let (mut files, mut seen) = (Vec::new(), made.collect::<BTreeSet<PathBuf>>());
    let mut is_new = |path: &Path| {
        let place = path.canonicalize();
        let place = place.map_err(|source| Error::file("read", path, source))?;
        Ok(seen.insert(place))
    };
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        if !is_new(&folder)? {
            continue;
        }
        for path in sorted_entries(&folder)? {
            if path.is_dir() {
                left.push(path);
            } else if is_manifest_file(&path) && is_new(&path)? {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn sorted_entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::file("list", folder, source);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let paths = entries.map(|entry| Ok(entry.map_err(failed)?.path()));
    let mut paths = paths.collect::<Result<Vec<PathBuf>, Error>>()?;
    paths.sort();
    Ok(paths)
}

pub(super) fn is_manifest_file(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}

/// Whether an object is of a group and kind.
pub fn is_kind(body: &Value, group: &str, kind: &str) -> bool {
    text(body, "/kind") == kind && api_group(body) == group
}

/// The API group of an object; empty for the core group.
pub fn api_group(body: &Value) -> &str {
    text(body, "/apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group)
}

/// The version within the API group of an object.
pub fn api_version(body: &Value) -> &str {
    let whole = text(body, "/apiVersion");
    whole.split_once('/').map_or(whole, |(_, version)| version)
}

/// The name of an object.
pub fn name(body: &Value) -> &str {
    text(body, "/metadata/name")
}

/// The text at a JSON pointer; empty where there is none.
pub fn text<'a>(body: &'a Value, pointer: &str) -> &'a str {
    body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a JSON pointer; empty where there is none.
pub fn list<'a>(body: &'a Value, pointer: &str) -> &'a [Value] {
    body.pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const ONE: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}";

    #[test]
    fn the_items_of_a_list_are_objects_of_its_file() {
        let left_out = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: two, annotations: {{{LEFT_OUT}: 'true'}}}}}}"
        );
        let list = format!("{{apiVersion: v1, kind: List, items: [{ONE}, {left_out}]}}\n");
        let manifests = Manifests::of_text(Path::new("all.yaml"), &list).unwrap();
        let alone = Manifests::of_text(Path::new("all.yaml"), ONE).unwrap();
        assert_eq!(manifests, alone);
        let broken = list.replace("kind: ConfigMap, metadata: {name: one}", "metadata: {name: one}");
        let refused = Manifests::of_text(Path::new("all.yaml"), &broken).unwrap_err();
        let told = "all.yaml: List: items[0].kind is missing; accepted are objects of Kubernetes";
        assert_eq!(refused.to_string(), told);
    }

    /// As a volume of a ConfigMap has them, and in circles.
    #[test]
    fn what_links_lead_to_is_read_once() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/b/one.yaml"), ONE).unwrap();
        for (to, link) in [
            ("..", "a/up"),
            ("../..", "a/b/up"),
            ("b", "a/c"),
            ("a/b/one.yaml", "two.yaml"),
        ] {
            symlink(to, at(link)).unwrap();
        }
        let manifests = Manifests::read(root.path()).unwrap();
        assert_eq!(manifests.0.len(), 1, "{manifests:?}");
    }

    /// Two ways at each of 40 steps.
    #[test]
    fn many_ways_to_one_place_take_no_long_time() {
        let root = tempfile::tempdir().unwrap();
        for step in 0..40 {
            let folder = root.path().join(format!("{step:02}"));
            std::fs::create_dir(&folder).unwrap();
            for way in ["one", "other"] {
                symlink(format!("../{:02}", step + 1), folder.join(way)).unwrap();
            }
        }
        std::fs::create_dir(root.path().join("40")).unwrap();
        std::fs::write(root.path().join("40/one.yaml"), ONE).unwrap();
        assert_eq!(Manifests::read(&root.path().join("00")).unwrap().0.len(), 1);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_told() {
        let root = tempfile::tempdir().unwrap();
        symlink("gone", root.path().join("a.yaml")).unwrap();
        let refused = Manifests::read(root.path()).unwrap_err().to_string();
        assert!(
            refused.contains("cannot read") && refused.contains("a.yaml"),
            "{refused}"
        );
    }
}
