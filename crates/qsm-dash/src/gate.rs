//! Checks of who may ask, and for what.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST};

/// Bytes of randomness in a token that is drawn.
const DRAWN_BYTES: usize = 16;

/// A word that opens what is not for everybody. It is not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Shortest token, in characters.
    pub const LENGTH_MIN: usize = 16;

    /// A given one.
    ///
    /// # Errors
    /// It is short, or has other characters than letters, digits and `-._~`, in words.
    pub fn new(text: &str) -> Result<Self, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if text.len() < Self::LENGTH_MIN {
            return Err(format!(
                "a token has at least {} characters",
                Self::LENGTH_MIN
            ));
        }
        match text.bytes().all(plain) {
            true => Ok(Self(text.to_owned())),
            false => Err("a token has letters, digits and any of -._~".to_owned()),
        }
    }

    /// A new one of 128 random bits.
    ///
    /// # Errors
    /// The kernel's source of randomness cannot be read.
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0; DRAWN_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    /// The word itself.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not tell how many characters are right.
    fn is(&self, given: &str) -> bool {
        let (mine, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = mine.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        mine.len() == given.len() && std::hint::black_box(differing) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Word that a request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// None.
    Nothing,
    /// The token.
    Token,
    /// Another one.
    Wrong,
}

/// Reads the word of a request.
pub(crate) fn shown(token: &Token, headers: &HeaderMap) -> Shown {
    let Some(given) = headers.get(AUTHORIZATION) else {
        return Shown::Nothing;
    };
    let given = given.to_str().ok();
    let given = given.and_then(|given| given.strip_prefix("Bearer "));
    match given.is_some_and(|given| token.is(given)) {
        true => Shown::Token,
        false => Shown::Wrong,
    }
}

/// Tells whether a request names this server by an address, by `localhost`, or by one of `names`. A
/// hostile page can give its own name this server's address, and would then be read as a part of it.
pub(crate) fn is_meant(headers: &HeaderMap, names: &[String]) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let Some(host) = host else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let named = |known: &str| name.eq_ignore_ascii_case(known);
    name.parse::<IpAddr>().is_ok() || named("localhost") || names.iter().any(|known| named(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: axum::http::HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn only_the_token_opens_everything() {
        let token = Token::new("0123456789abcdef").unwrap();
        let shown = |given: &str| shown(&token, &headers(AUTHORIZATION, given));
        assert_eq!(shown("Bearer 0123456789abcdef"), Shown::Token);
        for wrong in [
            "Bearer 0123456789abcdee",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer ",
            "0123456789abcdef",
            "Basic 0123456789abcdef",
        ] {
            assert_eq!(shown(wrong), Shown::Wrong, "{wrong}");
        }
        assert_eq!(super::shown(&token, &HeaderMap::new()), Shown::Nothing);
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn tokens_are_long_and_plain_and_drawn_ones_differ() {
        assert!(Token::new("0123456789abcde").is_err());
        assert!(Token::new("0123456789abcdef\"").is_err());
        let (one, other) = (Token::draw().unwrap(), Token::draw().unwrap());
        assert!(one != other && one.text().len() == 2 * DRAWN_BYTES);
        assert_eq!(Token::new(one.text()), Ok(one.clone()));
    }

    #[test]
    fn names_that_nobody_gave_it_are_not_its_own() {
        let names = ["desk.example".to_owned()];
        let meant = |host: &str| is_meant(&headers(HOST, host), &names);
        for own in [
            "127.0.0.1:4488",
            "10.0.0.1",
            "[::1]:4488",
            "localhost:4488",
            "LOCALHOST",
            "Desk.Example:4488",
        ] {
            assert!(meant(own), "{own}");
        }
        for other in ["evil.example", "127.0.0.1.evil.example:4488", "", "[evil]"] {
            assert!(!meant(other), "{other}");
        }
        assert!(!is_meant(&HeaderMap::new(), &names));
    }
}
