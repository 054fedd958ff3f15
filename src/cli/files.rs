//! What the commands that make files have in common: write them, or compare them with what is there.

use std::io::{self, Write};
use std::path::Path;

use super::Outcome;
use crate::olm::{Difference, Tree};

/// Writes the files and prints what it did, or, with `check`, fails and names what differs.
pub fn finish(tree: &Tree, root: &Path, check: bool, remedy: &str) -> Outcome {
    if !check {
        let done = tree.write(root)?;
        return match report(&done) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()), // whoever read it has seen enough; the files are written
        };
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

fn report(done: &[Difference]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for difference in done {
        match difference {
            Difference::Missing(path) => writeln!(out, "created {}", path.display())?,
            Difference::Changed(path) => writeln!(out, "changed {}", path.display())?,
            Difference::Stale(path) => writeln!(out, "removed {}", path.display())?,
        }
    }
    out.flush()
}
