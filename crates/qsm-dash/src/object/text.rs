//! Texts, and how one differs from the next.

use std::sync::Arc;

use serde::Serialize;

use super::content::beginning;

/// Most that is shown of a text, bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// A text as it is shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Text {
    pub(crate) shown: Arc<str>,
    /// Bytes of all of it.
    size: usize,
}

/// Difference between two texts: what is to be put in the place of a part of the former one. Places are units of
/// UTF-16, as scripts count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Splice<'a> {
    /// Units at the beginning that stay.
    before: usize,
    /// Units at the end that stay.
    after: usize,
    insert: &'a str,
    /// Bytes of the whole text.
    size: usize,
    /// There is more of it than is shown.
    cut: bool,
}

impl Text {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            shown: beginning(text, TEXT_BYTES_MAX).into(),
            size: text.len(),
        }
    }

    /// Leads from an older one to this.
    pub(crate) fn since(&self, old: &str) -> Splice<'_> {
        let now = &*self.shown;
        let same = |(a, b): &(char, char)| a == b;
        let before = old.chars().zip(now.chars()).take_while(same);
        let before: usize = before.map(|(letter, _)| letter.len_utf8()).sum();
        let rests = old[before..].chars().rev().zip(now[before..].chars().rev());
        let after = rests.take_while(same);
        let after: usize = after.map(|(letter, _)| letter.len_utf8()).sum();
        Splice {
            before: units(&now[..before]),
            after: units(&now[now.len() - after..]),
            insert: &now[before..now.len() - after],
            size: self.size,
            cut: now.len() < self.size,
        }
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script's way to put a difference into a text.
    fn spliced(old: &str, splice: &Splice<'_>) -> String {
        let units: Vec<u16> = old.encode_utf16().collect();
        let (begin, end) = (splice.before, units.len() - splice.after);
        let parts = [&units[..begin], &units[end..]].map(|part| String::from_utf16(part).unwrap());
        format!("{}{}{}", parts[0], splice.insert, parts[1])
    }

    #[test]
    fn an_old_text_and_a_difference_make_the_new_one() {
        let texts = [
            "", "a", "aa", "aba", "ab𝄞a", "ab𝄢a", "𝄢", "ä", "äöä", "äö", "aaaa",
        ];
        for old in texts {
            for new in texts {
                let text = Text::new(new);
                assert_eq!(spliced(old, &text.since(old)), new, "{old} {new}");
            }
        }
        let text = Text::new("one small step");
        let splice = text.since("one step");
        assert_eq!(
            (splice.before, splice.after, splice.insert),
            (5, 3, "mall s")
        );
    }

    #[test]
    fn of_a_long_text_the_beginning_is_shown() {
        let text = Text::new(&"x".repeat(TEXT_BYTES_MAX + 1));
        let splice = text.since("");
        assert_eq!(splice.insert.len(), TEXT_BYTES_MAX);
        assert!(splice.cut && splice.size == TEXT_BYTES_MAX + 1);
    }
}
