//! Clients of all kinds: good ones get the page, and no other one keeps them from it. With the feature `otlp`:
//! collectors of all kinds.

#[cfg(feature = "otlp")]
mod collector;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use qsm_exporter::{CLIENTS_MAX, Exporter, REQUEST_BYTES_MAX};

/// More than a slow machine needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn exporter(page: &str) -> Exporter {
    let page = page.to_owned();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    Exporter::start(address, move || Ok(page.clone())).unwrap()
}

fn connect(exporter: &Exporter) -> TcpStream {
    let client = TcpStream::connect(exporter.address()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.set_write_timeout(Some(PATIENCE)).unwrap();
    client
}

fn answer(mut client: TcpStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text
}

fn get(exporter: &Exporter) -> String {
    let mut client = connect(exporter);
    client
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    answer(client)
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let exporter = exporter("# EOF\n");
    let mut client = connect(&exporter);
    client.set_nodelay(true).unwrap();
    for byte in b"GET /metrics HTTP/1.0\r\n\r\n" {
        client.write_all(&[*byte]).unwrap();
    }
    assert!(answer(client).ends_with("\r\n\r\n# EOF\n"));
}

#[test]
fn clients_that_say_nothing_keep_nobody_from_the_page_for_long() {
    let exporter = exporter("# EOF\n");
    let silent: Vec<_> = (0..2 * CLIENTS_MAX).map(|_| connect(&exporter)).collect();
    // It waits until the time of those in front is over.
    assert!(get(&exporter).ends_with("# EOF\n"));
    drop(silent);
}

#[test]
fn a_client_that_does_not_read_keeps_nobody_from_the_page() {
    // More than buffers of sockets hold.
    let exporter = exporter(&"x".repeat(64 << 20));
    let mut stuck = connect(&exporter);
    stuck.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut first = [0];
    stuck.read_exact(&mut first).unwrap();
    let mut other = connect(&exporter);
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(answer(other).contains("at /metrics"));
    // It is cut off before it has read everything, and ends nothing.
    drop(exporter);
    let mut rest = Vec::new();
    let ended = stuck.read_to_end(&mut rest);
    assert!(ended.is_err() || rest.len() < 64 << 20);
}

#[test]
fn what_is_too_long_or_no_request_is_answered_and_the_next_one_is_served() {
    let exporter = exporter("# EOF\n");
    let mut long = connect(&exporter);
    let line = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(REQUEST_BYTES_MAX));
    long.write_all(line.as_bytes()).unwrap();
    assert!(answer(long).starts_with("HTTP/1.1 431 "));
    let mut wrong = connect(&exporter);
    wrong.write_all(b"\x16\x03\x01\x00\xff\r\n\r\n").unwrap();
    assert!(answer(wrong).starts_with("HTTP/1.1 400 "));
    let half = connect(&exporter);
    half.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(answer(half).starts_with("HTTP/1.1 400 "));
    assert!(get(&exporter).starts_with("HTTP/1.1 200 "));
}

#[test]
fn an_address_in_use_is_an_error_with_a_remedy() {
    let first = exporter("# EOF\n");
    let second = Exporter::start(first.address(), || Ok(String::new()));
    let text = second.unwrap_err().to_string();
    let address = first.address().to_string();
    assert!(text.contains(&address) && text.contains("; choose another port"));
    // A port is free again when its exporter has ended.
    drop(first);
    Exporter::start(address.parse().unwrap(), || Ok(String::new())).unwrap();
}

#[test]
fn the_page_is_made_anew_for_each_request_and_may_fail() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let page = move || match count.fetch_add(1, Ordering::Relaxed) {
        0 => Err("not yet".to_owned()),
        more => Ok(format!("page {more}\n")),
    };
    let exporter = Exporter::start("127.0.0.1:0".parse().unwrap(), page).unwrap();
    assert!(get(&exporter).starts_with("HTTP/1.1 503 "));
    assert!(get(&exporter).ends_with("page 1\n"));
    assert!(get(&exporter).ends_with("page 2\n"));
    assert_eq!(made.load(Ordering::Relaxed), 3);
}

#[test]
fn a_page_that_panics_is_an_answer() {
    let exporter = Exporter::start("127.0.0.1:0".parse().unwrap(), || panic!("no page")).unwrap();
    for _ in 0..2 * CLIENTS_MAX {
        let mut client = connect(&exporter);
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        assert!(answer(client).starts_with("HTTP/1.1 503 "));
    }
}
