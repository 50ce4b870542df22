use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const FOREIGN: [&str; 5] = [".git", "target", "corpus", "artifacts", "node_modules"];

/// The files of this repository, as they lie on the disk.
#[derive(Debug)]
pub struct Repository {
    root: PathBuf,
    /// Relative to the root, with slashes, sorted.
    paths: Vec<String>,
}

impl Repository {
    /// Lists the files of the repository that this crate lies in.
    ///
    /// # Errors
    /// What the operating system says about a folder that cannot be read.
    pub fn open() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .canonicalize()?;
        let mut paths = Vec::new();
        list(&root, &root, &mut paths)?;
        paths.sort();
        Ok(Self { root, paths })
    }

    /// All files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// The files whose names end in this.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = &'a str> {
        self.paths().filter(move |path| path.ends_with(end))
    }

    /// Whether there is such a file or folder.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// A file's text; empty if it is not text, or gone by now.
    #[must_use]
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }
}

fn list(root: &Path, folder: &Path, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            let name = entry.file_name();
            if !FOREIGN.iter().any(|foreign| name == *foreign) {
                list(root, &path, paths)?;
            }
        } else if let Some(relative) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            paths.push(relative.to_owned());
        }
    }
    Ok(())
}
