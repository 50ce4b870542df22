//! Where runs come from: seeds and files.

use std::fs;
use std::path::Path;

use clap::Args;
use qsm_console::failure::Failure;
use qsm_sim::{DRAW, Scenario, SwarmOptions};

/// How runs are drawn from seeds.
#[derive(Debug, Clone, Args)]
pub(super) struct DrawArgs {
    /// Version of the draw that the seed is from; another one than this program's is refused
    #[arg(long, value_name = "VERSION", default_value_t = DRAW)]
    pub(super) draw: u32,
    /// Also forge packets that are well formed; then only survival is checked
    #[arg(long)]
    pub(super) forgery: bool,
}

impl DrawArgs {
    /// How large runs are.
    ///
    /// # Errors
    /// The seed is from another version of the draw.
    pub(super) fn sizes(&self) -> Result<SwarmOptions, Failure> {
        if self.draw != DRAW {
            return Err(Failure::usage(
                format!(
                    "the seed is from version {} of the draw, and this program draws by version \
                     {DRAW}: it would be another run",
                    self.draw
                ),
                "use the program of that version, or its scenario file",
            ));
        }
        Ok(if self.forgery {
            SwarmOptions::forging()
        } else {
            SwarmOptions::default()
        })
    }
}

/// Reads a scenario file.
///
/// # Errors
/// It cannot be read or understood.
pub(super) fn read(path: &Path) -> Result<Scenario, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::io(format_args!("read {name}"), &error))?;
    Scenario::parse(&text).map_err(|error| {
        Failure::usage(
            format!("{name}: {error}"),
            "docs/internals/simulator.md explains every statement",
        )
    })
}
