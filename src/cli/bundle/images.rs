//! What the commands for images have in common: how an image is built, where it is written, how a registry is reached, and what a person sees of it.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::progress::Progress;
use crate::cli::stop::until_stopped;
use crate::cli::{Failure, Outcome, print};
use crate::olm::findings::{Count, Finding, Format, counted, write};
use crate::olm::oci::credentials::{Files, usual};
use crate::olm::oci::registry::{Limits, Options, Proxies, Registry};
use crate::olm::oci::{Content, Created, Error, Name, Platform, Scratch, bundle, layout};
use crate::olm::registry_v1::validate;

/// What is not done with what is not valid.
pub(in crate::cli) const NO_IMAGE: &str = "no image is made of it";
/// Authorities are no longer, in bytes.
const LARGEST_CA: u64 = 4 << 20;

/// How a bundle's image is built.
#[derive(Debug, clap::Args)]
pub(super) struct Building {
    /// What it is for: OS/ARCHITECTURE. Of several, separated by commas, an index is made. Default: linux/amd64.
    #[arg(long, value_name = "PLATFORM", value_delimiter = ',')]
    platform: Vec<Platform>,
    #[command(flatten)]
    moment: Moment,
}

/// The time of an image.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Moment {
    /// The time of all that is in it, in seconds since 1970, so that it is the same whenever it is built. Default: 0.
    #[arg(long, env = "SOURCE_DATE_EPOCH", value_name = "SECONDS", value_parser = created)]
    source_date_epoch: Option<Created>,
}

impl Moment {
    pub(in crate::cli) fn created(&self) -> Created {
        self.source_date_epoch.unwrap_or_default()
    }
}

fn created(text: &str) -> Result<Created, String> {
    let seconds = text
        .parse()
        .map_err(|_| format!("{text:?} is no time; accepted are seconds since 1970"))?;
    Created::after(seconds)
}

impl Building {
    fn platforms(&self) -> Vec<Platform> {
        if self.platform.is_empty() {
            return vec![Platform::linux("amd64")];
        }
        self.platform.clone()
    }

    /// The flag that says how it is built, if it is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        (!self.platform.is_empty()).then_some("--platform")
    }
}

/// Where a layout is written.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::cli) struct Output {
    /// Where the OCI image layout is written: a tar where the name ends in .tar, else a folder.
    #[arg(long = "output", value_name = "FILE|DIR")]
    pub(in crate::cli) path: PathBuf,
    /// Put it in the place of the file or the layout that is there.
    #[arg(long)]
    force: bool,
}

/// What an image is called, and where its layout is written.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Target {
    /// What it is called: HOST/PATH:TAG.
    #[arg(long = "tag", value_name = "IMAGE", value_parser = tag)]
    pub(in crate::cli) name: Name,
    #[command(flatten)]
    pub(in crate::cli) output: Output,
}

fn tag(text: &str) -> Result<Name, String> {
    // The flag and the value are told already
    Name::of("--tag", text).map_err(|error| match error {
        Error::Value { accepted, .. } => accepted,
        other => other.to_string(),
    })
}

impl Target {
    /// Looks whether it can be written, before it is made.
    pub(in crate::cli) fn check(&self) -> Outcome {
        Ok(layout::check(&self.output.path, self.output.force)?)
    }

    /// Writes an image, and prints what it is called by its content.
    pub(in crate::cli) fn write(&self, image: &Content) -> Outcome {
        layout::write(image, Some(&self.name), &self.output.path, self.output.force)?;
        let called = self.name.with_digest(&image.root.digest);
        print(|out| writeln!(out, "{called}"))
    }
}

/// How a registry is reached, and by whom.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Access {
    /// Ask by plain HTTP, and send no credentials. A registry on this machine is asked so unless --ca is given.
    #[arg(long, conflicts_with = "ca")]
    plain_http: bool,
    /// Authorities to trust besides those of the system, in PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The credentials, as `podman login` and `docker login` write them. Default: $XDG_RUNTIME_DIR/containers/auth.json, then ~/.config/containers/auth.json,
    /// then ~/.docker/config.json, or what is in $DOCKER_CONFIG.
    #[arg(long, env = "REGISTRY_AUTH_FILE", value_name = "FILE")]
    auth_file: Option<PathBuf>,
}

impl Access {
    fn files(&self) -> Files {
        Files {
            named: self.auth_file.clone().filter(|file| !file.as_os_str().is_empty()),
            usual: usual(std::env::var_os, rustix::process::getuid().as_raw()),
        }
    }

    pub(super) fn options(&self) -> Result<Options, Failure> {
        let read = |file: &PathBuf| {
            let length = std::fs::metadata(file).map(|found| found.len());
            let wrong = |why: String| format!("--ca is {:?}: {why}", file.display().to_string());
            match length.map_err(|error| wrong(error.to_string()))? {
                length if length > LARGEST_CA => {
                    Err(wrong(format!("it has {length} bytes; {LARGEST_CA} are accepted")))
                }
                _ => std::fs::read(file).map_err(|error| wrong(error.to_string())),
            }
        };
        Ok(Options {
            is_plain: self.plain_http,
            authorities: self.ca.as_ref().map(read).transpose()?,
            proxies: Proxies::of(|name| std::env::var(name).ok())?,
            ..Options::default()
        })
    }

    pub(super) async fn registry(
        &self,
        name: &Name,
        largest: u64,
        watch: Arc<Progress>,
    ) -> Result<Registry, Failure> {
        let credentials = self.files().of(name).await?;
        let mut options = self.options()?;
        options.limits.largest = largest;
        Ok(Registry::new(name, credentials, &options, watch)?)
    }
}

/// The image of a bundle's folder, if the bundle is valid.
pub(super) fn of_bundle(folder: &Path, building: &Building) -> Result<Content, Failure> {
    let subject = folder.display().to_string();
    refuse_errors(&subject, &validate(folder, &[])?, NO_IMAGE)?;
    Ok(bundle::image(
        folder,
        &building.platforms(),
        building.moment.created(),
    )?)
}

/// What has errors goes no further, and `so` says what is not done. All that is wrong is told on standard error.
pub(in crate::cli) fn refuse_errors(subject: &str, found: &[Finding], so: &str) -> Outcome {
    let Count { errors, .. } = Count::of(found);
    if errors == 0 {
        return Ok(());
    }
    write(&mut io::stderr().lock(), Format::Text, subject, found)?;
    let errors = counted(errors, "error");
    Err(format!("{subject} is not valid, so {so}: {errors}").into())
}

/// Pushes the image that a layout is, or one that is built of a folder. Of one that is there already nothing is built, so no flag may be `given` that says how.
pub(in crate::cli) fn push_or_build(
    source: &Path,
    image: &str,
    access: &Access,
    given: Option<&str>,
    build: impl FnOnce() -> Result<Content, Failure>,
) -> Outcome {
    let name = Name::of("IMAGE", image)?;
    let image = match given {
        _ if !layout::is_layout(source) => build()?,
        None => layout::open(source)?,
        Some(flag) => {
            return Err(format!(
                "{flag} is for what is built, and a layout is pushed as it is; leave it out"
            )
            .into());
        }
    };
    push(&image, &name, access)
}

/// Pushes an image, and prints what it is called by its content.
fn push(image: &Content, name: &Name, access: &Access) -> Outcome {
    image.verify()?;
    let digest = until_stopped(async {
        let largest = Limits::default().largest;
        let mut registry = access.registry(name, largest, Progress::shared()).await?;
        Ok(registry.push(image).await?)
    })?;
    let called = name.with_digest(&digest);
    print(|out| writeln!(out, "{called}"))
}

/// What each of these images is called by its content now, as its registry says. One that is named by it already is not asked for.
pub(super) fn digests(images: &[String], access: &Access) -> Result<BTreeMap<String, String>, Failure> {
    let progress = Progress::shared();
    until_stopped(async {
        let mut digests = BTreeMap::new();
        for image in images.iter().filter(|image| !image.contains('@')) {
            let name = Name::guessed("an image of the manifests", image)?;
            let largest = Limits::default().largest;
            let mut registry = access.registry(&name, largest, Arc::clone(&progress)).await?;
            digests.insert(image.clone(), name.with_digest(&registry.digest().await?));
        }
        Ok(digests)
    })
}

/// Pulls an image. Its layers are in files of the folder, as long as that is there.
pub(super) fn pull(
    name: &Name,
    platform: Option<&Platform>,
    scratch: &Scratch,
    access: &Access,
) -> Result<Content, Failure> {
    pull_into(name, platform, scratch.path(), Limits::default().largest, access)
}

/// As [`pull`], into a folder that is somebody else's, and so many bytes at most.
pub(in crate::cli) fn pull_into(
    name: &Name,
    platform: Option<&Platform>,
    folder: &Path,
    largest: u64,
    access: &Access,
) -> Result<Content, Failure> {
    until_stopped(async {
        let mut registry = access.registry(name, largest, Progress::shared()).await?;
        Ok(registry.pull(platform, folder).await?)
    })
}
