//! How the findings of a check are written, and whether it fails.

use std::path::Path;

use clap::ValueEnum;

use super::{Outcome, print};
use crate::olm::findings::{Count, Finding, Format, counted, write};

#[derive(Debug, clap::Args)]
pub(super) struct Report {
    /// How findings are written.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Fail for warnings, too.
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
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

/// Writes what was found in a folder to standard output.
///
/// # Errors
/// When there is an error among the findings, or with `--strict` a warning.
pub(super) fn report(folder: &Path, found: &[Finding], args: &Report) -> Outcome {
    let subject = folder.display().to_string();
    print(|out| write(out, args.output.into(), &subject, found))?;
    let Count { errors, warnings, .. } = Count::of(found);
    match errors {
        0 if args.strict && warnings > 0 => {
            let warnings = counted(warnings, "warning");
            Err(format!("{subject} is not valid: {warnings}, with --strict").into())
        }
        0 => Ok(()),
        _ => Err(format!("{subject} is not valid: {}", counted(errors, "error")).into()),
    }
}
