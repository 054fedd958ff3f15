//! `roadstead bundle`: Make and judge OLM bundles, of any operator.

use clap::Subcommand;

mod generate;
mod validate;

use super::Outcome;
pub(super) use generate::context_of;

/// Make and judge OLM bundles.
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
}

/// Runs the subcommand.
///
/// # Errors
/// What is wrong with the manifests, the bundle or the options, or a file that cannot be read or written.
pub fn main(args: Args) -> Outcome {
    match args.command {
        Command::Generate(args) => generate::main(*args),
        Command::Validate(args) => validate::main(&args),
    }
}
