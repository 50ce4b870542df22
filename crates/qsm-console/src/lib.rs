//! The console side of commands: what each of them reads and writes in the same way.
//!
//! Options and their help, exit codes with cause and remedy, signals, tables, numbers and hashes
//! as text. It knows no command; the program, the demonstration and the benchmark are built on it.

#![forbid(unsafe_code)]
// They panic where nobody reads; `qsm_console::output` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod absence;
mod away;
pub mod digest;
mod dns;
pub mod failure;
pub mod figures;
pub mod log;
pub mod loopback;
pub mod names;
pub mod notice;
pub mod options;
pub mod output;
pub mod passage;
pub mod progress;
pub mod reach;
pub mod restraint;
pub mod solitude;
pub mod stop;
pub mod table;
pub mod unicast;
pub mod utc;
