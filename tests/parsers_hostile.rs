//! Whatever the tools are given to read that others have written: it is read or refused, in little time and memory, and nothing is written anywhere else.
//!
//! Inputs are sound ones that are damaged, or made to do harm. `PARSER_CASES` says how many each parser gets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/catalogs.rs"]
mod catalogs;
#[path = "support/counting.rs"]
mod counting;
#[path = "support/noise.rs"]
mod noise;
#[path = "support/sound_images.rs"]
mod sound_images;
#[path = "support/spoken_grpc.rs"]
mod spoken_grpc;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use broken_bundles::plain;
use counting::Growth;
use noise::{spoils, spoilt};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use roadstead::olm::catalog::template::Template;
use roadstead::olm::catalog::{Catalog, SkipRange, sources};
use roadstead::olm::oci::unpack::{self, Bounds};
use roadstead::olm::oci::{Digest, Name, Platform, layout};
use roadstead::olm::registry_v1::Suite;
use roadstead::olm::{Manifests, fbc, registry_v1, yaml};
use serde_json::Value;

/// How many inputs each parser gets, unless somebody says otherwise.
const CASES: u32 = 100;
/// An input may take so much memory, and so many times its own length besides.
const SPARE: usize = 24 << 20;
const FACTOR: usize = 64;
/// On a busy machine, unoptimised.
const SLOW: Duration = Duration::from_secs(10);
/// What is unpacked may come to so much.
const BOUNDS: Bounds = Bounds {
    entries: 500,
    read: 4 << 20,
    files: 50,
    kept: 1 << 20,
};

/// Reads an input, whatever it makes of it. It fails where it did what it may not do.
type Read = Box<dyn Fn(&[u8]) -> Result<(), String>>;

/// Something that reads what others have written.
struct Parser {
    name: &'static str,
    sound: Vec<Vec<u8>>,
    read: Read,
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

fn of_text() -> Vec<Parser> {
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
        text_parser("templates", &templates, |text| tried(Template::parse("-", text))),
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
fn of_files() -> Vec<Parser> {
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
            tried(sources::bundle(bundle.path(), "example.org/a:1"));
            Ok(())
        }),
    ]
}

fn of_images() -> Vec<Parser> {
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

fn cases() -> u32 {
    let said = std::env::var("PARSER_CASES").ok();
    said.map_or(CASES, |said| {
        said.parse()
            .unwrap_or_else(|_| panic!("PARSER_CASES is {said:?}, which is no number"))
    })
}

fn borne(parser: &Parser, input: &[u8]) -> Result<(), TestCaseError> {
    let (growth, started) = (Growth::since_now(), Instant::now());
    (parser.read)(input).map_err(TestCaseError::fail)?;
    let (grown, took) = (growth.most(), started.elapsed());
    let accepted = SPARE + FACTOR * input.len();
    prop_assert!(grown <= accepted, "{} bytes took {grown} of memory", input.len());
    prop_assert!(took <= SLOW, "{} bytes took {took:?}", input.len());
    Ok(())
}

/// In one test, since memory is counted for the whole process.
#[test]
fn whatever_is_read_is_borne_in_little_time_and_memory_and_leads_nowhere_else() {
    let registry = spoken_grpc::Served::start();
    let grpc = parser(
        "questions to the registry",
        spoken_grpc::questions(),
        move |bytes| registry.bears(bytes),
    );
    let all = [of_text(), of_files(), of_images(), vec![grpc]];
    for parser in all.into_iter().flatten() {
        let started = Instant::now();
        let mut runner = TestRunner::new(Config {
            cases: cases(),
            failure_persistence: None,
            ..Config::default()
        });
        for sound in &parser.sound {
            borne(&parser, sound).unwrap();
        }
        let inputs = (any::<Index>(), spoils());
        let outcome = runner.run(&inputs, |(which, spoils)| {
            let sound: &Vec<u8> = which.get(&parser.sound);
            borne(&parser, &spoilt(sound, &spoils))
        });
        if let Err(error) = outcome {
            panic!("{}: {error}", parser.name);
        }
        println!("{}: {} inputs in {:.1?}", parser.name, cases(), started.elapsed());
    }
}
