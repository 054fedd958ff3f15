//! `roadstead explain`: What a code of a finding means.

use std::io::{self, Write};

use super::{Outcome, print};
use crate::olm::findings::{Code, code, codes};

/// Say what a code of a finding means, why there is such a rule, and what to do; without one, list all.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The code, such as channel-heads.
    code: Option<String>,
}

/// Runs the subcommand.
///
/// # Errors
/// When there is no such code.
pub fn main(args: &Args) -> Outcome {
    let Some(name) = &args.code else {
        return print(|out| {
            codes()
                .try_for_each(|code| writeln!(out, "{:<24} {:<8} {}", code.name, code.severity, code.title))
        });
    };
    let code = code(name).ok_or_else(|| unknown(name))?;
    print(|out| explain(out, code))
}

fn explain(out: &mut impl Write, code: &Code) -> io::Result<()> {
    let Code {
        name,
        severity,
        title,
        why,
        remedy,
    } = code;
    writeln!(
        out,
        "{name} ({severity})\n\n{title}\n\nWhy: {why}\n\nWhat to do: {remedy}"
    )
}

/// The codes that share a word with what was asked for are the likely ones.
fn unknown(name: &str) -> String {
    let shares = |code: &&'static Code| {
        code.name
            .split('-')
            .any(|word| name.split('-').any(|asked| asked == word))
    };
    let near: Vec<&str> = codes().filter(shares).map(|code| code.name).collect();
    match near[..] {
        [] => format!("{name:?} is no code; `roadstead explain` lists all"),
        _ => format!(
            "{name:?} is no code; there are {}, and `roadstead explain` lists all",
            near.join(", ")
        ),
    }
}
