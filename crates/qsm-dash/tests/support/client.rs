//! A client of a page that is no browser.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

pub(crate) const TOKEN: &str = "0123456789abcdef";

/// More than a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

/// A request, as a client writes it.
pub(crate) struct Request<'a> {
    pub(crate) path: &'a str,
    pub(crate) host: &'a str,
    pub(crate) token: Option<&'a str>,
}

impl<'a> Request<'a> {
    pub(crate) fn of(path: &'a str) -> Self {
        Self {
            path,
            host: "localhost",
            token: Some(TOKEN),
        }
    }

    pub(crate) fn send(&self, to: SocketAddr) -> BufReader<TcpStream> {
        let mut connection = connect(to);
        let token = self
            .token
            .map(|token| format!("Authorization: Bearer {token}\r\n"));
        let token = token.unwrap_or_default();
        let (path, host) = (self.path, self.host);
        write!(
            connection,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\n{token}Connection: close\r\n\r\n"
        )
        .unwrap();
        BufReader::new(connection)
    }

    /// Status, headers in lower case, and body.
    pub(crate) fn answer(&self, to: SocketAddr) -> (u16, String, String) {
        let mut text = String::new();
        self.send(to).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }
}

/// The next event of a stream: its kind and its data.
pub(crate) fn event(stream: &mut BufReader<TcpStream>) -> (String, Value) {
    let mut kind = String::new();
    loop {
        let mut line = String::new();
        assert!(
            stream.read_line(&mut line).unwrap() > 0,
            "the stream has ended"
        );
        if let Some(word) = line.strip_prefix("event:") {
            word.trim().clone_into(&mut kind);
        }
        // The length of a chunk may stand before it.
        if let Some(data) = line.strip_prefix("data:") {
            return (kind, serde_json::from_str(data).unwrap());
        }
    }
}

/// Headers of every answer, by which a page may run no script but its own.
#[track_caller]
pub(crate) fn assert_strict(head: &str) {
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
        "require-trusted-types-for 'script'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    assert!(
        !head.contains("unsafe-inline") && !head.contains("access-control"),
        "{head}"
    );
}
