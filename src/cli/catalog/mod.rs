//! `roadstead catalog`: Make, judge, show and serve file-based catalogs, and build and push their images.

use std::path::{Path, PathBuf};

use clap::Subcommand;

mod build;
mod edit;
pub(super) mod probe;
mod render;
mod serve;
mod shown;
mod validate;

use super::bundle::context_of;
use super::{Outcome, files};
use crate::olm::catalog::{Bundle, Catalog, Rendered, default_bundle_image, deprecations};
use crate::olm::{Error, Tree};

/// Make, judge, show and serve file-based catalogs, and build and push their images.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a bundle to a catalog, and write the Dockerfile of the catalog's image beside the catalog's folder.
    ///
    /// Bundles that are there stay, in their channels too. The same version again takes the place of the first.
    #[command(visible_alias = "add")]
    Generate(Box<Generate>),
    /// Take a bundle back: whatever was upgraded to it, and its own users, are upgraded to what comes after it.
    Remove(edit::Remove),
    /// Say that a package, a channel or a bundle is deprecated, and what its users should do instead.
    Deprecate(edit::Deprecate),
    /// Print the documents of images, folders, files and templates, as they are in a catalog.
    Render(render::Args),
    /// Find all that is wrong with a catalog, whoever made it: what opm refuses, what its server and OLM stumble over later, and what nobody means. Fails if
    /// there are errors.
    Validate(validate::Args),
    /// List packages, or the channels and bundles of one.
    List(shown::List),
    /// Draw who is upgraded to what in each channel, as OLM decides it, and who is not; or tell the way of one version.
    Graph(shown::Shown),
    /// Compare two catalogs: what changes for those who subscribe, and what is taken away from them.
    Diff(shown::Compared),
    /// Serve a catalog to OLM: a CatalogSource leads here by address, or by an image of this program and the catalog. Needs no cache, and writes no file.
    Serve(Box<serve::Args>),
    /// Build the image of a catalog that is valid, as an OCI image layout: this program, which serves it, and nothing else. The same catalog gives the same digest.
    Build(build::Build),
    /// Push an image to a registry: a layout, or a catalog's folder, of which it is built.
    Push(build::Push),
}

#[derive(Debug, clap::Args)]
struct Generate {
    /// The bundle's folder.
    #[arg(long, value_name = "DIR", default_value = "bundle")]
    bundle: PathBuf,
    /// The bundle's image. Default: beside the operator's image, PACKAGE-bundle:vVERSION.
    #[arg(long)]
    bundle_image: Option<String>,
    /// The catalog's folder, which is read and written. catalog.Dockerfile is written beside it; the folder that holds both is the
    /// build context.
    #[arg(
        long,
        visible_alias = "catalog",
        value_name = "DIR",
        default_value = "catalog"
    )]
    output: PathBuf,
    /// The channels to add it to. Default: those that the bundle names.
    #[arg(long, value_delimiter = ',')]
    channels: Vec<String>,
    /// The channel of a Subscription that names none. Default: the one that the bundle names, once it has an entry; a
    /// pre-release changes none.
    #[arg(long)]
    default_channel: Option<String>,
    /// What is deprecated in the package: a document of schema olm.deprecations, which takes the place of the catalog's. One without
    /// entries takes it away. Documents of other packages of the catalog are passed over. Default: the catalog's own stays.
    #[arg(long, value_name = "FILE")]
    deprecations: Option<PathBuf>,
    /// Write nothing; fail and name the files that differ.
    #[arg(long)]
    check: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// What is wrong with the bundle, the catalog, the image or the options, what a registry refuses, or a file that cannot be read or written.
pub fn main(args: Args) -> Outcome {
    match args.command {
        Command::Generate(args) => generate(*args),
        Command::Remove(args) => edit::remove(&args),
        Command::Deprecate(args) => edit::deprecate(&args),
        Command::Render(args) => render::main(&args),
        Command::Validate(args) => validate::main(&args),
        Command::List(args) => shown::list(&args),
        Command::Graph(args) => shown::graph(&args),
        Command::Diff(args) => shown::diff(&args),
        Command::Serve(args) => serve::main(*args),
        Command::Build(args) => build::build(&args),
        Command::Push(args) => build::push(&args),
    }
}

fn generate(args: Generate) -> Outcome {
    let image = |bundle: &Bundle, operator_image: &str| match args.bundle_image {
        Some(image) => Ok(image),
        None => Ok(default_bundle_image(
            operator_image,
            &bundle.package,
            &bundle.version()?,
        )),
    };
    let rendered = Rendered::read(&args.bundle, image)?;
    let channels = if args.channels.is_empty() {
        rendered.channels.clone()
    } else {
        args.channels
    };
    if channels.is_empty() {
        return Err(Error::NoChannel.into());
    }
    let default_channel = args
        .default_channel
        .unwrap_or_else(|| rendered.default_channel.clone());
    let mut catalog = Catalog::read(&args.output, rendered.package())?;
    let name = rendered.name().to_owned();
    catalog.add(rendered, &channels, &default_channel)?;
    if let Some(file) = &args.deprecations {
        deprecate(&mut catalog, file, &args.output)?;
    }
    catalog.check()?;
    for dropped in catalog.dropped_versions(&name) {
        eprintln!("note: {dropped}");
    }
    for stranded in catalog.stranded(&name) {
        eprintln!("note: {stranded}");
    }
    let (context, folder) = context_of(&args.output);
    let tree: Tree = catalog.tree(&folder)?;
    files::finish(&tree, &context, args.check, "roadstead catalog generate")
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
