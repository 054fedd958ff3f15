//! Images of catalogs: the same each time, with what OLM asks of one, and of nothing but the program and the catalog.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/catalogs.rs"]
mod catalogs;
#[path = "support/images.rs"]
mod images;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/registry.rs"]
mod registry;

use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use catalogs::{bundle, channel, package, write};
use images::{Place, done, program, refused, skopeo};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_roadstead");

fn catalog() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalog");
    folder.display().to_string()
}

/// Names, kinds and modes of what the layers of a layout hold.
fn held(layout: &Path) -> Vec<(String, tar::EntryType, u32)> {
    let read = |digest: &Value| -> PathBuf {
        let digits = digest.as_str().unwrap().strip_prefix("sha256:").unwrap();
        layout.join("blobs/sha256").join(digits)
    };
    let json = |path: PathBuf| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let index = json(layout.join("index.json"));
    let manifest = json(read(&index["manifests"][0]["digest"]));
    let mut held = Vec::new();
    for layer in manifest["layers"].as_array().unwrap() {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(read(&layer["digest"])).unwrap();
        flate2::read::GzDecoder::new(file)
            .read_to_end(&mut bytes)
            .unwrap();
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            let name = entry.path().unwrap().display().to_string();
            held.push((name, header.entry_type(), header.mode().unwrap()));
        }
    }
    held
}

#[test]
fn a_catalog_is_pushed_to_the_same_digest_each_time_with_what_olm_asks_of_it() {
    let place = Place::new();
    let (image, layout, binary) = (place.image(), place.text("layout"), program(&place, 62));
    let folder = catalog();
    let built = done(&[
        "catalog", "build", &folder, "--binary", &binary, "--tag", &image, "--output", &layout,
    ]);
    assert_eq!(done(&["catalog", "push", &layout, &image]), built);
    assert_eq!(
        done(&["catalog", "push", &folder, &image, "--binary", &binary]),
        built
    );

    let config = skopeo(&[
        "inspect",
        "--config",
        "--tls-verify=false",
        &format!("docker://{image}"),
    ]);
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(
        config["config"],
        json!({
            "User": "1001",
            "Env": ["PATH=/bin", "MALLOC_ARENA_MAX=1", "MALLOC_TRIM_THRESHOLD_=65536"],
            "Entrypoint": ["/bin/roadstead"],
            "Cmd": ["catalog", "serve", "/configs"],
            "Labels": {"operators.operatorframework.io.index.configs.v1": "/configs"},
        })
    );
    let held = held(&place.path("layout"));
    let find = |name: &str| {
        held.iter()
            .find(|(found, ..)| found == name)
            .unwrap_or_else(|| panic!("{name}: {held:?}"))
    };
    assert_eq!(find("bin/roadstead").2, 0o755);
    assert_eq!(find("bin/grpc_health_probe").1, tar::EntryType::Symlink);
    assert_eq!(find("configs/roadstead/catalog.yaml").2, 0o644);
}

#[test]
fn a_catalog_is_judged_and_shown_by_its_image_as_by_its_folder() {
    let place = Place::new();
    let (image, layout, binary) = (place.image(), place.text("layout"), program(&place, 62));
    let folder = place.text("catalog");
    // Of which something is told
    let mut documents = vec![
        package("a", "s"),
        channel("a", "s", json!([{"name": "a.v1.0.0"}])),
    ];
    let mut by_tag = bundle("a", "1.0.0", &[]);
    by_tag["image"] = json!("registry.example.org/a-bundle:v1.0.0");
    documents.push(by_tag);
    write(Path::new(&folder), &documents);
    done(&[
        "catalog", "build", &folder, "--binary", &binary, "--tag", &image, "--output", &layout,
    ]);
    done(&["catalog", "push", &layout, &image]);
    for command in ["list", "graph"] {
        let shown = |named: &str| done(&["catalog", command, named, "--output", "json"]);
        let of_folder = shown(&folder);
        assert_eq!(shown(&image), of_folder, "{command}");
        assert_eq!(shown(&layout), of_folder, "{command}");
    }
    let judged = |named: &str, inside: &str| -> Value {
        let told = done(&["catalog", "validate", named, "--output", "json"]);
        let told: Value = serde_json::from_str(&told.replace(inside, "")).unwrap();
        told["findings"].clone()
    };
    let found = judged(&folder, &format!("{folder}/"));
    assert_eq!(found[0]["code"], "image-by-tag", "{found}");
    for named in [&image, &layout] {
        assert_eq!(judged(named, "configs/"), found, "{named}");
    }
    assert_eq!(
        done(&["catalog", "diff", &image, &folder, "--output", "json"]),
        "[]"
    );

    let wrong = refused(&["bundle", "validate", &image]);
    assert!(wrong.contains("it is no bundle"), "{wrong}");
}

#[test]
fn each_program_tells_its_platform_and_the_catalog_is_there_once() {
    let place = Place::new();
    let (image, layout) = (place.image(), place.text("layout"));
    let binaries = format!("{},{}", program(&place, 62), program(&place, 183));
    let folder = catalog();
    done(&[
        "catalog", "build", &folder, "--binary", &binaries, "--tag", &image, "--output", &layout,
    ]);
    done(&["catalog", "push", &layout, &image]);
    let raw = skopeo(&[
        "inspect",
        "--raw",
        "--tls-verify=false",
        &format!("docker://{image}"),
    ]);
    let index: Value = serde_json::from_str(&raw).unwrap();
    let of = |at: usize| index["manifests"][at]["platform"]["architecture"].clone();
    assert_eq!([of(0), of(1)], [json!("amd64"), json!("arm64")]);
    // An index, two manifests, two configurations, two programs, one catalog
    assert_eq!(
        std::fs::read_dir(place.path("layout/blobs/sha256"))
            .unwrap()
            .count(),
        8
    );
}

#[test]
fn a_program_that_needs_libraries_and_a_catalog_with_errors_are_refused() {
    let place = Place::new();
    let (image, layout) = (place.image(), place.text("layout"));
    let build = |folder: &str, binary: &str| {
        refused(&[
            "catalog", "build", folder, "--binary", binary, "--tag", &image, "--output", &layout,
        ])
    };
    let error = build(&catalog(), PROGRAM);
    assert!(
        error.contains("linked dynamically") && error.contains("make build-static"),
        "{error}"
    );
    let folder = place.path("catalog");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.yaml"), "schema: olm.package\nname: a\n").unwrap();
    let error = build(&folder.display().to_string(), &program(&place, 62));
    assert!(
        error.contains("[default-channel]") || error.contains("no image is made of it"),
        "{error}"
    );
    assert!(!place.path("layout").exists());
}

#[test]
fn the_program_answers_the_probe_that_olm_runs_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    let probe = root.path().join("grpc_health_probe");
    std::os::unix::fs::symlink(PROGRAM, &probe).unwrap();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let ask = || {
        let output = Command::new(&probe)
            .arg(format!("-addr=:{port}"))
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(ask().0, Some(2), "nobody listens");
    let mut served = Command::new(PROGRAM)
        .args(["catalog", "serve", &catalog(), "--metrics-address", "off"])
        .arg("--address")
        .arg(format!("127.0.0.1:{port}"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut answer = ask();
    while answer.0 != Some(0) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        answer = ask();
    }
    served.kill().unwrap();
    served.wait().unwrap();
    assert_eq!(answer, (Some(0), "status: SERVING\n".to_owned()));
}
