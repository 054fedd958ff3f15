//! `roadstead catalog generate`, or `add`: one more bundle in a catalog.

use std::path::{Path, PathBuf};

use super::super::{Failure, Outcome};
use super::edit;
use super::folder::Folder;
use super::sources::{Reader, Source};
use crate::cli::held::{Meant, Reading};
use crate::olm::Error;
use crate::olm::catalog::{Catalog, Edges, Rendered, SkipRange, deprecations};
use crate::olm::oci::Scratch;

#[derive(Debug, clap::Args)]
pub(super) struct Generate {
    /// The bundle: its image (HOST/PATH:TAG), a layout of it, or its folder.
    #[arg(value_name = "IMAGE|DIR", default_value = "bundle")]
    bundle: String,
    /// The same as an option.
    #[arg(long = "bundle", value_name = "IMAGE|DIR", conflicts_with = "bundle")]
    bundle_option: Option<String>,
    /// The bundle's image, where it is read from a folder or a layout; {package}, {name} and {version} stand for what they are. Default: beside the operator's
    /// image, PACKAGE-bundle:vVERSION.
    #[arg(long)]
    bundle_image: Option<String>,
    /// Put the bundle's manifests into the catalog, and no image: OLM installs it some 10 s sooner, without a Job that unpacks an image. At most 1 MiB;
    /// OLM v1 takes bundles by their images alone.
    #[arg(long, conflicts_with = "bundle_image")]
    inline: bool,
    #[command(flatten)]
    folder: Folder,
    /// The channels to add it to. Default: those that the bundle names.
    #[arg(long, visible_alias = "channel", value_delimiter = ',')]
    channels: Vec<String>,
    /// The channel of a Subscription that names none. Default: the one that the bundle names, once it has an entry; a
    /// pre-release changes none.
    #[arg(long)]
    default_channel: Option<String>,
    #[command(flatten)]
    edges: EdgeArgs,
    /// What is deprecated in the package: a document of schema olm.deprecations, which takes the place of the catalog's. One without
    /// entries takes it away. Documents of other packages of the catalog are passed over. Default: the catalog's own stays.
    #[arg(long, value_name = "FILE")]
    deprecations: Option<PathBuf>,
    /// Write nothing; fail and name the files that differ.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    reading: Reading,
}

/// What a bundle upgrades from, where somebody says so.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct EdgeArgs {
    /// The bundle, by name or version, whose users are upgraded to it in these channels. Default: the highest lower version there, or of the package.
    #[arg(long, value_name = "BUNDLE")]
    replaces: Option<String>,
    /// Further bundles, by name or version, whose users are upgraded to it, and to which nobody is upgraded any more. Default: the versions between it and
    /// what it replaces that are in other channels alone.
    #[arg(long, value_name = "BUNDLE", value_delimiter = ',')]
    skips: Vec<String>,
    /// A range of versions whose users are upgraded to it, such as ">=1.0.0 <1.2.0".
    #[arg(long, value_name = "RANGE")]
    skip_range: Option<SkipRange>,
}

impl EdgeArgs {
    /// The same by names of bundles, those of a catalog or, of versions that it does not have, as `new` is called.
    pub(in crate::cli) fn edges(&self, catalog: &Catalog, new: &str) -> Result<Edges, Failure> {
        let name = |flag: &str, bundle: &String| {
            let name = edit::name_of(catalog, bundle)?;
            let version = name.strip_prefix('v').unwrap_or(&name).parse();
            // Subscribers know versions by their names alone
            let meant = match version {
                Ok(version) if catalog.bundle(&name).is_none() => catalog.namesake(new, &version),
                _ => Some(name),
            };
            meant.ok_or_else(|| {
                Failure::from(format!(
                    "{flag} is {bundle:?}, a version that the catalog does not have; accepted is the name of its bundle, as ClusterServiceVersions are called"
                ))
            })
        };
        let skips = self.skips.iter().map(|bundle| name("--skips", bundle));
        Ok(Edges {
            replaces: self
                .replaces
                .as_ref()
                .map(|bundle| name("--replaces", bundle))
                .transpose()?,
            skips: skips.collect::<Result<_, _>>()?,
            skip_range: self.skip_range.clone(),
        })
    }
}

pub(super) fn generate(args: Generate) -> Outcome {
    let rendered = args.rendered()?;
    rendered.check_package()?;
    let channels = if args.channels.is_empty() {
        rendered.channels.clone()
    } else {
        args.channels.clone()
    };
    if channels.is_empty() {
        return Err(Error::NoChannel.into());
    }
    let default_channel = args.default_channel.clone();
    let default_channel = default_channel.unwrap_or_else(|| rendered.default_channel.clone());
    let mut catalog = args.folder.read_or_begin(rendered.package())?;
    let name = rendered.name().to_owned();
    catalog.add(rendered, &channels, &default_channel)?;
    let edges = args.edges.edges(&catalog, &name)?;
    for unknown in edges.unknown(&catalog) {
        eprintln!(
            "note: {name} upgrades from {unknown}, which the catalog does not have: nothing is known of whoever has it"
        );
    }
    catalog.connect(&name, &channels, &edges);
    if let Some(file) = &args.deprecations {
        deprecate(&mut catalog, file, &args.folder.path)?;
    }
    catalog.check()?;
    tell_risks(&catalog, &name);
    let command = "roadstead catalog generate";
    args.folder.write(&catalog, args.check, command)
}

impl Generate {
    fn rendered(&self) -> Result<Rendered, Failure> {
        let bundle = self.bundle_option.as_ref().unwrap_or(&self.bundle);
        let reader = Reader {
            reading: &self.reading,
            bundle_image: self.bundle_image.as_deref(),
            inline: self.inline,
        };
        // A folder needs no other, and its errors say what is missing in it
        let folder = Path::new(bundle);
        if folder.is_dir() && matches!(Meant::by(folder)?, Meant::Files) {
            return reader.bundle(folder);
        }
        let scratch = Scratch::in_temporary()?;
        match reader.read(bundle, &scratch.path().join("bundle"))? {
            Source::Bundle(rendered) => Ok(*rendered),
            Source::Catalog(_) | Source::Template(_) => {
                Err(format!("{bundle} holds a catalog; it must be a bundle's image, layout or folder").into())
            }
        }
    }
}

/// What upgrades to a bundle may cost those who have another.
pub(in crate::cli) fn tell_risks(catalog: &Catalog, name: &str) {
    for dropped in catalog.dropped_versions(name) {
        eprintln!("note: {dropped}");
    }
    for stranded in catalog.stranded(name) {
        eprintln!("note: {stranded}");
    }
}

/// One file serves the whole catalog, so a package that nobody knows is a mistake.
fn deprecate(catalog: &mut Catalog, file: &Path, folder: &Path) -> Outcome {
    for document in deprecations::read(file)? {
        if document.package == catalog.name() {
            catalog.deprecate(document.entries);
        } else if !folder.join(Catalog::file(&document.package)).exists() {
            return Err(format!(
                "{}: package is {:?}; the catalog in {} has no such package",
                file.display(),
                document.package,
                folder.display()
            )
            .into());
        }
    }
    Ok(())
}
