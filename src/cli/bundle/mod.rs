//! `roadstead bundle`: Make and judge OLM bundles, of any operator, build, push, pull and unpack their images, and try them on a cluster.

use clap::Subcommand;

mod build;
mod described;
mod generate;
pub(in crate::cli) mod images;
mod platforms;
mod pull;
mod push;
mod trial;
mod unpack;
mod validate;

use super::{Outcome, stop};
pub(super) use generate::context_of;

/// Make and judge OLM bundles, build, push, pull and unpack their images, and try them on a cluster.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a bundle, and the Dockerfile of its image beside the bundle's folder.
    Generate(Box<generate::Args>),
    /// Find all that is wrong with a bundle, whoever made it: what upstream's validators refuse, what OLM and the API server refuse later, and what nobody
    /// means. Fails if there are errors.
    Validate(validate::Args),
    /// Build the image of a bundle that is valid, as an OCI image layout: the same bundle gives the same digest. Needs no container tool.
    Build(build::Args),
    /// Push an image to a registry: a layout, or a bundle's folder, of which it is built.
    Push(push::Args),
    /// Pull an image from a registry into an OCI image layout.
    Pull(pull::Args),
    /// Write the manifests and the metadata that a bundle's image holds into a folder.
    Unpack(unpack::Args),
    /// Install a bundle under development on a cluster with OLM, by a catalog of its own, and wait until it runs. Changes nothing that is there already.
    Run(Box<trial::Run>),
    /// Upgrade what `run` has installed to another bundle, as OLM does it, and wait until that runs. Refused where OLM would not.
    Upgrade(Box<trial::Upgrade>),
    /// Remove what `run` has installed, and what it has made for it. Definitions and objects stay, unless --definitions says otherwise.
    Cleanup(trial::Cleanup),
}

/// Runs the subcommand.
///
/// # Errors
/// What is wrong with the manifests, the bundle, the image or the options, what a registry or a cluster refuses, or a file that cannot be read or written.
pub fn main(args: Args) -> Outcome {
    stop::listen()?;
    match args.command {
        Command::Generate(args) => generate::main(*args),
        Command::Validate(args) => validate::main(&args),
        Command::Build(args) => build::main(&args),
        Command::Push(args) => push::main(&args),
        Command::Pull(args) => pull::main(&args),
        Command::Unpack(args) => unpack::main(&args),
        Command::Run(args) => trial::run(&args),
        Command::Upgrade(args) => trial::upgrade(&args),
        Command::Cleanup(args) => trial::cleanup(&args),
    }
}
