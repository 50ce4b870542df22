//! Groups by name, and by pattern: `*` alone or after a `/` stands for any rest of a name.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The beginning of the names that this pattern means; `None` for a plain name.
pub(crate) fn prefix(name: &str) -> Option<&str> {
    let prefix = name.strip_suffix('*')?;
    (prefix.is_empty() || prefix.ends_with('/')).then_some(prefix)
}

/// Plain names and patterns, taken apart.
#[derive(Debug)]
pub(crate) struct Patterns {
    /// In the order given.
    pub(crate) names: Vec<Arc<str>>,
    prefixes: BTreeSet<Arc<str>>,
}

impl Patterns {
    pub(crate) fn of(all: &[Arc<str>]) -> Self {
        let names = all.iter().filter(|name| prefix(name).is_none());
        let prefixes = all.iter().filter_map(|name| prefix(name));
        Self {
            names: names.cloned().collect(),
            prefixes: prefixes.map(Arc::from).collect(),
        }
    }

    /// Those of the existing names that a pattern means and that are not known; each once, in
    /// order.
    pub(crate) fn fresh<'a>(
        &self,
        existing: impl Iterator<Item = &'a str>,
        known: &BTreeSet<Arc<str>>,
    ) -> Vec<Arc<str>> {
        let fresh: BTreeSet<&str> = existing
            .filter(|name| self.mean(name) && !known.contains(*name))
            .collect();
        fresh.into_iter().map(Arc::from).collect()
    }

    fn mean(&self, name: &str) -> bool {
        self.prefixes
            .iter()
            .any(|prefix| name.starts_with(&**prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns<const N: usize>(all: [&str; N]) -> Patterns {
        Patterns::of(&all.map(Arc::from))
    }

    #[test]
    fn a_star_is_a_pattern_only_alone_or_after_a_slash() {
        assert_eq!([prefix("a/*"), prefix("*")], [Some("a/"), Some("")]);
        assert_eq!([prefix("b*"), prefix("c/*/d"), prefix("x")], [None; 3]);
        let some = patterns(["a/*", "b*", "c/*/d", "a/*", "x"]);
        assert_eq!(some.names, ["b*", "c/*/d", "x"].map(Arc::from));
        let meant = ["a/", "a/b/c", "a", "b*", "bb", "xa/b"].map(|name| some.mean(name));
        assert_eq!(meant, [true, true, false, false, false, false]);
        assert!(patterns(["*"]).mean("anything"));
    }

    #[test]
    fn new_groups_are_found_once() {
        let patterns = patterns(["a/*", "x"]);
        let known = BTreeSet::from([Arc::from("a/3")]);
        let existing = ["a/2", "b/1", "a", "a/1", "a/3", "a/2", "x"];
        let fresh = patterns.fresh(existing.into_iter(), &known);
        assert_eq!(fresh, ["a/1", "a/2"].map(Arc::from));
    }
}
