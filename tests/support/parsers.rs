//! Everything that reads what others have written, and a few sound inputs of each: for tests that spoil these, and for the fuzzer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Component, Path, PathBuf};

use roadstead::olm::catalog::template::Template;
use roadstead::olm::catalog::{Catalog, Rendered, SkipRange, deprecations, migrate, sources};
use roadstead::olm::described::Described;
use roadstead::olm::oci::credentials::Files;
use roadstead::olm::oci::unpack::{self, Bounds};
use roadstead::olm::oci::{Created, Digest, Name, Platform, layout};
use roadstead::olm::registry_v1::Suite;
use roadstead::olm::{Manifests, Tree, bundle, csv, fbc, registry_v1, yaml};
use serde_json::{Value, json};

use crate::broken_bundles::plain;
use crate::{catalogs, sound_images, spoken_grpc};

/// What is unpacked may come to so much.
const BOUNDS: Bounds = Bounds {
    entries: 500,
    read: 4 << 20,
    files: 50,
    kept: 1 << 20,
};

/// So many images of a template are there.
const FILLED: usize = 20;
const DEPRECATED: &str = "schema: olm.deprecations\npackage: widgets\nentries:\n\
    - {reference: {schema: olm.package}, message: see gadgets}\n\
    - {reference: {schema: olm.channel, name: alpha}, message: use stable}\n---\nschema: olm.deprecations\npackage: gadgets\nentries: []\n";
/// What is said of the registry itself names no helper, which would be run.
const CREDENTIALS: &str = r#"{"auths": {"registry.example.org/a": {"auth": "bWU6c2VjcmV0"}, "registry.example.org": {"username": "me", "password": "secret"},
    "https://index.docker.io/v1/": {"identitytoken": "secret"}}, "credHelpers": {"other.example.org": "none-of-this-name"}, "HttpHeaders": {}}"#;

/// Reads an input, whatever it makes of it. It fails where it did what it may not do.
pub type Read = Box<dyn Fn(&[u8]) -> Result<(), String>>;

/// Something that reads what others have written.
pub struct Parser {
    pub name: &'static str,
    pub sound: Vec<Vec<u8>>,
    pub read: Read,
}

fn parser(
    name: &'static str,
    sound: Vec<Vec<u8>>,
    read: impl Fn(&[u8]) -> Result<(), String> + 'static,
) -> Parser {
    Parser {
        name,
        sound,
        read: Box::new(read),
    }
}

/// It may fail; it may not panic.
fn tried<T, E>(outcome: Result<T, E>) {
    drop(outcome.ok());
}

fn text_parser(name: &'static str, sound: &[String], read: impl Fn(&str) + 'static) -> Parser {
    let sound = sound.iter().map(|text| text.clone().into_bytes()).collect();
    parser(name, sound, move |bytes| {
        read(&String::from_utf8_lossy(bytes));
        Ok(())
    })
}

fn as_yaml(documents: &[Value]) -> String {
    yaml::documents(documents).unwrap()
}

fn as_json(documents: &[Value]) -> String {
    documents
        .iter()
        .map(|document| format!("{document:#}\n"))
        .collect()
}

pub fn of_text() -> Vec<Parser> {
    let catalog = catalogs::rich();
    let catalogs = [as_yaml(&catalog), as_json(&catalog)];
    let bundle = plain();
    let manifests = [
        as_yaml(&[bundle.csv, bundle.crd]),
        "a: &a [1, 2]\nb: {<<: {c: *a}}\n".to_owned(),
    ];
    let templates = [
        "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: a}\n- {schema: olm.bundle, image: example.org/a:1}\n".to_owned(),
        "schema: olm.semver\ngenerateMajorChannels: true\nstable:\n  bundles:\n  - image: example.org/a:1\n".to_owned(),
    ];
    let package = catalogs.clone();
    let filling = rendered();
    vec![
        text_parser("manifests", &manifests, |text| {
            tried(Manifests::of_text(Path::new("-"), text));
        }),
        text_parser("the documents of a catalog", &catalogs, |text| {
            tried(sources::of_text("-", text));
        }),
        text_parser("the catalog of a package", &package, |text| {
            if let Ok(catalog) = Catalog::of_text("-", text, "widgets") {
                tried(catalog.check());
                tried(catalog.text());
            }
        }),
        text_parser("templates", &templates, move |text| {
            if let Ok(Some(template)) = Template::parse("-", text) {
                let images = template.images().into_iter();
                let bundles = images.map(|image| (image.to_owned(), filling.clone()));
                tried(template.fill(&bundles.take(FILLED).collect()));
            }
        }),
        text_parser(
            "names, digests, platforms and ranges",
            &[
                format!("registry.example.org:5000/a/b@sha256:{}", "a".repeat(64)),
                "docker.io/a/b:v1.0.0".to_owned(),
                ">=1.0.0-rc.1 <2.0.0 || !1.5.x".to_owned(),
                "linux/arm64/v8".to_owned(),
            ],
            |text| {
                tried(Name::of("IMAGE", text));
                tried(text.parse::<Digest>());
                tried(text.parse::<Platform>());
                tried(text.parse::<SkipRange>());
            },
        ),
    ]
}

/// What is read by way of files.
pub fn of_files() -> Vec<Parser> {
    let documents = catalogs::rich();
    let catalog = vec![as_yaml(&documents).into_bytes(), as_json(&documents).into_bytes()];
    let bundle = tempfile::tempdir().unwrap();
    plain().write(bundle.path());
    let files = [
        "manifests/csv.yaml",
        "manifests/crd.yaml",
        "metadata/annotations.yaml",
    ];
    let sound: Vec<Vec<u8>> = files
        .iter()
        .map(|file| fs::read(bundle.path().join(file)).unwrap())
        .collect();
    let kept = sound.clone();
    vec![
        parser("catalogs", catalog, |bytes| {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("catalog.yaml"), bytes).unwrap();
            tried(fbc::validate(folder.path()));
            Ok(())
        }),
        parser("bundles", sound, move |bytes| {
            // Which of its files it was, its words tell
            let looks = |word: &str| String::from_utf8_lossy(bytes).contains(word);
            let which = [looks("ClusterServiceVersion"), looks("CustomResourceDefinition")];
            let which = which.iter().position(|it| *it).unwrap_or(2);
            for (file, sound) in files.iter().zip(&kept) {
                fs::write(bundle.path().join(file), sound).unwrap();
            }
            fs::write(bundle.path().join(files[which]), bytes).unwrap();
            tried(registry_v1::validate(bundle.path(), &Suite::ALL));
            tried(registry_v1::Bundle::read(bundle.path()).map(|(bundle, _)| {
                let images = bundle.images().into_iter();
                let platforms = images.map(|image| (image.to_owned(), Ok([Platform::linux("arm64")].into())));
                registry_v1::validate_platforms(&bundle, &platforms.collect())
            }));
            match sources::bundle(bundle.path(), "example.org/a:1") {
                Ok(rendered) => added(rendered),
                Err(_) => Ok(()),
            }
        }),
        parser("what is deprecated", vec![DEPRECATED.into()], |bytes| {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), bytes).unwrap();
            for document in deprecations::read(file.path()).unwrap_or_default() {
                let mut catalog = Catalog::empty(&document.package);
                catalog.deprecate(document.entries);
                tried(catalog.check());
                tried(catalog.text());
            }
            Ok(())
        }),
        parser("files of credentials", vec![CREDENTIALS.into()], |bytes| {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), bytes).unwrap();
            let files = Files {
                named: Some(file.path().to_owned()),
                usual: Vec::new(),
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let name = Name::of("IMAGE", "registry.example.org/a/b:1").unwrap();
            tried(runtime.unwrap().block_on(files.of(&name)));
            Ok(())
        }),
        parser("programs", vec![program()], |bytes| {
            let folder = tempfile::tempdir().unwrap();
            let (path, catalog) = (folder.path().join("program"), folder.path().join("catalog"));
            fs::write(&path, bytes).unwrap();
            fs::create_dir(&catalog).unwrap();
            tried(roadstead::olm::oci::catalog::image(
                &catalog,
                &[path],
                Created::default(),
            ));
            Ok(())
        }),
    ]
}

/// What is made of what others have written: of whatever names are in it, nothing leads elsewhere.
pub fn of_makers() -> Vec<Parser> {
    let files = [
        include_str!("../fixtures/widgets/base.yaml"),
        include_str!("../fixtures/widgets/crd.yaml"),
        include_str!("../fixtures/widgets/operator.yaml"),
        include_str!("../fixtures/widgets/sample.yaml"),
    ];
    let role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: 'op:view'}}";
    let (whole, without_base) = (files.join("\n---\n"), files[1..].join("\n---\n"));
    let sound = [whole, format!("{role}\n---\n{without_base}")].map(String::into_bytes);
    let documents = catalogs::rich();
    let catalogs = vec![as_yaml(&documents).into_bytes(), as_json(&documents).into_bytes()];
    vec![
        parser("what bundles are made of", sound.to_vec(), |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let Ok(manifests) = Manifests::of_text(Path::new("-"), &text) else {
                return Ok(());
            };
            let described = Described::default().complete(manifests, Some("widgets"));
            let Ok(manifests) = described else { return Ok(()) };
            drop(csv::broken_samples(&manifests));
            bundle::generate(&manifests, &options()).map_or(Ok(()), |tree| stays(&tree))
        }),
        parser("catalogs that are laid out anew", catalogs, |bytes| {
            let Ok(documents) = sources::of_text("-", &String::from_utf8_lossy(bytes)) else {
                return Ok(());
            };
            migrate::migrate(documents).map_or(Ok(()), |tree| stays(&tree))
        }),
    ]
}

/// The catalog of somebody else's bundle.
fn added(rendered: Rendered) -> Result<(), String> {
    let mut catalog = Catalog::empty(rendered.package());
    let (channels, default) = (rendered.channels.clone(), rendered.default_channel.clone());
    tried(rendered.check_package());
    tried(catalog.add(rendered, &channels, &default));
    tried(catalog.check());
    catalog
        .tree(Path::new("catalog"))
        .map_or(Ok(()), |tree| stays(&tree))
}

/// Whether all files are within the folder that they are written into.
fn stays(tree: &Tree) -> Result<(), String> {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    let mut paths = tree.files().map(|(path, _)| path);
    match paths.find(|path| !path.components().all(is_name)) {
        Some(path) => Err(format!("{} would be written", path.display())),
        None => Ok(()),
    }
}

fn options() -> bundle::Options {
    bundle::Options {
        csv: csv::Options {
            package: "widgets".to_owned(),
            version: "1.2.3".parse().unwrap(),
            image: None,
            digests: Default::default(),
            replaces: None,
        },
        channels: vec!["stable".to_owned()],
        default_channel: "stable".to_owned(),
        folder: "bundle".into(),
        installer: bundle::Installer::Olm,
    }
}

/// A bundle of which as little is to be told as there may be.
fn rendered() -> Rendered {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "widgets.v1.0.0"}, "spec": {"version": "1.0.0"},
    });
    let annotations = json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": "widgets"}});
    let mut tree = Tree::default();
    tree.insert("manifests/csv.yaml", csv.to_string()).unwrap();
    tree.insert("metadata/annotations.yaml", annotations.to_string())
        .unwrap();
    Rendered::of_tree(&tree, Path::new(""), |_, _| Ok("example.org/a:1".to_owned())).unwrap()
}

/// As much of a static program for amd64 as is looked at, with one segment.
fn program() -> Vec<u8> {
    let mut bytes = [b"\x7fELF\x02\x01" as &[u8], &[0; 114]].concat();
    for (at, value) in [(18, 62), (32, 64), (54, 56), (56, 1), (64, 1)] {
        bytes[at] = value;
    }
    bytes
}

pub fn of_images() -> Vec<Parser> {
    vec![
        parser("layers", sound_images::layers(), |bytes| {
            unpacked(|image| sound_images::layout_of(image, bytes))
        }),
        parser("layouts", vec![sound_images::archive()], |bytes| {
            unpacked(|image| fs::write(image, bytes).unwrap())
        }),
    ]
}

/// Unpacks an image beside itself, deep within a folder. Whatever comes of it, there is nothing else in the folder but the image and what it is unpacked to, and no
/// link.
fn unpacked(write: impl FnOnce(&Path)) -> Result<(), String> {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("a/b/c/d");
    fs::create_dir_all(&place).unwrap();
    let image = place.join("image");
    write(&image);
    let platform = Platform::linux("amd64");
    if let Ok(content) = layout::open(&image) {
        tried(content.verify());
        tried(content.catalog(&platform));
        tried(unpack::catalog(
            &content,
            &platform,
            &place.join("catalog"),
            &BOUNDS,
        ));
        tried(unpack::bundle(
            &content,
            &platform,
            &place.join("bundle"),
            &BOUNDS,
        ));
    }
    for folder in place
        .ancestors()
        .take_while(|folder| folder.starts_with(root.path()))
    {
        let known: &[&str] = if folder == place {
            &["image", "catalog", "bundle"]
        } else {
            &["a", "b", "c", "d"]
        };
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !known.contains(&name.as_str()) {
                return Err(format!("{name} was written into {}", folder.display()));
            }
        }
    }
    ["catalog", "bundle"]
        .iter()
        .try_for_each(|folder| plain_files(&place.join(folder)))
}

fn plain_files(place: &Path) -> Result<(), String> {
    let mut left: Vec<PathBuf> = vec![place.to_owned()];
    let (mut files, mut bytes) = (0, 0);
    while let Some(path) = left.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        if found.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if found.is_file() {
            files += 1;
            bytes += found.len();
        } else {
            return Err(format!("{} is neither a file nor a folder", path.display()));
        }
    }
    if files > BOUNDS.files || bytes > BOUNDS.kept {
        return Err(format!("{files} files of {bytes} bytes were written"));
    }
    Ok(())
}

/// Words to a registry that serves.
pub fn of_the_wire() -> Vec<Parser> {
    let registry = spoken_grpc::Served::start();
    let bears = move |bytes: &[u8]| registry.bears(bytes);
    vec![parser(
        "questions to the registry",
        spoken_grpc::questions(),
        bears,
    )]
}
