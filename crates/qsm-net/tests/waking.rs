//! The waker ends a wait, from any thread, and is never lost.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use common::{PATIENCE, open};
use qsm_net::{Offload, Ready};

const MESSAGES: u32 = 20_000;

#[test]
fn a_wake_before_the_wait_is_kept_and_used_once() {
    let mut port = open(Offload::Auto);
    port.waker().wake();
    port.waker().wake();
    assert_eq!(
        port.wait(None).unwrap(),
        Ready {
            woken: true,
            ..Ready::default()
        }
    );
    assert_eq!(port.wait(Some(Duration::ZERO)).unwrap(), Ready::default());
    assert_eq!(
        port.wait(Some(Duration::from_nanos(100))).unwrap(),
        Ready::default()
    );
}

#[test]
fn a_blocked_wait_is_woken() {
    let mut port = open(Offload::Auto);
    let waker = port.waker();
    let sleeper = thread::spawn(move || port.wait(Some(PATIENCE)).unwrap());
    waker.wake();
    assert!(sleeper.join().unwrap().woken);
}

/// Producers publish a number each, then wake; the consumer sleeps whenever it has seen all there is. A lost wake-up
/// leaves it asleep until the end of its patience.
#[test]
fn no_wake_is_lost_between_looking_and_sleeping() {
    let mut port = open(Offload::Auto);
    let published = Arc::new(AtomicU32::new(0));
    let producers: Vec<_> = (0..2)
        .map(|_| {
            let (waker, published) = (port.waker(), Arc::clone(&published));
            thread::spawn(move || {
                for _ in 0..MESSAGES {
                    published.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                }
            })
        })
        .collect();
    while published.load(Ordering::Relaxed) < 2 * MESSAGES {
        let ready = port.wait(Some(PATIENCE)).unwrap();
        assert!(ready.woken, "a wake-up was lost");
    }
    for producer in producers {
        producer.join().unwrap();
    }
}
