//! Copies this program to where an operand's container finds it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The name of the program in the folder.
pub const PROGRAM: &str = "roadstead";

/// Copies the running program to `folder/roadstead`, readable and executable by all, and gives that path.
///
/// The name appears only once the copy is whole, so a container that is started again never runs half a program.
///
/// # Errors
/// When the program cannot be read or the folder cannot be written.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    let target = folder.join(PROGRAM);
    let partial = folder.join(format!(".{PROGRAM}.partial"));
    fs::copy(std::env::current_exe()?, &partial)?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
    fs::rename(&partial, &target)?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_is_whole_executable_and_replaces_an_older_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(PROGRAM), "older").unwrap();
        let target = install(folder.path()).unwrap();
        let own = fs::metadata(std::env::current_exe().unwrap()).unwrap();
        let copy = fs::metadata(&target).unwrap();
        assert_eq!(
            (copy.len(), copy.permissions().mode() & 0o777),
            (own.len(), 0o755)
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
