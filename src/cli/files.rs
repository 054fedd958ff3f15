//! What the commands that make files have in common: write them, or compare them with what is there.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Failure, Outcome, print};
use crate::olm::bounded::{self, LARGEST};
use crate::olm::{Difference, Tree};

/// Writes the files and prints what it did, or, with `check`, fails and names what differs.
pub fn finish(tree: &Tree, root: &Path, check: bool, remedy: &str) -> Outcome {
    let tree = &without_those_of_others(tree, root);
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

/// How a Dockerfile begins that a command of ours has written.
const OURS: &str = "# Written by `roadstead ";

/// A Dockerfile that somebody has written by hand, or made their own, stays as it is.
fn without_those_of_others(tree: &Tree, root: &Path) -> Tree {
    let mut ours = tree.clone();
    let names = tree.files().map(|(path, _)| path);
    for path in names.filter(|path| path.extension().is_some_and(|it| it == "Dockerfile")) {
        let is_ours = match bounded::text(&root.join(path), LARGEST) {
            Ok(text) => text.starts_with(OURS),
            // Of one that cannot be read nobody knows whose it is
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !is_ours {
            eprintln!(
                "note: {} stays as it is, since it does not begin with {OURS:?}: whoever takes it away gets a new one",
                seen(root, path).display()
            );
            ours.remove(path);
        }
    }
    ours
}

/// As it is seen from where the command was given.
fn seen(root: &Path, path: &Path) -> PathBuf {
    root.strip_prefix(".").unwrap_or(root).join(path)
}

/// The text of a file that an option names.
pub fn text(flag: &str, file: &Path) -> Result<String, Failure> {
    let text = bounded::text(file, LARGEST);
    Ok(text.map_err(|error| format!("{flag}: cannot read {}: {error}", file.display()))?)
}

fn report(out: &mut impl Write, root: &Path, done: &[Difference]) -> io::Result<()> {
    let seen = |path: &Path| seen(root, path);
    for difference in done {
        match difference {
            Difference::Missing(path) => writeln!(out, "created {}", seen(path).display())?,
            Difference::Changed(path) => writeln!(out, "changed {}", seen(path).display())?,
            Difference::Stale(path) => writeln!(out, "removed {}", seen(path).display())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::icon;

    #[test]
    fn what_an_option_names_is_a_file_of_a_sensible_size() {
        let folder = tempfile::tempdir().unwrap();
        let told = |name: &str| {
            let path = folder.path().join(name);
            let errors = [
                text("--description", &path).unwrap_err(),
                icon::read("--icon", &path).unwrap_err(),
            ];
            errors.map(|error| error.to_string().replace(&path.display().to_string(), name))
        };
        let pipe = std::process::Command::new("mkfifo")
            .arg(folder.path().join("pipe.svg"))
            .status();
        assert!(pipe.unwrap().success());
        let large = std::fs::File::create(folder.path().join("large.svg")).unwrap();
        large.set_len(3 << 30).unwrap();
        assert_eq!(
            told("pipe.svg"),
            [
                "--description: cannot read pipe.svg: it is no file",
                "--icon: cannot read pipe.svg: it is no file"
            ]
        );
        let why = "cannot read large.svg: it has 3221225472 bytes; 4194304 are accepted";
        assert_eq!(
            told("large.svg"),
            [format!("--description: {why}"), format!("--icon: {why}")]
        );
    }
}
