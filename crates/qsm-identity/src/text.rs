//! Text of keys, tokens and lists: a mark, a dot, and bytes in base64url without padding (RFC 4648 §5).

use core::fmt;

use zeroize::Zeroizing;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Secret of a node.
pub(crate) const NODE_SECRET: &str = "qsm-node-secret-1";
/// Public key of a node.
pub(crate) const NODE_PUBLIC: &str = "qsm-node-1";
/// Secret of a cluster's root.
pub(crate) const ROOT_SECRET: &str = "qsm-root-secret-1";
/// Public key of a cluster's root.
pub(crate) const ROOT_PUBLIC: &str = "qsm-root-1";
/// Token.
pub(crate) const TOKEN: &str = "qsm-token-1";
/// List of what is revoked.
pub(crate) const REVOCATIONS: &str = "qsm-revoked-1";

/// All marks, and what each is called. The last is that of `qsm-seal`.
const MARKS: [(&str, &str); 7] = [
    (NODE_SECRET, "the secret key of a node"),
    (NODE_PUBLIC, "the public key of a node"),
    (ROOT_SECRET, "the secret key of a cluster's root"),
    (ROOT_PUBLIC, "the public key of a cluster's root"),
    (TOKEN, "a token"),
    (REVOCATIONS, "a list of revocations"),
    ("qsm-key-1", "the key that protects a cluster's packets"),
];

/// Reason for which a text is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextError {
    /// There is nothing in it.
    Empty,
    /// There is more than one line in it, comments not counted.
    Several,
    /// It is something else.
    Other {
        /// The expected one.
        wanted: &'static str,
        /// Name of it, if it is a text of Quicksilver.
        found: Option<&'static str>,
    },
    /// Text behind the mark is not base64url in its only form.
    Base64,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Several => f.write_str("it has more than one line that is no comment"),
            Self::Other {
                wanted,
                found: Some(found),
            } => write!(f, "it is {found}, and not {wanted}"),
            Self::Other {
                wanted,
                found: None,
            } => write!(f, "it is not {wanted}"),
            Self::Base64 => {
                f.write_str("it is damaged or cut: what follows the mark is not base64url")
            }
        }
    }
}

impl core::error::Error for TextError {}

/// Text of bytes.
pub(crate) fn write(mark: &str, bytes: &[u8]) -> Zeroizing<String> {
    // Reserved at once, so that no copy of a secret is left behind by growing.
    let length = mark.len() + 1 + (bytes.len() * 4).div_ceil(3);
    let mut text = Zeroizing::new(String::with_capacity(length));
    text.push_str(mark);
    text.push('.');
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..=three.len() {
            let six = (word >> (18 - 6 * at) & 63) as usize;
            text.push(char::from(ALPHABET[six]));
        }
    }
    text
}

/// Bytes of a text: one line, beside empty ones and those that begin with `#`.
pub(crate) fn read(mark: &'static str, text: &str) -> Result<Zeroizing<Vec<u8>>, TextError> {
    let lines = text.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = lines.next().ok_or(TextError::Empty)?;
    if lines.next().is_some() {
        return Err(TextError::Several);
    }
    // The key of a cluster has a space where these have a dot.
    let (found, digits) = line.split_once(['.', ' ']).unwrap_or((line, ""));
    if found != mark {
        let wanted = called(mark).unwrap_or_default();
        let found = called(found);
        return Err(TextError::Other { wanted, found });
    }
    decode(digits).ok_or(TextError::Base64)
}

fn called(mark: &str) -> Option<&'static str> {
    let found = MARKS.iter().find(|(known, _)| *known == mark);
    found.map(|(_, called)| *called)
}

fn decode(digits: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() * 3 / 4));
    for four in digits.as_bytes().chunks(4) {
        let mut word = 0;
        for digit in four {
            word = word << 6 | six(*digit)?;
        }
        word <<= 6 * (4 - four.len());
        let [_, all @ ..] = u32::to_be_bytes(word);
        // A single digit is less than a byte.
        let (kept, rest) = all.split_at(four.len().checked_sub(1).filter(|kept| *kept > 0)?);
        // Bits behind the last byte: another text of the same bytes.
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

fn six(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_rfc_4648_section_10_and_both_digits_of_section_5() {
        for (plain, encoded) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg"),
            (b"fooba", "Zm9vYmE"),
            (b"foobar", "Zm9vYmFy"),
            (b"\xff\xfe\xfd", "__79"),
            (b"\xfb\xef\xbe", "----"),
        ] {
            let text = write(TOKEN, plain);
            assert_eq!(text.as_str(), format!("{TOKEN}.{encoded}"));
            assert_eq!(read(TOKEN, &text).unwrap().as_slice(), plain);
        }
    }

    #[test]
    fn another_text_of_the_same_bytes_is_refused() {
        for wrong in [
            "Zg==", "Zh", "Zm9", "Z", "Zm9vZ", "Zm 8", "Zm+v", "Zm/v", "Zmü",
        ] {
            let error = read(TOKEN, &format!("{TOKEN}.{wrong}")).unwrap_err();
            assert_eq!(error, TextError::Base64, "{wrong}");
        }
    }

    #[test]
    fn one_line_is_read_beside_comments_and_others_are_named() {
        let text = format!("# of the press\n\n  {TOKEN}.Zg \n");
        assert_eq!(read(TOKEN, &text).unwrap().as_slice(), b"f");
        assert_eq!(read(TOKEN, "# none\n"), Err(TextError::Empty));
        let two = format!("{TOKEN}.Zg\n{TOKEN}.Zg");
        assert_eq!(read(TOKEN, &two), Err(TextError::Several));
        let cluster_key = read(TOKEN, "qsm-key-1 aes-256-gcm 00").unwrap_err();
        assert!(
            cluster_key
                .to_string()
                .contains("protects a cluster's packets")
        );
        let other = read(ROOT_PUBLIC, &format!("{ROOT_SECRET}.Zg")).unwrap_err();
        assert!(other.to_string().contains("secret key of a cluster's root"));
        let nothing = read(TOKEN, "ssh-rsa AAAA").unwrap_err();
        assert_eq!(nothing.to_string(), "it is not a token");
    }
}
