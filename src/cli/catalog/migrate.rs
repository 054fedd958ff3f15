//! `roadstead catalog migrate`: a catalog of any layout as this program lays catalogs out.

use std::path::PathBuf;

use super::super::{Outcome, files};
use super::sources::{Reader, Source};
use crate::cli::held::Reading;
use crate::olm::catalog::migrate;
use crate::olm::oci::Scratch;

#[derive(Debug, clap::Args)]
pub(super) struct Migrate {
    /// The catalog: its folder, one file, a layout, or its image (HOST/PATH:TAG).
    #[arg(value_name = "IMAGE|DIR|FILE")]
    source: String,
    /// The folder that is written: PACKAGE/catalog.yaml for each package. It must be empty, or not there.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

pub(super) fn migrate(args: &Migrate) -> Outcome {
    let is_taken = match std::fs::read_dir(&args.output) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    if is_taken {
        let output = args.output.display();
        return Err(format!("--output is {output}; it must be an empty folder, or not be there").into());
    }
    let reader = Reader {
        reading: &args.reading,
        bundle_image: None,
        inline: false,
    };
    let scratch = Scratch::in_temporary()?;
    let Source::Catalog(documents) = reader.read(&args.source, &scratch.path().join("catalog"))? else {
        let source = &args.source;
        return Err(format!(
            "{source} is a bundle or a template; `roadstead catalog render` makes documents of it"
        )
        .into());
    };
    files::finish(
        &migrate::migrate(documents)?,
        &args.output,
        false,
        "roadstead catalog migrate",
    )
}
