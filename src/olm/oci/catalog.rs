//! The image of a catalog that serves itself: this program, and the catalog. From scratch, since it needs nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::build::{Packing, Plan, Run};
use super::layer::Layer;
use super::{Content, Created, Error, elf, files};

/// The label by which OLM finds the catalog, and where it is.
pub(super) const LABEL: &str = "operators.operatorframework.io.index.configs.v1";
const FOLDER: &str = "configs";
/// Where the program is.
const PROGRAM: &str = "roadstead";
/// What OLM runs in every pod of a catalog, to find out whether it serves. This program is that too, by its name.
pub const PROBE: &str = "grpc_health_probe";
/// What keeps its memory small. One heap for all threads, since each one's own would stay nearly empty. What is free at its end is given back from so many
/// bytes on, and a block of 128 KiB or more is given back by itself, however large those before it were.
pub const MEMORY: [(&str, &str); 2] = [("MALLOC_ARENA_MAX", "1"), ("MALLOC_TRIM_THRESHOLD_", "65536")];
/// As in upstream's image of `opm`: OLM says so in the pod, or the image does.
const USER: &str = "1001";
/// The largest program, in bytes.
const LARGEST_PROGRAM: u64 = 512 << 20;

/// Makes the image of a catalog's folder, for the platform of each program. Whether the catalog is valid is not looked at.
///
/// # Errors
/// [`Error::File`]; [`Error::Content`] of a program that is none, or needs libraries, and of two for one platform.
pub fn image(folder: &Path, programs: &[PathBuf], created: Created) -> Result<Content, Error> {
    let mut configs = Layer::default();
    files::add(&mut configs, folder, FOLDER)?;
    let configs = Packing::of(&configs, created)?;
    let mut platforms = Vec::new();
    for path in programs {
        let bytes = program(path)?;
        let platform = elf::platform(&bytes).map_err(|why| Error::content(path.display(), why))?;
        let mut layer = Layer::default();
        layer.folder("bin");
        layer.file(&format!("bin/{PROGRAM}"), bytes, true);
        layer.link(&format!("bin/{PROBE}"), PROGRAM);
        platforms.push((platform, vec![Packing::of(&layer, created)?, configs.clone()]));
    }
    let plan = Plan {
        platforms,
        run: Run {
            user: USER.to_owned(),
            env: [("PATH", "/bin")]
                .iter()
                .chain(&MEMORY)
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
            entrypoint: vec![format!("/bin/{PROGRAM}")],
            cmd: ["catalog", "serve", "/configs"].map(str::to_owned).into(),
            labels: [(LABEL.to_owned(), format!("/{FOLDER}"))].into(),
        },
        created,
        made_by: "roadstead catalog build",
    };
    plan.build()
}

fn program(path: &Path) -> Result<Bytes, Error> {
    let failed = |source| Error::file("read", path, source);
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > LARGEST_PROGRAM {
        let why = format!("it has {length} bytes; {LARGEST_PROGRAM} are accepted");
        return Err(Error::content(path.display(), why));
    }
    fs::read(path).map(Bytes::from).map_err(failed)
}
