//! Names and patterns of groups, taken apart.

use std::collections::BTreeSet;
use std::sync::Arc;

use qsm_identity::Pattern;

use crate::error::RequestError;

/// Plain names and patterns, taken apart.
#[derive(Debug)]
pub(crate) struct Patterns {
    /// In the order given.
    pub(crate) names: Vec<Arc<str>>,
    patterns: Vec<Pattern>,
}

impl Patterns {
    pub(crate) fn of(all: &[Arc<str>]) -> Result<Self, RequestError> {
        let all = all.iter().map(|text| Pattern::try_from(Arc::clone(text)));
        let all: Vec<Pattern> = all.collect::<Result<_, _>>()?;
        let (names, patterns): (Vec<_>, _) = all.into_iter().partition(Pattern::is_name);
        Ok(Self {
            names: names.into_iter().map(Arc::from).collect(),
            patterns,
        })
    }

    /// The first pattern, if there is one.
    pub(crate) fn first(&self) -> Option<&Pattern> {
        self.patterns.first()
    }

    /// Those of the existing names that a pattern means and that are not known; each once, in
    /// order.
    pub(crate) fn fresh<'a>(
        &self,
        existing: impl Iterator<Item = &'a str>,
        known: &BTreeSet<Arc<str>>,
    ) -> Vec<Arc<str>> {
        let fresh: BTreeSet<&str> = existing
            .filter(|name| !known.contains(*name) && self.mean(name))
            .collect();
        fresh.into_iter().map(Arc::from).collect()
    }

    fn mean(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns<const N: usize>(all: [&str; N]) -> Patterns {
        Patterns::of(&all.map(Arc::from)).unwrap()
    }

    #[test]
    fn names_and_patterns_are_taken_apart_and_new_groups_are_found_once() {
        let patterns = patterns(["a/*", "x", "a/*"]);
        assert_eq!(patterns.names, [Arc::from("x")]);
        let known = BTreeSet::from([Arc::from("a/3")]);
        let existing = ["a/2", "b/1", "a", "a/1", "a/3", "a/2", "x"];
        let fresh = patterns.fresh(existing.into_iter(), &known);
        assert_eq!(fresh, ["a/1", "a/2"].map(Arc::from));
    }
}
