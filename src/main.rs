//! Parses the command line and hands over; no logic lives here.

use std::process::ExitCode;

fn main() -> ExitCode {
    roadstead::cli::main()
}
