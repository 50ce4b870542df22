//! Contents of values and messages, made fit to be shown.

use std::fmt::Write;

use serde::Serialize;

/// Most that is shown of a value or a message, bytes of the text that shows it.
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// Most that is shown of a remark, bytes.
const REMARK_BYTES_MAX: usize = 1024;
/// Bytes of text for each byte in hexadecimal digits.
const HEX: usize = 3;

/// A value or a message, as far as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Content {
    form: Form,
    text: String,
    /// Bytes of all of it.
    size: usize,
    /// There is more of it than is shown.
    cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Text,
    Hex,
    /// JSON of an object.
    Object,
    /// Words on what did not come.
    Missing,
}

impl Content {
    /// Bytes as text, or as hexadecimal digits if they are not UTF-8.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::shown(Form::Text, text, bytes.len()),
            Err(_) => Self::hex(bytes),
        }
    }

    /// An object that was decoded out of so many bytes: its type, and its value as JSON.
    #[must_use]
    pub fn object(kind: &str, json: &str, size: usize) -> Self {
        let content = Self::shown(Form::Object, json, size);
        content.remark(kind)
    }

    /// Words on messages or entries that are missing.
    #[must_use]
    pub fn missing(words: &str) -> Self {
        Self::shown(Form::Missing, words, 0)
    }

    /// The same with a remark on it.
    #[must_use]
    pub fn remark(self, remark: &str) -> Self {
        let remark = Some(beginning(remark, REMARK_BYTES_MAX).to_owned());
        Self { remark, ..self }
    }

    /// Bytes that it takes here.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.remark.as_ref().map_or(0, String::len)
    }

    fn shown(form: Form, text: &str, size: usize) -> Self {
        let shown = beginning(text, VALUE_BYTES_MAX);
        Self {
            form,
            text: shown.to_owned(),
            size,
            cut: shown.len() < text.len(),
            remark: None,
        }
    }

    fn hex(bytes: &[u8]) -> Self {
        let shown = &bytes[..bytes.len().min(VALUE_BYTES_MAX / HEX)];
        let mut text = String::with_capacity(HEX * shown.len());
        for (at, byte) in shown.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            // Into memory: cannot fail.
            let _written = write!(text, "{space}{byte:02x}");
        }
        Self {
            form: Form::Hex,
            text,
            size: bytes.len(),
            cut: shown.len() < bytes.len(),
            remark: None,
        }
    }
}

/// The beginning of a text, whole letters of at most so many bytes.
pub(crate) fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_shown_in_digits() {
        let content = Content::of(b"\xff\x00a");
        assert_eq!((&*content.text, content.form), ("ff 00 61", Form::Hex));
        let content = Content::of("ä\n".as_bytes());
        assert_eq!((&*content.text, content.size), ("ä\n", 3));
        assert!(!content.cut);
    }

    #[test]
    fn of_a_long_value_the_beginning_is_shown_and_its_size_is_said() {
        // The last letter that would fit has two bytes, of which one fits.
        let text = format!("a{}", "ä".repeat(VALUE_BYTES_MAX));
        let content = Content::of(text.as_bytes());
        assert_eq!(content.text.len(), VALUE_BYTES_MAX - 1);
        assert_eq!((content.cut, content.size), (true, text.len()));
        let content = Content::of(&[0xff; VALUE_BYTES_MAX]);
        assert!(content.cut && content.text.len() <= VALUE_BYTES_MAX);
        let content =
            Content::object("Quote v1", &"1".repeat(1 << 20), 7).remark(&"r".repeat(4096));
        assert!(content.cut && content.bytes() <= VALUE_BYTES_MAX + REMARK_BYTES_MAX);
    }
}
