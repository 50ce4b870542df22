//! Gets the other systems: each has a script that installs it and builds its program, or says why
//! not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::Failure;

use super::system::System;

/// Where the sources of the programs are.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// A system's program, or the reason why there is none.
pub(crate) type Program = Result<Ready, String>;

/// A program that can be started.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    pub(crate) path: PathBuf,
    /// Name and version of what is measured.
    pub(crate) version: String,
}

/// Programs by the name of their folder in `bench/peers`.
pub(crate) type Installed = BTreeMap<&'static str, Program>;

/// Installs what the systems need, one after another; what fails is left out and said.
pub(crate) fn all(systems: &[System]) -> Result<Installed, Failure> {
    let root = output_folder()?;
    let mut installed = Installed::new();
    for system in systems {
        let folder = system.folder;
        if installed.contains_key(folder) {
            continue;
        }
        let program = match folder {
            "" => own(),
            _ => build(folder, &root.join(folder)),
        };
        match &program {
            Ok(ready) => println!("{folder:<12} {}", ready.version),
            Err(reason) => println!("{folder:<12} absent: {reason}"),
        }
        installed.insert(folder, program);
    }
    Ok(installed)
}

/// `peers` beside the folder `release` of this program.
fn output_folder() -> Result<PathBuf, Failure> {
    let program = env::current_exe()?;
    let target = program
        .ancestors()
        .nth(2)
        .ok_or("this program has no folder")?;
    Ok(target.join("peers"))
}

fn own() -> Program {
    let path = env::current_exe().map_err(|error| error.to_string())?;
    Ok(Ready {
        path,
        version: format!("Quicksilver {}", env!("CARGO_PKG_VERSION")),
    })
}

fn build(folder: &str, output: &Path) -> Program {
    let script = Path::new(SOURCES).join(folder).join("build.sh");
    if !script.exists() {
        return Err("there is no build script".to_owned());
    }
    fs::create_dir_all(output).map_err(|error| error.to_string())?;
    let done = Command::new("bash").arg(&script).arg(output).output();
    let done = done.map_err(|error| format!("bash: {error}"))?;
    let log = output.join("build.log");
    let said = [done.stdout.as_slice(), &done.stderr].concat();
    fs::write(&log, said).map_err(|error| error.to_string())?;
    if !done.status.success() {
        let text = String::from_utf8_lossy(&done.stderr);
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        return Err(last.unwrap_or("its build script failed").trim().to_owned());
    }
    let version = fs::read_to_string(output.join("version")).unwrap_or_default();
    Ok(Ready {
        path: output.join("peer"),
        version: version.trim().to_owned(),
    })
}
