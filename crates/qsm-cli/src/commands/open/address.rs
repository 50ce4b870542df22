//! Addresses as they are given: themselves, or in a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use qsm_console::failure::Failure;
use qsm_console::options::NodeOptions;
use qsm_replica::{Uri, UriError};

/// Ending of files with an address.
const ENDING: &str = ".qsm";
/// Longest line of such a file that is read, bytes.
const LINE_MAX: u64 = 4096;

/// The address that is given.
pub(super) fn read(given: &str) -> Result<Uri, Failure> {
    match given.strip_prefix("file://") {
        // As desktops give it: a path, escaped as groups are.
        Some(path) => parsed(&first_line(&parsed(&format!("qsm://file/{path}"))?.group)?),
        None if given.ends_with(ENDING) && !given.contains("://") => parsed(&first_line(given)?),
        None => parsed(given),
    }
}

fn parsed(text: &str) -> Result<Uri, Failure> {
    text.parse().map_err(|error: UriError| {
        let text = error.to_string();
        let (cause, remedy) = text.split_once("; ").unwrap_or((&text, "give another one"));
        Failure::usage(cause, remedy)
    })
}

fn first_line(path: &str) -> Result<String, Failure> {
    let failed = |error| Failure::io(format!("read {path}"), &error);
    let file = File::open(path).map_err(failed)?;
    let mut line = String::new();
    let mut reader = BufReader::new(file.take(LINE_MAX));
    reader.read_line(&mut line).map_err(failed)?;
    Ok(line.trim().to_owned())
}

/// Lets a node go where the address says.
pub(super) fn reach(uri: &Uri, options: &mut NodeOptions) {
    let network = &mut options.network;
    network.cluster.clone_from(&uri.cluster);
    if let Some(interface) = &uri.interface {
        network.interface = vec![interface.clone()];
    }
    if let Some(discovery) = uri.discovery {
        network.discovery = Some(discovery);
    }
    if let Some(port) = uri.data_port {
        network.data_port = port;
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::*;

    #[test]
    fn addresses_are_given_or_in_files_as_shells_and_desktops_name_them() {
        let path = env::temp_dir().join(format!("qsm open {}.qsm", process::id()));
        fs::write(&path, "qsm://floor/prices?type=map\nnothing more\n").unwrap();
        let path = path.to_str().unwrap();
        let url = format!("file://{}", path.replace(' ', "%20"));
        for given in [path, &url, "qsm://floor/prices?type=map"] {
            let uri = read(given).unwrap();
            assert_eq!((&*uri.cluster, &*uri.group), ("floor", "prices"), "{given}");
        }
        fs::remove_file(path).unwrap();
        let missing = read(path).unwrap_err().to_string();
        assert!(missing.contains("check the path"), "{missing}");
    }
}
