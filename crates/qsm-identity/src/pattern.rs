//! Groups by name, and by pattern: `*` stands for one segment of a name, `**` for any number.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

/// A name of a group, or a pattern of names, as subscriptions and tokens take
/// them.
///
/// Slashes divide a name into segments. In a pattern a segment `*` stands for any one segment, and
/// `**` for any number of them, none included. A star stands for whole segments only: `a*` is
/// neither a name nor a pattern.
///
/// ```
/// use qsm_identity::Pattern;
///
/// let prices: Pattern = "prices/*/eur".parse()?;
/// assert!(prices.matches("prices/bonds/eur") && !prices.matches("prices/eur"));
/// let all: Pattern = "prices/**".parse()?;
/// assert!(all.matches("prices") && all.matches("prices/bonds/eur"));
/// assert!(!all.is_name() && "prices/eur".parse::<Pattern>()?.is_name());
/// # Ok::<(), qsm_identity::PatternError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    text: Arc<str>,
}

impl Pattern {
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

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::try_from(Arc::from(text))
    }
}

impl TryFrom<Arc<str>> for Pattern {
    type Error = PatternError;

    fn try_from(text: Arc<str>) -> Result<Self, PatternError> {
        let good = |segment: &str| !segment.contains('*') || matches!(segment, "*" | "**");
        match text.split('/').find(|segment| !good(segment)) {
            None => Ok(Self { text }),
            Some(segment) => Err(PatternError {
                segment: segment.to_owned(),
                pattern: text.to_string(),
            }),
        }
    }
}

impl From<Pattern> for Arc<str> {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

/// A star stands beside other characters of a segment: the text is neither a name nor a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    /// The whole text.
    pub pattern: String,
    /// The segment.
    pub segment: String,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, segment } = self;
        write!(
            f,
            "no name can match {pattern:?}, because `*` stands for a whole segment and {segment:?} is more than \
             that; write `*` for any one segment between slashes, `**` for any number"
        )
    }
}

impl core::error::Error for PatternError {}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(error.pattern, wrong);
        }
    }
}
