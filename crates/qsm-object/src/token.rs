//! Words and marks of a schema's text.

use crate::error::SchemaError;

/// A word, a number, or a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// Marks that stand by themselves.
const MARKS: [char; 11] = ['{', '}', '[', ']', '(', ')', ':', ',', '=', '?', '#'];

/// Tokens of a text, without comments: from `#` to the end of a line.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, SchemaError> {
    let mut found = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.split('#').next().unwrap_or_default();
        let mut left = content.trim_start();
        while let Some(first) = left.chars().next() {
            let length = match first {
                mark if MARKS.contains(&mark) => mark.len_utf8(),
                letter if is_letter(letter) => left.find(|c| !is_letter(c)).unwrap_or(left.len()),
                other => {
                    let reason = format!("{other:?} means nothing here");
                    return Err(SchemaError { line, reason });
                }
            };
            let (text, rest) = left.split_at(length);
            found.push(Token { text, line });
            left = rest.trim_start();
        }
    }
    Ok(found)
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
