//! The counts that were, as a file in the repository.

use std::error::Error;
use std::fmt;
use std::fs;
use std::process::Command;

/// Beside this program's source.
const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/instructions/baseline.txt"
);
const TITLE: &str =
    "# Instructions for one message, packet or token. Written by `make gate-update`.";

/// What the counts depend on beside this repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Circumstances {
    pub(crate) processor: String,
    compiler: String,
    library: String,
}

impl Circumstances {
    /// Those of this machine.
    pub(crate) fn here() -> Result<Self, Box<dyn Error>> {
        let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
        Ok(Self {
            processor: std::env::consts::ARCH.to_owned(),
            compiler: says(&rustc, "--version")?,
            library: says("getconf", "GNU_LIBC_VERSION")?,
        })
    }
}

impl fmt::Display for Circumstances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} on {} with {}",
            self.compiler, self.processor, self.library
        )
    }
}

/// First line of what a program says.
fn says(program: &str, argument: &str) -> Result<String, Box<dyn Error>> {
    let output = Command::new(program).arg(argument).output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Counts in tenths of instructions, and where they were made.
#[derive(Debug)]
pub(crate) struct Baseline {
    circumstances: Circumstances,
    counts: Vec<(String, u64)>,
}

impl Baseline {
    pub(crate) fn new(circumstances: Circumstances, counts: &[(&str, u64)]) -> Self {
        let counts = counts.iter();
        Self {
            circumstances,
            counts: counts
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        }
    }

    pub(crate) fn circumstances(&self) -> &Circumstances {
        &self.circumstances
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        let found = self.counts.iter().find(|(known, _)| known == name);
        found.map(|(_, count)| *count)
    }

    /// The file: `name: value` on each line.
    pub(crate) fn read() -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string(PATH).map_err(|error| format!("{PATH}: {error}"))?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut rows = lines.filter_map(|line| line.split_once(": "));
        let mut word = |wanted: &str| match rows.next() {
            Some((name, value)) if name == wanted => Ok(value.to_owned()),
            _ => Err(format!("{PATH} lacks `{wanted}: `")),
        };
        let circumstances = Circumstances {
            processor: word("processor")?,
            compiler: word("compiler")?,
            library: word("library")?,
        };
        let counts = rows.map(|(name, value)| {
            let tenths = value.replace('.', "").parse()?;
            Ok((name.to_owned(), tenths))
        });
        Ok(Self {
            counts: counts.collect::<Result<_, Box<dyn Error>>>()?,
            circumstances,
        })
    }

    pub(crate) fn write(&self) -> Result<(), Box<dyn Error>> {
        let Circumstances {
            processor,
            compiler,
            library,
        } = &self.circumstances;
        let mut text =
            format!("{TITLE}\nprocessor: {processor}\ncompiler: {compiler}\nlibrary: {library}\n");
        for (name, count) in &self.counts {
            text += &format!("{name}: {}\n", crate::tenths(*count));
        }
        fs::write(PATH, text).map_err(|error| format!("{PATH}: {error}").into())
    }
}
