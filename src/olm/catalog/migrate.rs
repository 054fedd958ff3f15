//! A catalog of any layout as this program lays catalogs out: a folder for each package. Bundles that carry their manifests carry what is told of them instead.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::properties::{METADATA, csv_metadata};
use super::{Catalog, property};
use crate::olm::fbc::blob::{BUNDLE, CHANNEL, OBJECT, PACKAGE};
use crate::olm::fbc::fold;
use crate::olm::manifests::{list, text};
use crate::olm::{Error, Tree, fbc, yaml};

/// The files of a catalog of these documents, none of which is lost. What is of no package is in a file of its own.
///
/// # Errors
/// [`Error::Migration`]: a manifest in a bundle cannot be read, or a name is none for a folder.
pub fn migrate(documents: Vec<Value>) -> Result<Tree, Error> {
    let mut packages: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for mut document in documents {
        if text(&document, "/schema") == BUNDLE {
            without_objects(&mut document)?;
        }
        let package = package_of(&document).to_owned();
        packages.entry(package).or_default().push(document);
    }
    let mut tree = Tree::default();
    for (package, mut documents) in packages {
        // Within one schema the order stays what it was
        documents.sort_by_key(|document| rank(text(document, "/schema")));
        tree.insert(file_of(&package)?, yaml::documents(&documents)?)?;
    }
    Ok(tree)
}

/// The package of which a document says something.
pub(super) fn package_of(document: &Value) -> &str {
    let Value::Object(fields) = document else {
        return "";
    };
    let field = |name| {
        fold::get(fields, name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    match field("schema") {
        PACKAGE => field("name"),
        _ => field("package"),
    }
}

/// As `catalog generate` has them.
fn rank(schema: &str) -> usize {
    let known = [PACKAGE, CHANNEL, BUNDLE, super::deprecations::SCHEMA];
    let place = known.iter().position(|known| *known == schema);
    place.unwrap_or(known.len())
}

fn file_of(package: &str) -> Result<PathBuf, Error> {
    let is_name = !package.starts_with('.') && !package.contains(['/', '\\', '\0']);
    match package {
        "" => Ok(Path::new("catalog.yaml").to_owned()),
        _ if is_name => Ok(Catalog::file(package)),
        _ => Err(Error::Migration {
            what: format!("package {package:?}"),
            why: "its name cannot be that of a folder".to_owned(),
        }),
    }
}

/// As upstream: one whose image is not known, or that has no ClusterServiceVersion, needs its manifests; what is told already is not told anew.
fn without_objects(bundle: &mut Value) -> Result<(), Error> {
    let is = |kind: &'static str| move |property: &Value| text(property, "/type") == kind;
    let properties = list(bundle, "/properties");
    if text(bundle, "/image").is_empty() || properties.iter().any(is(METADATA)) {
        return Ok(());
    }
    let failed = |why: String| Error::Migration {
        what: format!("bundle {}, property {OBJECT}", text(bundle, "/name")),
        why,
    };
    let mut told = None;
    for object in properties.iter().filter(|property| is(OBJECT)(property)) {
        let manifest = fbc::decode(text(object, "/value/data")).map_err(failed)?;
        let manifest: Value = serde_json::from_str(&manifest).map_err(|error| failed(error.to_string()))?;
        if text(&manifest, "/kind") == "ClusterServiceVersion" {
            told.get_or_insert_with(|| csv_metadata(&manifest));
        }
    }
    if let (Some(told), Some(properties)) = (told, bundle["properties"].as_array_mut()) {
        properties.retain(|property| !is(OBJECT)(property));
        properties.push(json!(property(METADATA, told)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn object(manifest: &Value) -> Value {
        json!({"type": OBJECT, "value": {"data": STANDARD.encode(manifest.to_string())}})
    }

    fn bundle(image: &str, properties: &[Value]) -> Value {
        json!({"schema": "olm.bundle", "name": "a.v1", "package": "a", "image": image, "properties": properties, "x": 1})
    }

    fn csv() -> Value {
        json!({"kind": "ClusterServiceVersion", "spec": {"displayName": "A"}})
    }

    fn kinds(bundle: &Value) -> Vec<&str> {
        list(bundle, "/properties")
            .iter()
            .map(|it| text(it, "/type"))
            .collect()
    }

    #[test]
    fn manifests_in_a_bundle_become_what_is_told_of_it() {
        let package = json!({"type": "olm.package", "value": {}});
        let service = object(&json!({"kind": "Service"}));
        let mut bundle = bundle("r/a:v1", &[object(&csv()), package, service]);
        without_objects(&mut bundle).unwrap();
        assert_eq!(kinds(&bundle), ["olm.package", METADATA]);
        assert_eq!(text(&bundle, "/properties/1/value/displayName"), "A");
        assert_eq!(bundle["x"], 1, "what is not known stays");
    }

    #[test]
    fn a_bundle_that_needs_its_manifests_keeps_them() {
        let told = json!({"type": METADATA, "value": {}});
        for (image, properties) in [
            ("", vec![object(&csv())]),
            ("r/a:v1", vec![object(&json!({"kind": "Service"}))]),
            ("r/a:v1", vec![object(&csv()), told]),
        ] {
            let before = bundle(image, &properties);
            let mut after = before.clone();
            without_objects(&mut after).unwrap();
            assert_eq!(after, before);
        }
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_told_with_its_bundle() {
        let mut bundle = bundle("r/a:v1", &[json!({"type": OBJECT, "value": {"data": "???"}})]);
        let error = without_objects(&mut bundle).unwrap_err().to_string();
        assert!(
            error.contains("bundle a.v1, property olm.bundle.object: it is no base64"),
            "{error}"
        );
    }

    #[test]
    fn each_package_has_its_folder_and_nothing_is_lost() {
        let documents = vec![
            json!({"schema": "example.org/note", "text": "of nobody"}),
            json!({"schema": "olm.bundle", "name": "b.v1", "package": "b"}),
            json!({"schema": "olm.package", "name": "a", "defaultChannel": "x"}),
            json!({"schema": "example.org/note", "package": "b"}),
            json!({"schema": "olm.channel", "name": "x", "package": "b"}),
        ];
        let tree = migrate(documents.clone()).unwrap();
        let files: Vec<_> = tree.files().map(|(path, _)| path.display().to_string()).collect();
        assert_eq!(files, ["a/catalog.yaml", "b/catalog.yaml", "catalog.yaml"]);
        let of_b: Vec<Value> = yaml::parse("b", tree.get("b/catalog.yaml").unwrap()).unwrap();
        assert_eq!(
            of_b,
            [documents[4].clone(), documents[1].clone(), documents[3].clone()]
        );
    }

    #[test]
    fn no_package_leads_out_of_the_folder() {
        for name in ["..", "../a", "a/b", "/a", ".git"] {
            let package = json!({"schema": "olm.package", "name": name});
            let error = migrate(vec![package]).unwrap_err().to_string();
            assert!(error.contains("cannot be that of a folder"), "{name}: {error}");
        }
    }
}
