//! What the commands that make files have in common: write them, or compare them with what is there.

use std::io::{self, Write};
use std::path::Path;

use super::{Failure, Outcome, print};
use crate::olm::{Difference, Tree};

/// Writes the files and prints what it did, or, with `check`, fails and names what differs.
pub fn finish(tree: &Tree, root: &Path, check: bool, remedy: &str) -> Outcome {
    if !check {
        let done = tree.write(root)?;
        return print(|out| report(out, root, &done));
    }
    let differences = tree.differences(root)?;
    if differences.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = differences.iter().map(ToString::to_string).collect();
    Err(format!(
        "{} of the generated files are out of date ({}); run `{remedy}`",
        names.len(),
        names.join("; ")
    )
    .into())
}

/// The text of a file that an option names.
pub fn text(flag: &str, file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file);
    Ok(text.map_err(|error| format!("{flag}: cannot read {}: {error}", file.display()))?)
}

/// As they are seen from where the command was given.
fn report(out: &mut impl Write, root: &Path, done: &[Difference]) -> io::Result<()> {
    let seen = |path: &Path| root.strip_prefix(".").unwrap_or(root).join(path);
    for difference in done {
        match difference {
            Difference::Missing(path) => writeln!(out, "created {}", seen(path).display())?,
            Difference::Changed(path) => writeln!(out, "changed {}", seen(path).display())?,
            Difference::Stale(path) => writeln!(out, "removed {}", seen(path).display())?,
        }
    }
    Ok(())
}
