//! Makes the messages and services of the catalog's registry from their definition, without a `protoc`.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let definition = "src/olm/registry/registry.proto";
    println!("cargo::rerun-if-changed={definition}");
    let out: PathBuf = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?.into();
    let described = protox::compile([definition], ["src/olm/registry"])?;
    // For reflection
    std::fs::write(out.join("registry.bin"), described.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_transport(false)
        .compile_fds(described)?;
    Ok(())
}
