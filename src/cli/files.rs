//! What the commands that make files have in common: write them, or compare them with what is there.

use std::path::Path;

use super::Outcome;
use crate::olm::{Difference, Tree};

/// Writes the files and prints what it did, or, with `check`, fails and names what differs.
pub fn finish(tree: &Tree, root: &Path, check: bool, remedy: &str) -> Outcome {
    if !check {
        for difference in tree.write(root)? {
            match difference {
                Difference::Missing(path) => println!("created {}", path.display()),
                Difference::Changed(path) => println!("changed {}", path.display()),
                Difference::Stale(path) => println!("removed {}", path.display()),
            }
        }
        return Ok(());
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
