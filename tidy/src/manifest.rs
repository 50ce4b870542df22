/// What the rules need of a `Cargo.toml`.
#[derive(Debug, Default)]
pub struct Manifest {
    /// The package's name; empty in a file without package.
    pub name: String,
    /// Crates it is built with.
    pub dependencies: Vec<String>,
    /// Crates that its tests need besides.
    pub dev_dependencies: Vec<String>,
    /// Whether it takes its lints from the workspace.
    pub workspace_lints: bool,
}

impl Manifest {
    /// Reads a manifest.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(head) = line.strip_prefix('[') {
                section = head.trim_end_matches(']').to_owned();
                // `[dependencies.name]` is an entry of its own.
                if let Some((table, name)) = section.rsplit_once("dependencies.") {
                    manifest.depend(&format!("{table}dependencies"), name);
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let key = key.trim().split('.').next().unwrap_or_default();
            match section.as_str() {
                "package" if key == "name" => {
                    manifest.name = value.trim().trim_matches('"').to_owned();
                }
                "lints" if key == "workspace" => manifest.workspace_lints = value.trim() == "true",
                _ if section.ends_with("dependencies") => manifest.depend(&section, key),
                _ => {}
            }
        }
        manifest
    }

    fn depend(&mut self, section: &str, name: &str) {
        let name = name.trim_matches('"').to_owned();
        if section.ends_with("dev-dependencies") {
            self.dev_dependencies.push(name);
        } else {
            self.dependencies.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_way_to_depend() {
        let manifest = Manifest::new(
            "[package]\nname = \"a\"\n[lints]\nworkspace = true\n[dependencies]\nb.workspace = true\n\
             c = \"1\"\n[dependencies.d]\npath = \"x\"\n[target.'cfg(unix)'.dependencies]\ne = { path = \"y\" }\n\
             [dev-dependencies]\nf = \"1\"\n",
        );
        assert_eq!(manifest.name, "a");
        assert_eq!(manifest.dependencies, ["b", "c", "d", "e"]);
        assert_eq!(manifest.dev_dependencies, ["f"]);
        assert!(manifest.workspace_lints);
    }
}
