//! `roadstead bundle validate`

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::platforms;
use crate::cli::held::{Held, Reading};
use crate::cli::{Failure, Outcome, files, findings};
use crate::olm::findings::Finding;
use crate::olm::registry_v1::{Bundle, Categories, Suite, validate_for, validate_platforms};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The bundle's folder, which holds manifests/ and metadata/, or its image: HOST/PATH:TAG, HOST/PATH@DIGEST, or a layout.
    #[arg(value_name = "DIR|IMAGE", default_value = "bundle")]
    bundle: PathBuf,
    /// Rules that not every bundle is meant to keep. Repeat it, or separate them by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    with: Vec<With>,
    /// With operatorhub: the categories of another hub, {"categories": ["A", "B"]}.
    #[arg(long, value_name = "FILE", env = "OPERATOR_BUNDLE_CATEGORIES")]
    categories: Option<PathBuf>,
    #[command(flatten)]
    report: findings::Report,
    #[command(
        flatten,
        next_help_heading = "Images, that of the bundle and with multiarch its own"
    )]
    reading: Reading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum With {
    /// What OperatorHub asks of what it publishes.
    Operatorhub,
    /// What the operator framework advises.
    GoodPractices,
    /// What keeps a bundle from being installed by OLM v1, and what works otherwise there.
    OlmV1,
    /// The scorecard's tests, without a cluster.
    Scorecard,
    /// Whether images are for the architectures and operating systems on which the operator is said to run. Their registries are asked.
    Multiarch,
    /// All of these but multiarch, so that nobody is asked anything.
    All,
}

impl With {
    fn suites(self) -> &'static [Suite] {
        match self {
            Self::Operatorhub => &[Suite::OperatorHub],
            Self::GoodPractices => &[Suite::GoodPractices],
            Self::OlmV1 => &[Suite::OlmV1],
            Self::Scorecard => &[Suite::Scorecard],
            Self::Multiarch => &[],
            Self::All => &Suite::ALL,
        }
    }
}

pub(super) fn main(args: &Args) -> Outcome {
    let suites: Vec<Suite> = args.with.iter().flat_map(|with| with.suites()).copied().collect();
    let held = Held::bundle(&args.bundle, &args.reading)?;
    check_folder(held.folder(), held.subject())?;
    let categories = match args
        .categories
        .as_deref()
        .filter(|file| !file.as_os_str().is_empty())
    {
        Some(file) => categories(file)?,
        None => Categories::default(),
    };
    let mut found = validate_for(&categories, held.folder(), &suites)?;
    if args.with.contains(&With::Multiarch) {
        found.extend(multiarch(held.folder(), &args.reading)?);
        found.sort();
    }
    findings::report(held.subject(), &held.told(found), &args.report)
}

/// A folder of something else is not judged file by file.
fn check_folder(folder: &Path, subject: &Path) -> Outcome {
    let has_either = ["manifests", "metadata"]
        .iter()
        .any(|part| folder.join(part).exists());
    if folder.is_dir() && !has_either {
        return Err(format!(
            "{} is no bundle: it has neither manifests/ nor metadata/; `roadstead catalog validate` judges catalogs",
            subject.display()
        )
        .into());
    }
    Ok(())
}

fn categories(file: &Path) -> Result<Categories, Failure> {
    let read = Categories::of(&files::text("--categories", file)?);
    read.map_err(|why| format!("--categories is {:?}: {why}", file.display().to_string()).into())
}

fn multiarch(folder: &Path, reading: &Reading) -> Result<Vec<Finding>, Failure> {
    // What is wrong with its files is found already
    let (bundle, _) = Bundle::read(folder)?;
    let platforms = platforms::of(&bundle.images(), &reading.access)?;
    Ok(validate_platforms(&bundle, &platforms))
}
