//! Tests that cannot run on a machine: said so that it is seen, and a failure where the machine is
//! to be good enough.
//!
//! | variable of the environment | effect |
//! |---|---|
//! | `QSM_REQUIRE_LAB=1` | a test that finds no lab fails; continuous integration sets it |
//! | `QSM_SKIPPED=FILE` | a line of each test that was skipped is added to the file |

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::{env, thread};

use crate::machine::Lab;

/// Set, and not to `0`, where every test has to run.
const REQUIRE: &str = "QSM_REQUIRE_LAB";
/// The file of what was skipped.
const SKIPPED: &str = "QSM_SKIPPED";

/// Tells a test that needs a lab that there is one. If not, the test is named as skipped and should
/// return.
///
/// # Panics
/// There is none, and `QSM_REQUIRE_LAB` is set.
#[must_use]
pub fn ready() -> bool {
    match Lab::available() {
        Ok(()) => true,
        Err(reason) => {
            skip(reason);
            false
        }
    }
}

/// Names the test of this thread as skipped, since the machine lacks what a lab needs: root,
/// namespaces, programs.
///
/// # Panics
/// `QSM_REQUIRE_LAB` is set.
pub fn skip(reason: impl Display) {
    let required = env::var_os(REQUIRE).is_some_and(|value| !value.is_empty() && value != "0");
    assert!(
        !required,
        "{REQUIRE} is set, and this test cannot run: {reason}"
    );
    pass_over(reason);
}

/// Names the test of this thread, or a part of it, as skipped, since this kernel lacks something
/// that other kernels have. No variable makes a failure of that.
pub fn pass_over(reason: impl Display) {
    let thread = thread::current();
    let line = format!("SKIPPED {}: {reason}\n", thread.name().unwrap_or("a test"));
    // Past the test harness, which keeps what `eprintln!` writes in tests that pass.
    drop(io::stderr().write_all(line.as_bytes()));
    if let Some(path) = env::var_os(SKIPPED) {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("cannot add a line to {}: {error}", path.display()));
    }
}
