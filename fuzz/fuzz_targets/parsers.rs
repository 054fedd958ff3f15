//! Any input, to any of what reads what others have written. The first byte chooses which, the others are the input.

#![no_main]

#[allow(dead_code)]
#[path = "../../tests/support/broken_bundles.rs"]
mod broken_bundles;
#[allow(dead_code)]
#[path = "../../tests/support/catalogs.rs"]
mod catalogs;
#[allow(dead_code)]
#[path = "../../tests/support/parsers.rs"]
mod parsers;
#[path = "../seeds.rs"]
mod seeds;
#[path = "../../tests/support/sound_images.rs"]
mod sound_images;
#[allow(dead_code)]
#[path = "../../tests/support/spoken_grpc.rs"]
mod spoken_grpc;

use libfuzzer_sys::fuzz_target;
use parsers::{Parser, of_files, of_images, of_makers, of_text};

thread_local! {
    static ALL: Vec<Parser> = [of_text(), of_files(), of_images(), of_makers()].into_iter().flatten().collect();
}

/// The sound inputs of each, behind the byte that chooses it.
fn sound(all: &[Parser]) -> Vec<Vec<u8>> {
    let of = |(first, parser): (u8, &Parser)| -> Vec<Vec<u8>> {
        parser.sound.iter().map(|sound| [&[first], sound.as_slice()].concat()).collect()
    };
    (0..).zip(all).flat_map(of).collect()
}

fuzz_target!(
    init: seeds::sow(&ALL.with(|all| sound(all))),
    |input: &[u8]| {
        let Some((first, input)) = input.split_first() else { return };
        ALL.with(|all| {
            let parser = &all[usize::from(*first) % all.len()];
            if let Err(error) = (parser.read)(input) {
                panic!("{}: {error}", parser.name);
            }
        });
    }
);
