//! `roadstead catalog validate`

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::Outcome;
use crate::olm::fbc;
use crate::olm::findings::{Count, Format, write};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The catalog's folder.
    #[arg(value_name = "DIR", default_value = "catalog")]
    folder: PathBuf,
    /// How findings are written.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Fail for warnings, too.
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Output {
    /// For a person.
    Text,
    /// One object with findings and their count.
    Json,
    /// SARIF 2.1.0.
    Sarif,
    /// JUnit's XML.
    Junit,
}

impl From<Output> for Format {
    fn from(output: Output) -> Self {
        match output {
            Output::Text => Self::Text,
            Output::Json => Self::Json,
            Output::Sarif => Self::Sarif,
            Output::Junit => Self::Junit,
        }
    }
}

pub(super) fn main(args: &Args) -> Outcome {
    let findings = fbc::validate(&args.folder)?;
    let subject = args.folder.display().to_string();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = write(&mut out, args.output.into(), &subject, &findings).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {} // whoever read it has seen enough
    }
    let Count { errors, warnings, .. } = Count::of(&findings);
    match errors {
        0 if args.strict && warnings > 0 => {
            Err(format!("{subject} is not valid: {warnings} warnings, with --strict").into())
        }
        0 => Ok(()),
        _ => Err(format!("{subject} is not valid: {errors} errors").into()),
    }
}
