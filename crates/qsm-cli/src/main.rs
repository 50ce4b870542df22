//! The program `qsm`. Everything is in the library beside it, where it can be tested.

use std::process::ExitCode;

fn main() -> ExitCode {
    qsm_cli::main()
}
