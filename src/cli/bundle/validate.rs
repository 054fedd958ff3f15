//! `roadstead bundle validate`

use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::{Outcome, findings};
use crate::olm::registry_v1::{Suite, validate};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The bundle's folder, which holds manifests/ and metadata/.
    #[arg(value_name = "DIR", default_value = "bundle")]
    folder: PathBuf,
    /// Rules that not every bundle is meant to keep. Repeat it, or separate them by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    with: Vec<With>,
    #[command(flatten)]
    report: findings::Report,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum With {
    /// What OperatorHub asks of what it publishes.
    Operatorhub,
    /// What the operator framework advises.
    GoodPractices,
    /// What keeps a bundle from being installed by OLM v1.
    OlmV1,
    /// The scorecard's tests, without a cluster.
    Scorecard,
    /// All of these.
    All,
}

impl With {
    fn suites(self) -> &'static [Suite] {
        match self {
            Self::Operatorhub => &[Suite::OperatorHub],
            Self::GoodPractices => &[Suite::GoodPractices],
            Self::OlmV1 => &[Suite::OlmV1],
            Self::Scorecard => &[Suite::Scorecard],
            Self::All => &Suite::ALL,
        }
    }
}

pub(super) fn main(args: &Args) -> Outcome {
    let suites: Vec<Suite> = args.with.iter().flat_map(|with| with.suites()).copied().collect();
    let found = validate(&args.folder, &suites)?;
    findings::report(&args.folder, &found, &args.report)
}
