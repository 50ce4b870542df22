//! Streams by relays whose contents are sealed from end to end, as processes over loopback.

mod support;

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use support::keys::content_key;
use support::relaying::{free_ports, relaying};
use support::{Cluster, Lines, assert_code, stderr};

/// Bytes of a message; what relays say otherwise is shorter.
const LONG: usize = 300;

/// Somebody on the way, who hears all that the source sends, and may change it.
struct Tap {
    at: String,
    heard: Arc<Mutex<Vec<u8>>>,
    forges: Arc<AtomicBool>,
}

impl Tap {
    /// Between one child and the source there.
    fn of(source: &str) -> Self {
        let [down, up] = [(); 2].map(|()| Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()));
        up.connect(source).unwrap();
        let child: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let tap = Self {
            at: down.local_addr().unwrap().to_string(),
            heard: Arc::default(),
            forges: Arc::default(),
        };
        let (to, from, who) = (Arc::clone(&up), Arc::clone(&down), Arc::clone(&child));
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok((length, address)) = from.recv_from(&mut buffer) {
                *who.lock().unwrap() = Some(address);
                // There is nobody yet, or any more.
                to.send(&buffer[..length]).unwrap_or_default();
            }
        });
        let (heard, forges) = (Arc::clone(&tap.heard), Arc::clone(&tap.forges));
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let Ok(length) = up.recv(&mut buffer) else {
                    continue;
                };
                let datagram = &mut buffer[..length];
                heard.lock().unwrap().extend_from_slice(datagram);
                if length >= LONG && forges.load(Ordering::Relaxed) {
                    datagram[length - 1] ^= 1;
                }
                if let Some(address) = *child.lock().unwrap() {
                    down.send_to(datagram, address).unwrap_or_default();
                }
            }
        });
        tap
    }

    fn has_heard(&self, text: &str) -> bool {
        let heard = self.heard.lock().unwrap();
        heard
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    }
}

fn message(word: &str) -> String {
    format!("{word}{}", ".".repeat(LONG))
}

/// R-RELAY-50: who passes a stream on reads nothing, and can change nothing unnoticed.
#[test]
fn who_passes_a_sealed_stream_on_can_neither_read_nor_change_it() {
    let folder = Cluster::without_service();
    let key = content_key(&folder, "content.key");
    let [source] = free_ports();
    let words = ["pub", "news", "--listen", &source, "--content-key", &key];
    let mut publisher = relaying(&words);
    let mut stdin = publisher.0.stdin.take().unwrap();
    let tap = Tap::of(&source);
    let words = ["sub", "news", "--parent", &tap.at, "--content-key", &key];
    let mut sub = relaying(&[&words[..], &["--stats", "json"]].concat());
    let lines = Lines::of_stdout(&mut sub.0);
    let told = Lines::of_stderr(&mut sub.0);
    writeln!(stdin, "{}", message("secret")).unwrap();
    assert_eq!(lines.wait("the message", |_| true), message("secret"));
    tap.forges.store(true, Ordering::Relaxed);
    writeln!(stdin, "{}", message("changed")).unwrap();
    let said = told.wait("that it is forged", |line| line.contains("UNOPENED"));
    assert!(said.contains("somebody on the way forges"), "{said}");
    tap.forges.store(false, Ordering::Relaxed);
    writeln!(stdin, "{}", message("after it")).unwrap();
    assert_eq!(lines.wait("the next", |_| true), message("after it"));
    drop(stdin);
    assert_code(&publisher.output(), 0);
    let output = sub.output();
    assert_code(&output, 4);
    told.wait("what it has counted", |line| {
        line.contains("\"opened\":2,\"unopened\":1")
    });
    assert!(!tap.heard.lock().unwrap().is_empty());
    for word in ["secret", "changed", "after it"] {
        assert!(!tap.has_heard(word), "{word}");
    }
}

/// A receiver without the source's key gets nothing, and is told what it may lack.
#[test]
fn a_sealed_stream_is_for_those_who_have_its_key() {
    let folder = Cluster::without_service();
    let [key, other] = ["content.key", "other.key"].map(|name| content_key(&folder, name));
    let [source] = free_ports();
    let words = ["pub", "news", "--listen", &source, "--content-key", &key];
    let mut publisher = relaying(&words);
    let mut stdin = publisher.0.stdin.take().unwrap();
    let sub = ["sub", "news", "--parent", &source, "--timeout"];
    let without = relaying(&[&sub[..], &["0.5"]].concat()).output();
    assert_code(&without, 3);
    assert!(
        stderr(&without).contains("no --content-key"),
        "{}",
        stderr(&without)
    );
    let mut with_other = relaying(&[&sub[..], &["60", "--content-key", &other]].concat());
    let told = Lines::of_stderr(&mut with_other.0);
    writeln!(stdin, "not for you").unwrap();
    told.wait("that it cannot open it", |line| line.contains("UNOPENED"));
    drop(stdin);
    assert_code(&publisher.output(), 0);
    let output = with_other.output();
    assert_code(&output, 4);
    assert_eq!(output.stdout, b"");
}

/// Its seal takes room in the datagram of a message.
#[test]
fn a_message_that_does_not_fit_with_its_seal_is_refused() {
    let folder = Cluster::without_service();
    let key = content_key(&folder, "content.key");
    let words = ["pub", "news", "--listen", "127.0.0.1:0", "--frames"];
    let words = [
        &words[..],
        &["--wait-receivers", "0", "--content-key", &key],
    ]
    .concat();
    let mut publisher = relaying(&words);
    let mut stdin = publisher.0.stdin.take().unwrap();
    let length = 64_961u32;
    stdin.write_all(&length.to_le_bytes()).unwrap();
    stdin.write_all(&vec![b'x'; length as usize]).unwrap();
    drop(stdin);
    let output = publisher.output();
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("at most 64960"),
        "{}",
        stderr(&output)
    );
}
