//! `roadstead catalog`: Make, judge, show and serve file-based catalogs, and build and push their images.

use clap::Subcommand;

mod add;
mod build;
mod edit;
mod folder;
mod init;
mod migrate;
pub(super) mod probe;
mod render;
mod serve;
mod shown;
mod sources;
mod validate;

use super::{Outcome, stop};
pub(super) use add::{EdgeArgs, tell_risks};

/// Make, judge, show and serve file-based catalogs, and build and push their images.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Begin the catalog of a package: which channel is the default, and what consoles show of it. Only where that is not to follow from its bundles.
    Init(init::Init),
    /// Add a bundle to a catalog, and write the Dockerfile of the catalog's image beside the catalog's folder.
    ///
    /// Bundles that are there stay, in their channels too. The same version again takes the place of the first. What the bundle upgrades from follows from the
    /// versions, unless options say otherwise.
    #[command(visible_alias = "add")]
    Generate(Box<add::Generate>),
    /// Take a bundle back: whatever was upgraded to it, and its own users, are upgraded to what comes after it.
    Remove(edit::Remove),
    /// Say that a package, a channel or a bundle is deprecated, and what its users should do instead.
    Deprecate(edit::Deprecate),
    /// Print the documents of images, folders, files and templates, as they are in a catalog.
    Render(render::Args),
    /// Write a catalog of any layout, a folder, a file or an image, as this program lays catalogs out: PACKAGE/catalog.yaml for each package. Bundles that carry
    /// their manifests (olm.bundle.object) carry what is told of them instead.
    Migrate(migrate::Migrate),
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

/// Runs the subcommand.
///
/// # Errors
/// What is wrong with the bundle, the catalog, the image or the options, what a registry refuses, or a file that cannot be read or written.
pub fn main(args: Args) -> Outcome {
    // The server listens for signals itself
    if !matches!(args.command, Command::Serve(_)) {
        stop::listen()?;
    }
    match args.command {
        Command::Init(args) => init::init(args),
        Command::Generate(args) => add::generate(*args),
        Command::Remove(args) => edit::remove(&args),
        Command::Deprecate(args) => edit::deprecate(&args),
        Command::Render(args) => render::main(&args),
        Command::Migrate(args) => migrate::migrate(&args),
        Command::Validate(args) => validate::main(&args),
        Command::List(args) => shown::list(&args),
        Command::Graph(args) => shown::graph(&args),
        Command::Diff(args) => shown::diff(&args),
        Command::Serve(args) => serve::main(*args),
        Command::Build(args) => build::build(&args),
        Command::Push(args) => build::push(&args),
    }
}
