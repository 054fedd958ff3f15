//! Whatever the tools are given to read that others have written: it is read or refused, in little time and memory, and nothing is written anywhere else.
//!
//! Inputs are sound ones that are damaged, or made to do harm. `PARSER_CASES` says how many each parser gets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/catalogs.rs"]
mod catalogs;
#[path = "support/counting.rs"]
mod counting;
#[path = "support/noise.rs"]
mod noise;
#[path = "support/parsers.rs"]
mod parsers;
#[path = "support/sound_images.rs"]
mod sound_images;
#[path = "support/spoken_grpc.rs"]
mod spoken_grpc;

use std::time::{Duration, Instant};

use counting::Growth;
use noise::{spoils, spoilt};
use parsers::{Parser, of_files, of_images, of_makers, of_text, of_the_wire};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// How many inputs each parser gets, unless somebody says otherwise.
const CASES: u32 = 100;
/// An input may take so much memory, and so many times its own length besides.
const SPARE: usize = 24 << 20;
const FACTOR: usize = 64;
/// On a busy machine, unoptimised.
const SLOW: Duration = Duration::from_secs(10);

fn cases() -> u32 {
    let said = std::env::var("PARSER_CASES").ok();
    said.map_or(CASES, |said| {
        said.parse()
            .unwrap_or_else(|_| panic!("PARSER_CASES is {said:?}, which is no number"))
    })
}

fn borne(parser: &Parser, input: &[u8]) -> Result<(), TestCaseError> {
    let (growth, started) = (Growth::since_now(), Instant::now());
    (parser.read)(input).map_err(TestCaseError::fail)?;
    let (grown, took) = (growth.most(), started.elapsed());
    let accepted = SPARE + FACTOR * input.len();
    prop_assert!(grown <= accepted, "{} bytes took {grown} of memory", input.len());
    prop_assert!(took <= SLOW, "{} bytes took {took:?}", input.len());
    Ok(())
}

/// In one test, since memory is counted for the whole process.
#[test]
fn whatever_is_read_is_borne_in_little_time_and_memory_and_leads_nowhere_else() {
    let all = [of_text(), of_files(), of_images(), of_makers(), of_the_wire()];
    for parser in all.into_iter().flatten() {
        let started = Instant::now();
        let mut runner = TestRunner::new(Config {
            cases: cases(),
            failure_persistence: None,
            ..Config::default()
        });
        for sound in &parser.sound {
            borne(&parser, sound).unwrap();
        }
        let inputs = (any::<Index>(), spoils());
        let outcome = runner.run(&inputs, |(which, spoils)| {
            let sound: &Vec<u8> = which.get(&parser.sound);
            borne(&parser, &spoilt(sound, &spoils))
        });
        if let Err(error) = outcome {
            panic!("{}: {error}", parser.name);
        }
        println!("{}: {} inputs in {:.1?}", parser.name, cases(), started.elapsed());
    }
}
