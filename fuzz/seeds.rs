//! The sound inputs of the tests, as the first inputs of the fuzzer.

use std::path::PathBuf;

/// Writes them into the corpus, which is the first folder that the fuzzer is given; what it has found there stays.
pub fn sow(inputs: &[Vec<u8>]) {
    let Some(corpus) = std::env::args().skip(1).map(PathBuf::from).find(|argument| argument.is_dir()) else { return };
    for (number, input) in inputs.iter().enumerate() {
        std::fs::write(corpus.join(format!("sound-{number}")), input).expect("the corpus can be written");
    }
}
