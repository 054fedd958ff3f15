//! Any bytes, said to a registry that serves on the loopback address. It must answer others afterwards.

#![no_main]

#[allow(dead_code)]
#[path = "../../tests/support/catalogs.rs"]
mod catalogs;
#[path = "../seeds.rs"]
mod seeds;
#[path = "../../tests/support/spoken_grpc.rs"]
mod spoken_grpc;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use spoken_grpc::Served;

static REGISTRY: LazyLock<Served> = LazyLock::new(Served::start);

fuzz_target!(
    init: seeds::sow(&spoken_grpc::questions()),
    |input: &[u8]| {
        if let Err(error) = REGISTRY.bears(input) {
            panic!("{error}");
        }
    }
);
