//! `roadstead catalog validate`

use std::path::{Path, PathBuf};

use crate::cli::held::{Held, Reading};
use crate::cli::{Outcome, findings};
use crate::olm::fbc;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The catalog's folder, or its image: HOST/PATH:TAG, HOST/PATH@DIGEST, or a layout.
    #[arg(value_name = "DIR|IMAGE", default_value = "catalog")]
    catalog: PathBuf,
    #[command(flatten)]
    report: findings::Report,
    #[command(flatten, next_help_heading = "Images")]
    reading: Reading,
}

pub(super) fn main(args: &Args) -> Outcome {
    let held = Held::catalog(&args.catalog, &args.reading)?;
    check_folder(held.folder(), held.subject())?;
    let found = held.told(fbc::validate(held.folder())?);
    findings::report(held.subject(), &found, &args.report)
}

/// A bundle is not judged document by document.
fn check_folder(folder: &Path, subject: &Path) -> Outcome {
    if folder.join("manifests").is_dir() && folder.join("metadata/annotations.yaml").is_file() {
        return Err(format!(
            "{} is a bundle and no catalog; `roadstead bundle validate` judges bundles",
            subject.display()
        )
        .into());
    }
    Ok(())
}
