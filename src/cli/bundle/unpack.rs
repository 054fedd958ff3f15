//! `roadstead bundle unpack`

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::cli::held::{Meant, Reading};
use crate::cli::{Outcome, print};
use crate::olm::findings::counted;
use crate::olm::oci::unpack::{Bounds, bundle, check};
use crate::olm::oci::{Content, Name, Scratch, layout};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The image, HOST/PATH:TAG or HOST/PATH@DIGEST, or an OCI image layout: a folder, or a tar of one.
    #[arg(value_name = "IMAGE|LAYOUT")]
    image: String,
    /// The bundle's folder, which is made. One that holds anything is left alone.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

pub(super) fn main(args: &Args) -> Outcome {
    check(&args.output)?;
    let source = Path::new(&args.image);
    let name = match Meant::by(source)? {
        Meant::Image(name) => name,
        _ if source.exists() => return write(&layout::open(source)?, args),
        _ => Name::of("IMAGE", &args.image)
            .map_err(|error| format!("{error}; nor is there a layout of that name"))?,
    };
    let scratch = Scratch::beside(&args.output)?;
    let image = args.reading.pull(&name, scratch.path(), &Bounds::BUNDLE)?;
    write(&image, args)
}

fn write(image: &Content, args: &Args) -> Outcome {
    let files = bundle(image, &args.reading.platform, &args.output, &Bounds::BUNDLE)?;
    print(|out| writeln!(out, "{}: {}", args.output.display(), counted(files, "file")))
}
