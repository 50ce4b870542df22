//! The groups that a command means: names, and prefixes such as `prices/*`.

use std::collections::{BTreeSet, HashSet};

use qsm::GROUP_NAME_BYTES_MAX;
use qsm_console::failure::Failure;

/// The groups of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Patterns {
    /// Names, each once, in the order given.
    pub(crate) names: Vec<String>,
    /// Texts that group names may begin with.
    pub(crate) prefixes: Vec<String>,
    /// The names again, to find one among a hundred thousand.
    exact: HashSet<String>,
}

impl Patterns {
    /// Takes arguments apart. `*` alone, and `*` after a `/`, stand for any rest of a name; nowhere
    /// else is it special.
    ///
    /// # Errors
    /// A name is not usable, see [`check_name`].
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut patterns = Self::default();
        let mut prefixes = HashSet::new();
        for argument in arguments {
            let prefix = argument.strip_suffix('*');
            let prefix = prefix.filter(|prefix| prefix.is_empty() || prefix.ends_with('/'));
            if let Some(prefix) = prefix {
                if prefixes.insert(prefix) {
                    patterns.prefixes.push(prefix.to_owned());
                }
            } else if patterns.exact.insert(check_name(argument)?.to_owned()) {
                patterns.names.push(argument.clone());
            }
        }
        Ok(patterns)
    }

    /// Returns whether this name is meant.
    #[must_use]
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.exact.contains(name)
            || self
                .prefixes
                .iter()
                .any(|prefix| name.starts_with(prefix.as_str()))
    }

    /// Of the names there are, those meant and not yet known; they are known from then on.
    pub(crate) fn fresh<'a>(
        &self,
        existing: impl IntoIterator<Item = &'a str>,
        known: &mut BTreeSet<String>,
    ) -> Vec<String> {
        let mut fresh: Vec<String> = existing
            .into_iter()
            .filter(|name| self.matches(name) && !known.contains(*name))
            .map(str::to_owned)
            .collect();
        fresh.sort_unstable();
        fresh.dedup();
        known.extend(fresh.iter().cloned());
        fresh
    }
}

/// The name, if a group can be called so.
///
/// # Errors
/// It is empty, too long, or has control characters.
pub(crate) fn check_name(name: &str) -> Result<&str, Failure> {
    let length = name.len();
    if length == 0 {
        return Err(Failure::usage(
            "a group's name is empty",
            "give each group a name",
        ));
    }
    if length > GROUP_NAME_BYTES_MAX {
        let start: String = name.chars().take(24).collect();
        return Err(Failure::usage(
            format!("the group name {start:?}… has {length} bytes"),
            format!("use at most {GROUP_NAME_BYTES_MAX} bytes"),
        ));
    }
    if name.chars().any(char::is_control) {
        return Err(Failure::usage(
            format!("the group name {name:?} has control characters"),
            "use printable characters",
        ));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_console::failure::Code;

    fn parse(arguments: &[&str]) -> Result<Patterns, Failure> {
        let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
        Patterns::parse(&arguments)
    }

    #[test]
    fn a_star_is_a_prefix_only_alone_or_after_a_slash() {
        let patterns = parse(&["a/*", "b*", "c/*/d", "a/*", "x", "x"]).unwrap();
        assert_eq!(patterns.prefixes, ["a/"]);
        assert_eq!(patterns.names, ["b*", "c/*/d", "x"]);
        for (name, meant) in [
            ("a/", true),
            ("a/b/c", true),
            ("a", false),
            ("b*", true),
            ("bb", false),
            ("x", true),
            ("xa/b", false),
        ] {
            assert_eq!(patterns.matches(name), meant, "{name}");
        }
        assert!(parse(&["*"]).unwrap().matches("anything"));
    }

    #[test]
    fn each_name_and_prefix_is_kept_once_in_the_order_given() {
        let patterns = parse(&["b", "a", "*", "b", "a/*", "c", "a", "*", "a/*"]).unwrap();
        assert_eq!(patterns.names, ["b", "a", "c"]);
        assert_eq!(patterns.prefixes, ["", "a/"]);
        // The name and the prefix have the same text.
        let patterns = parse(&["a/", "a/*", "a/"]).unwrap();
        assert_eq!(patterns.names, ["a/"]);
        assert_eq!(patterns.prefixes, ["a/"]);
    }

    #[test]
    fn new_groups_are_found_once() {
        let patterns = parse(&["a/*"]).unwrap();
        let mut known = BTreeSet::new();
        assert_eq!(
            patterns.fresh(["a/2", "b/1", "a/1"], &mut known),
            ["a/1", "a/2"]
        );
        assert_eq!(patterns.fresh(["a/2", "a/3"], &mut known), ["a/3"]);
        assert!(patterns.fresh(["a/2"], &mut known).is_empty());
    }

    #[test]
    fn names_that_no_group_can_have_are_refused() {
        for name in ["", "a\nb", "a\u{7f}", &"x".repeat(256)] {
            let failure = parse(&[name]).unwrap_err();
            assert_eq!(failure.code, Code::Usage, "{name:?}");
            assert!(!failure.remedy.is_empty());
        }
        assert!(parse(&[&"x".repeat(255)]).is_ok());
    }
}
