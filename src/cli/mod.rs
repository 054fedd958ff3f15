//! The command line: one file per subcommand, the only readers of arguments and environment.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod bundle;
pub mod catalog;
mod cluster;
pub mod explain;
mod files;
mod findings;
pub mod generate;
mod held;
mod icon;
pub mod instance;
pub mod log_level;
mod logging;
mod operands;
mod progress;
pub mod release;
pub mod run;
pub mod status;
mod stop;
mod values;
mod webhooks;

/// Runs data services on Kubernetes, and packages operators for OLM.
#[derive(Debug, Parser)]
#[command(name = "roadstead", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator.
    Run(Box<run::Args>),
    /// Read or change what the running operator logs.
    LogLevel(log_level::Args),
    /// Run inside an operand's container.
    Instance(Box<instance::Args>),
    /// Write crds/ and config/ from the types in this crate.
    Generate(generate::Args),
    /// Make and judge OLM bundles, build, push, pull and unpack their images, and try them on a cluster.
    Bundle(bundle::Args),
    /// Make, judge, show and serve file-based catalogs, and build and push their images.
    Catalog(catalog::Args),
    /// Tell the chain from CatalogSource to Deployment of a package that OLM installs, and the first thing that is wrong.
    Status(status::Args),
    /// Say what a code of a finding means.
    Explain(explain::Args),
    /// Make the next release of this repository.
    Release(release::Args),
}

/// Parses the arguments, runs the subcommand, and turns its outcome into an exit code.
///
/// An error is printed once, on standard error, as one line with its causes; usage errors exit with 2 (clap's own), all others with 1.
///
/// By another name it is another program: OLM runs a probe of its own in the pods of a catalog.
pub fn main() -> ExitCode {
    if catalog::probe::is_meant(std::env::args_os().next().as_deref()) {
        return catalog::probe::main(
            std::env::args_os()
                .skip(1)
                .map(|argument| argument.to_string_lossy().into_owned()),
        );
    }
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::main(*args),
        Command::LogLevel(args) => log_level::main(args),
        // The exit code of a container tells its operator something.
        Command::Instance(args) => return instance::main(*args),
        Command::Generate(args) => generate::main(args),
        Command::Bundle(args) => bundle::main(args),
        Command::Catalog(args) => catalog::main(args),
        // Well, wrong and still to come are three answers.
        Command::Status(args) => match status::main(&args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Explain(args) => explain::main(&args),
        Command::Release(args) => release::main(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("roadstead: {error}");
            ExitCode::FAILURE
        }
    }
}

/// An error whose text is fit for a person.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a subcommand returns: nothing, or why not.
pub type Outcome = Result<(), Failure>;

/// Writes to standard output. That nobody reads it to its end is no failure: whoever read it has seen enough.
fn print(write: impl FnOnce(&mut io::BufWriter<io::StdoutLock<'_>>) -> io::Result<()>) -> Outcome {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
