//! Groups by name, and by pattern: `*` stands for one segment of a name, `**` for any number.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::error::RequestError;

/// A name of a group, or a pattern of names, as [`Group::subscribe`](crate::Group::subscribe) takes
/// them.
///
/// Slashes divide a name into segments. In a pattern a segment `*` stands for any one segment, and
/// `**` for any number of them, none included. A star stands for whole segments only: `a*` is
/// neither a name nor a pattern.
///
/// ```
/// use qsm::Pattern;
///
/// let prices: Pattern = "prices/*/eur".parse()?;
/// assert!(prices.matches("prices/bonds/eur") && !prices.matches("prices/eur"));
/// let all: Pattern = "prices/**".parse()?;
/// assert!(all.matches("prices") && all.matches("prices/bonds/eur"));
/// assert!(!all.is_name() && "prices/eur".parse::<Pattern>()?.is_name());
/// # Ok::<(), qsm::RequestError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: Arc<str>,
}

impl Pattern {
    /// A name or a pattern.
    ///
    /// # Errors
    /// [`RequestError::BadPattern`]: a star stands beside other characters.
    pub(crate) fn new(text: Arc<str>) -> Result<Self, RequestError> {
        let good = |segment: &str| !segment.contains('*') || matches!(segment, "*" | "**");
        match text.split('/').find(|segment| !good(segment)) {
            None => Ok(Self { text }),
            Some(segment) => Err(RequestError::BadPattern {
                segment: segment.to_owned(),
                pattern: text.to_string(),
            }),
        }
    }

    /// As it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether it means just the group of this name.
    #[must_use]
    pub fn is_name(&self) -> bool {
        !self.text.contains('*')
    }

    /// Returns whether it means the group of this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut pattern = self.text.split('/');
        let mut names = name.split('/');
        // What follows the last `**`, and the segments that it has not taken yet.
        let mut back = None;
        loop {
            let rest = names.clone();
            match (pattern.next(), names.next()) {
                (Some("**"), _) => {
                    back = Some((pattern.clone(), rest.clone()));
                    names = rest;
                }
                (None, None) => return true,
                (Some("*"), Some(_)) => {}
                (Some(segment), Some(name)) if segment == name => {}
                _ => {
                    // It takes one segment more.
                    let Some((after, taken)) = &mut back else {
                        return false;
                    };
                    if taken.next().is_none() {
                        return false;
                    }
                    (pattern, names) = (after.clone(), taken.clone());
                }
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Pattern {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        Self::new(Arc::from(text))
    }
}

/// Plain names and patterns, taken apart.
#[derive(Debug)]
pub(crate) struct Patterns {
    /// In the order given.
    pub(crate) names: Vec<Arc<str>>,
    patterns: Vec<Pattern>,
}

impl Patterns {
    pub(crate) fn of(all: &[Arc<str>]) -> Result<Self, RequestError> {
        let all = all.iter().map(|text| Pattern::new(Arc::clone(text)));
        let all: Vec<Pattern> = all.collect::<Result<_, _>>()?;
        let (names, patterns): (Vec<_>, _) = all.into_iter().partition(Pattern::is_name);
        Ok(Self {
            names: names.into_iter().map(|name| name.text).collect(),
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

    /// Which of the names a pattern means.
    fn meant<const N: usize>(pattern: &str, names: [&'static str; N]) -> Vec<&'static str> {
        let pattern: Pattern = pattern.parse().unwrap();
        let meant = names.into_iter().filter(|name| pattern.matches(name));
        meant.collect()
    }

    #[test]
    fn a_star_stands_for_one_segment() {
        let names = ["a", "a/", "a/b", "a/b/c", "x/b/c", "a/b/d", "a/x/y/c"];
        assert_eq!(meant("*", names), ["a"]);
        assert_eq!(meant("a/*", names), ["a/", "a/b"]);
        assert_eq!(meant("a/*/c", names), ["a/b/c"]);
        assert_eq!(meant("*/b/*", names), ["a/b/c", "x/b/c", "a/b/d"]);
        assert_eq!(meant("a/b", names), ["a/b"]);
    }

    #[test]
    fn two_stars_stand_for_any_number_of_segments() {
        let names = ["a", "a/b", "b", "a/x/b", "a/x/b/y/b", "ab"];
        assert_eq!(meant("**", names), names);
        assert_eq!(meant("a/**", names), ["a", "a/b", "a/x/b", "a/x/b/y/b"]);
        assert_eq!(meant("**/b", names), ["a/b", "b", "a/x/b", "a/x/b/y/b"]);
        assert_eq!(meant("a/**/b", names), ["a/b", "a/x/b", "a/x/b/y/b"]);
        assert_eq!(meant("**/x/**/y/*", names), ["a/x/b/y/b"]);
        assert_eq!(meant("**/x/*", names), ["a/x/b"]);
        assert_eq!(meant("**/**/**", ["a"]), ["a"]);
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern: Pattern = "**/a/".repeat(40).trim_end_matches('/').parse().unwrap();
        assert!(!pattern.matches(&format!("{}b", "a/".repeat(126))));
    }

    #[test]
    fn a_star_beside_other_characters_is_an_error() {
        for wrong in ["a*", "a/*b/c", "***", "prices/eur*", "*x/**"] {
            let error = wrong.parse::<Pattern>().unwrap_err();
            assert!(matches!(error, RequestError::BadPattern { .. }), "{wrong}");
        }
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
