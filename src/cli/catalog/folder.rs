//! The folder of a catalog that somebody keeps.

use std::path::PathBuf;

use super::super::bundle::context_of;
use super::super::{Failure, Outcome, files};
use crate::olm::catalog::{Catalog, sources};

#[derive(Debug, clap::Args)]
pub(super) struct Folder {
    /// The catalog's folder, which is read and written: PACKAGE/catalog.yaml in it, and catalog.Dockerfile beside it. The folder that holds both is the
    /// build context.
    #[arg(
        long = "output",
        visible_alias = "catalog",
        value_name = "DIR",
        default_value = "catalog"
    )]
    pub(super) path: PathBuf,
}

impl Folder {
    /// A package of the catalog, or an empty one if the catalog does not have it. One that lies in another file would be there twice.
    pub(super) fn read_or_begin(&self, package: &str) -> Result<Catalog, Failure> {
        // Looks at the name as well, before it is part of a path
        let catalog = Catalog::read(&self.path, package)?;
        let own = self.path.join(Catalog::file(package));
        if !own.exists()
            && let Some(file) = sources::file_with(&self.path, package)
        {
            let (file, folder) = (file.display(), self.path.display());
            return Err(format!(
                "package {package} is in {file}, and bundles are added to {} alone; `roadstead catalog migrate {folder} --output DIR` writes the catalog so",
                own.display()
            )
            .into());
        }
        Ok(catalog)
    }

    /// Writes the package, or, with `check`, tells what differs; `command` is what would write it.
    pub(super) fn write(&self, catalog: &Catalog, check: bool, command: &str) -> Outcome {
        let (context, folder) = context_of(&self.path);
        files::finish(&catalog.tree(&folder)?, &context, check, command)
    }
}
