//! The options that describe an operator.

use std::path::PathBuf;

use semver::Version;

use crate::cli::values::version;
use crate::cli::{Failure, files, icon};
use crate::olm::described::{Described, InstallMode, Party};

/// What is said of the operator: in the place of what the base ClusterServiceVersion says, or of the whole base.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What is said of the operator, in the place of what the base says")]
pub(super) struct Describing {
    /// What consoles call it. Default, without a base: as the package.
    #[arg(long, value_name = "NAME")]
    display_name: Option<String>,
    /// What it does, in one line.
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
    /// What it does, in Markdown.
    #[arg(long, value_name = "FILE")]
    description: Option<PathBuf>,
    /// An image: .svg, .png, .jpg or .gif.
    #[arg(long, value_name = "FILE")]
    icon: Option<PathBuf>,
    /// Who provides it: NAME, or 'NAME <URL>'.
    #[arg(long, value_name = "NAME <URL>")]
    provider: Option<Party>,
    /// Who maintains it. Repeat it for several.
    #[arg(long, value_name = "NAME <EMAIL>")]
    maintainer: Vec<Party>,
    /// Where more is to be read. Repeat it for several.
    #[arg(long, value_name = "NAME <URL>")]
    link: Vec<Party>,
    /// What it is found by.
    #[arg(long, value_name = "WORD", value_delimiter = ',')]
    keywords: Vec<String>,
    /// The oldest Kubernetes that it works on.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    min_kube_version: Option<Version>,
    /// In which namespaces it can work: OwnNamespace, SingleNamespace, MultiNamespace, AllNamespaces. Default, without a base: AllNamespaces.
    #[arg(long, value_name = "MODE", value_delimiter = ',')]
    install_modes: Vec<InstallMode>,
}

impl Describing {
    pub(super) fn described(&self) -> Result<Described, Failure> {
        let description = self.description.as_deref();
        let image = self.icon.as_deref();
        Ok(Described {
            display_name: self.display_name.clone(),
            description: description
                .map(|file| files::text("--description", file))
                .transpose()?,
            summary: self.summary.clone(),
            icon: image.map(|file| icon::read("--icon", file)).transpose()?,
            provider: self.provider.clone(),
            maintainers: self.maintainer.clone(),
            links: self.link.clone(),
            keywords: self.keywords.clone(),
            min_kube_version: self.min_kube_version.clone(),
            install_modes: self.install_modes.clone(),
        })
    }
}
