//! Promises of the calls, beyond the examples.

mod support;

use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use qsm::ErrorCode;
use qsm_capi::*;
use support::error;

/// A node of its own cluster, a subscription and a publisher to one group.
struct Cluster {
    node: *mut QsmNode,
    subscription: *mut QsmSubscription,
    publisher: *mut QsmPublisher,
}

impl Cluster {
    fn new(test: &str, queue: *const QsmQueue) -> Self {
        Self::member(test, queue, "always")
    }

    /// A node of the cluster, with a membership service `always` or `never`.
    fn member(test: &str, queue: *const QsmQueue, embedded: &str) -> Self {
        let mut cluster = Self {
            node: null_mut(),
            subscription: null_mut(),
            publisher: null_mut(),
        };
        let mut settings = null_mut();
        let name = format!("capi-{test}-{}", std::process::id());
        let group = c"g".as_ptr();
        // SAFETY: handles of the library, and texts that outlive the calls.
        unsafe {
            assert_eq!(qsm_settings_new(&mut settings), 0);
            for (name, value) in [
                ("cluster", &*name),
                ("interface", "lo"),
                ("embedded", embedded),
            ] {
                assert_eq!(set(settings, name, value), 0, "{}", error());
            }
            assert_eq!(qsm_start(settings, &mut cluster.node), 0, "{}", error());
            qsm_settings_free(settings);
            let place = &mut cluster.subscription;
            assert_eq!(
                qsm_subscribe(cluster.node, &group, 1, queue, place),
                0,
                "{}",
                error()
            );
            assert_eq!(
                qsm_publisher_new(cluster.node, group, &mut cluster.publisher),
                0
            );
        }
        cluster
    }

    fn send(&self, message: &[u8]) -> Code {
        // SAFETY: the publisher lives, and the bytes are there.
        unsafe { qsm_send(self.publisher, message.as_ptr().cast(), message.len()) }
    }

    fn poll(&self, milliseconds: i64) -> (Code, QsmBatch) {
        let mut batch = QsmBatch {
            items: null(),
            count: 7,
            owner: null_mut(),
        };
        // SAFETY: the subscription lives.
        let code = unsafe { qsm_poll(self.subscription, 100, milliseconds, &mut batch) };
        (code, batch)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: each is given up once; null is allowed.
        unsafe {
            qsm_publisher_free(self.publisher);
            qsm_subscription_free(self.subscription);
            qsm_node_free(self.node);
        }
    }
}

fn set(settings: *mut QsmSettings, name: &str, value: &str) -> Code {
    let text = |text: &str| CString::new(text).expect("no nul");
    let (name, value) = (text(name), text(value));
    // SAFETY: the texts outlive the call.
    unsafe { qsm_set(settings, name.as_ptr(), value.as_ptr()) }
}

fn items(batch: &QsmBatch) -> &[QsmItem] {
    match batch.count {
        0 => &[],
        // SAFETY: the batch has not been released.
        count => unsafe { std::slice::from_raw_parts(batch.items, count) },
    }
}

fn data(item: &QsmItem) -> &[u8] {
    // SAFETY: the item's batch has not been released.
    unsafe { std::slice::from_raw_parts(item.data, item.length) }
}

#[test]
fn bad_pointers_and_texts_are_named() {
    let cluster = Cluster::new("bad", null());
    let wrong = c"\xff".as_ptr();
    let mut publisher = cluster.publisher;
    // SAFETY: null is what is tried.
    unsafe {
        assert_eq!(qsm_send(null(), null(), 0), Own::Null as Code);
        assert_eq!(error(), "publisher is null; give a pointer");
        assert_eq!(qsm_send(cluster.publisher, null(), 3), Own::Null as Code);
        assert_eq!(error(), "data is null; give a pointer");
        assert_eq!(
            qsm_publisher_new(cluster.node, wrong, &mut publisher),
            Own::Text as Code
        );
        assert!(publisher.is_null());
        assert_eq!(error(), r#"group is not UTF-8: "\xff""#);
        assert_eq!(
            qsm_attach(c"/nowhere".as_ptr(), null_mut()),
            Own::Null as Code
        );
        let mut node = null_mut();
        let code = qsm_attach(c"/nowhere".as_ptr(), &mut node);
        assert_eq!(code, ErrorCode::AttachNoEngine.number());
        assert!(node.is_null());
        assert_eq!(qsm_subscription_fd(null()), -1);
        qsm_node_free(null_mut());
        qsm_release(null_mut());
    }
}

#[test]
fn settings_are_named_when_they_are_wrong() {
    let mut settings = null_mut();
    // SAFETY: the handle is made and given up here.
    unsafe {
        assert_eq!(qsm_settings_new(&mut settings), 0);
        assert_eq!(set(settings, "colour", "red"), Own::Setting as Code);
        assert!(error().starts_with("there is no setting \"colour\"; there are admin,"));
        assert_eq!(set(settings, "cores", "0"), 0);
        let mut node = null_mut();
        assert_eq!(
            qsm_start(settings, &mut node),
            ErrorCode::StartCores.number()
        );
        assert!(node.is_null() && error().contains("give it 1 to 64"));
        qsm_settings_free(settings);
    }
}

#[test]
fn a_batch_outlives_its_subscription_and_its_node() {
    let cluster = Cluster::new("outlive", null());
    assert_eq!(cluster.send(b"kept"), 0);
    let (code, mut batch) = cluster.poll(10_000);
    assert_eq!((code, batch.count), (0, 1));
    drop(cluster);
    assert_eq!(data(&items(&batch)[0]), b"kept");
    // SAFETY: filled by the library; a second time it is empty.
    unsafe {
        qsm_release(&mut batch);
        qsm_release(&mut batch);
    }
    assert_eq!(batch.count, 0);
}

#[test]
fn an_empty_message_is_one() {
    let cluster = Cluster::new("empty", null());
    assert_eq!(cluster.send(b""), 0);
    let (_, mut batch) = cluster.poll(10_000);
    let [item] = items(&batch) else {
        panic!("{} items", batch.count);
    };
    assert_eq!(
        (item.kind, item.length, item.number),
        (ItemKind::Message, 0, 1)
    );
    // SAFETY: filled by the library.
    unsafe { qsm_release(&mut batch) };
}

#[test]
fn the_end_is_told_by_each_call() {
    let cluster = Cluster::new("end", null());
    let mut flushed = QsmFlushed::default();
    // SAFETY: the node lives.
    let code = unsafe { qsm_shutdown(cluster.node, 5_000, &mut flushed) };
    assert_eq!((code, flushed), (0, QsmFlushed::default()));
    let ended = ErrorCode::ClosedShutDown.number();
    let (code, batch) = cluster.poll(-1);
    assert_eq!((code, batch.count), (ended, 0));
    assert_eq!(cluster.send(b"late"), ended);
    // SAFETY: the node lives; nothing is written.
    assert_eq!(unsafe { qsm_flush(cluster.node, 0, null_mut()) }, ended);
}

#[test]
fn a_full_queue_drops_counts_and_tells() {
    let (bytes, messages, overflow) = (0, 2, QsmOverflow::DropNewest as u32);
    let queue = QsmQueue {
        bytes,
        messages,
        overflow,
        delivery: 0,
        within_us: 0,
    };
    let cluster = Cluster::new("full", &queue);
    for _ in 0..5 {
        assert_eq!(cluster.send(b"m"), 0);
    }
    // SAFETY: the node lives.
    assert_eq!(unsafe { qsm_shutdown(cluster.node, 5_000, null_mut()) }, 0);
    let (_, mut batch) = cluster.poll(0);
    let kinds: Vec<_> = items(&batch)
        .iter()
        .map(|item| (item.kind, item.number, item.last))
        .collect();
    let expected = [
        (ItemKind::Message, 1, 0),
        (ItemKind::Message, 2, 0),
        (ItemKind::Dropped, 0, 3),
    ];
    assert_eq!(kinds, expected);
    // SAFETY: filled by the library; the subscription lives.
    unsafe {
        qsm_release(&mut batch);
        assert_eq!(qsm_dropped(cluster.subscription), 3);
    }
}

#[test]
fn a_policy_or_an_order_that_is_none_is_refused_and_each_that_is_one_is_taken() {
    let cluster = Cluster::new("policy", null());
    let subscribe = |overflow, delivery| {
        let queue = QsmQueue {
            bytes: 0,
            messages: 0,
            overflow,
            delivery,
            within_us: 500,
        };
        let group = c"h".as_ptr();
        let mut subscription = null_mut();
        // SAFETY: the node lives, and the text is there.
        let code = unsafe { qsm_subscribe(cluster.node, &group, 1, &queue, &mut subscription) };
        let made = !subscription.is_null();
        // SAFETY: it is given up once; null may be.
        unsafe { qsm_subscription_free(subscription) };
        (code, made)
    };
    for wrong in [subscribe(9, 0), subscribe(0, 3)] {
        assert_eq!(wrong, (Own::Setting as Code, false));
    }
    for (overflow, delivery) in [(0, 1), (1, 2), (2, 0), (3, 0)] {
        assert_eq!(subscribe(overflow, delivery), (0, true));
    }
}

#[test]
fn a_reader_that_holds_loses_nothing() {
    let queue = QsmQueue {
        bytes: 0,
        messages: 2,
        overflow: QsmOverflow::Hold as u32,
        delivery: QsmDelivery::Ordered as u32,
        within_us: 0,
    };
    let cluster = Cluster::new("hold", &queue);
    for _ in 0..5 {
        assert_eq!(cluster.send(b"m"), 0);
    }
    let mut numbers = Vec::new();
    while numbers.len() < 5 {
        let (code, mut batch) = cluster.poll(10_000);
        assert_eq!(code, 0, "{}", error());
        assert!(batch.count > 0, "nothing came for ten seconds");
        for item in items(&batch) {
            assert_eq!((item.kind, item.cause), (ItemKind::Message, QsmCause::None));
            numbers.push(item.number);
        }
        // SAFETY: filled by the library.
        unsafe { qsm_release(&mut batch) };
    }
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    // SAFETY: the subscription lives.
    assert_eq!(unsafe { qsm_dropped(cluster.subscription) }, 0);
}

#[test]
fn messages_wait_for_others_as_long_as_their_publisher_says() {
    let cluster = Cluster::new("batching", null());
    let reader = Cluster::member("batching", null(), "never");
    let publisher = |delay_us, bytes| {
        let (batching, mut made) = (QsmBatching { delay_us, bytes }, null_mut());
        // SAFETY: the node lives, and the text and the structure are there.
        let code =
            unsafe { qsm_publisher_batching(cluster.node, c"g".as_ptr(), &batching, &mut made) };
        assert_eq!(code, 0, "{}", error());
        made
    };
    let sent_by = |publisher: *mut QsmPublisher, message: &[u8]| {
        // SAFETY: the publisher lives.
        let sent = unsafe { qsm_send(publisher, message.as_ptr().cast(), message.len()) };
        assert_eq!(sent, 0, "{}", error());
        let (code, mut batch) = reader.poll(20_000);
        assert_eq!(code, 0, "{}", error());
        assert_eq!(data(&items(&batch)[0]), message);
        // SAFETY: filled by the library; the publisher is given up once.
        unsafe {
            qsm_release(&mut batch);
            qsm_publisher_free(publisher);
        }
    };
    // SAFETY: the publisher lives.
    let there = unsafe { qsm_wait_for_members(cluster.publisher, 1, 20_000) };
    assert_eq!(there, 0, "{}", error());
    let patient = publisher(200_000, 0);
    let before = Instant::now();
    sent_by(patient, b"waits");
    assert!(before.elapsed() >= Duration::from_millis(200));
    // Longer than anything takes here, but for a length.
    sent_by(publisher(3_600_000_000, 1), b"does not");
    let mut made = null_mut();
    // SAFETY: null is what is tried.
    let refused = unsafe { qsm_publisher_batching(cluster.node, c"g".as_ptr(), null(), &mut made) };
    assert_eq!(refused, Own::Null as Code);
    assert_eq!(error(), "batching is null; give a pointer");
}

#[test]
fn a_batch_is_sent_up_to_its_first_error() {
    let cluster = Cluster::new("batch", null());
    let mut first = *b"first";
    let vector = |length| libc::iovec {
        iov_base: first.as_mut_ptr().cast(),
        iov_len: length,
    };
    let mut messages = [5, 3].map(vector);
    let mut sent = 9;
    // SAFETY: the vectors point to bytes.
    let mut send = |messages: &[libc::iovec]| unsafe {
        let code = qsm_send_batch(
            cluster.publisher,
            messages.as_ptr(),
            messages.len(),
            &mut sent,
        );
        (code, sent)
    };
    assert_eq!(send(&messages), (0, 2));
    messages[1].iov_base = null_mut();
    assert_eq!(send(&messages), (Own::Null as Code, 1));
    assert_eq!(send(&[]), (0, 0));
}

#[test]
fn events_say_what_happened() {
    let cluster = Cluster::new("events", null());
    let mut events = null_mut();
    let mut event = QsmEvent {
        kind: EventKind::Other,
        text: null(),
    };
    // SAFETY: handles of the library; the text lasts until the next event.
    unsafe {
        assert_eq!(qsm_events_new(cluster.node, &mut events), 0);
        assert_eq!(qsm_shutdown(cluster.node, 5_000, null_mut()), 0);
        while event.kind != EventKind::Closed {
            assert_eq!(qsm_next_event(events, 10_000, &mut event), 0);
            assert_ne!(event.kind, EventKind::None, "nothing for ten seconds");
        }
        assert!(
            CStr::from_ptr(event.text)
                .to_string_lossy()
                .starts_with("ended: ")
        );
        qsm_events_free(events);
    }
}

#[test]
fn codes_have_meanings() {
    let mut text = [0; 16];
    // SAFETY: so many bytes are there.
    unsafe {
        let length = qsm_meaning(ErrorCode::SendFull.number(), text.as_mut_ptr(), text.len());
        assert!(length > text.len());
        assert_eq!(CStr::from_ptr(text.as_ptr()).to_bytes(), b"The publisher's");
        assert_eq!(qsm_meaning(9999, null_mut(), 0), 0);
        assert_eq!(qsm_meaning(Own::Ok as Code, null_mut(), 0), "Done.".len());
    }
}

/// Kinds, numbers and ends of what comes, up to the first of this kind that has this number.
fn taken(subscription: *mut QsmSubscription, last: (ItemKind, u64)) -> Vec<(ItemKind, u64, u64)> {
    let mut taken: Vec<(ItemKind, u64, u64)> = Vec::new();
    while taken
        .last()
        .is_none_or(|(kind, number, _)| (*kind, *number) != last)
    {
        let mut batch = QsmBatch {
            items: null(),
            count: 0,
            owner: null_mut(),
        };
        // SAFETY: the subscription lives.
        let code = unsafe { qsm_poll(subscription, 1, 20_000, &mut batch) };
        assert_eq!(code, 0, "{}", error());
        assert!(batch.count > 0, "nothing comes after {taken:?}");
        let told = items(&batch).iter();
        taken.extend(told.map(|item| (item.kind, item.number, item.last)));
        // SAFETY: filled by the library.
        unsafe { qsm_release(&mut batch) };
    }
    taken
}

/// Position of a subscription as text.
fn position(subscription: *mut QsmSubscription) -> CString {
    // SAFETY: the subscription lives, and so many bytes are there.
    unsafe {
        let length = qsm_position(subscription, null_mut(), 0);
        let mut text = vec![0; length + 1];
        let size = text.len();
        assert_eq!(qsm_position(subscription, text.as_mut_ptr(), size), length);
        CStr::from_ptr(text.as_ptr()).to_owned()
    }
}

/// A subscription to the group `g` that begins with the past.
fn past(
    node: *mut QsmNode,
    last: u64,
    resume: Option<&CStr>,
    queue: *const QsmQueue,
) -> (Code, *mut QsmSubscription) {
    let past = QsmPast {
        last,
        resume: resume.map_or(null(), CStr::as_ptr),
        held_bytes: 0,
    };
    let (group, mut subscription) = (c"g".as_ptr(), null_mut());
    // SAFETY: the node lives, and the texts and structures are there.
    let code = unsafe { qsm_subscribe_past(node, &group, 1, &past, queue, &mut subscription) };
    (code, subscription)
}

#[test]
fn the_past_comes_first_and_a_position_goes_on_behind_it() {
    let cluster = Cluster::new("past", null());
    let send = |count| (0..count).for_each(|_| assert_eq!(cluster.send(b"m"), 0));
    send(2);
    taken(cluster.subscription, (ItemKind::Message, 2));
    let (group, mut keeper) = (c"g".as_ptr(), null_mut());
    // SAFETY: the node lives, and the text is there.
    let code = unsafe { qsm_keep(cluster.node, &group, 1, null(), &mut keeper) };
    assert_eq!(code, 0, "{}", error());
    let wait_for_kept = |messages| {
        let mut kept = QsmKeeping::default();
        while kept.messages < messages {
            // SAFETY: the keeper lives.
            assert_eq!(unsafe { qsm_kept(keeper, &mut kept) }, 0, "{}", error());
            std::thread::yield_now();
        }
        kept
    };
    send(3);
    wait_for_kept(3);

    let late = Cluster::member("past", null(), "never");
    let (code, first) = past(late.node, 4, None, null());
    assert_eq!(code, 0, "{}", error());
    let expected = [
        (ItemKind::NotKept, 2, 2),
        (ItemKind::Message, 3, 0),
        (ItemKind::Message, 4, 0),
        (ItemKind::Message, 5, 0),
        (ItemKind::Joined, 3, 1),
    ];
    assert_eq!(taken(first, (ItemKind::Joined, 3)), expected);
    let behind = position(first);
    let text = behind.to_string_lossy();
    assert!(text.ends_with(" 5 g\n"), "{text}");
    // SAFETY: given up once.
    unsafe { qsm_subscription_free(first) };

    send(1);
    assert_eq!(wait_for_kept(4).senders, 1);
    let (code, again) = past(late.node, 0, Some(&behind), null());
    assert_eq!(code, 0, "{}", error());
    let expected = [(ItemKind::Message, 6, 0), (ItemKind::Joined, 1, 0)];
    assert_eq!(taken(again, (ItemKind::Joined, 1)), expected);
    // SAFETY: given up once.
    unsafe {
        qsm_subscription_free(again);
        qsm_keeper_free(keeper);
    }
    // One without a past has no position.
    assert_eq!(position(cluster.subscription).to_bytes(), b"");
}

#[test]
fn a_past_that_cannot_be_is_refused() {
    let cluster = Cluster::new("no-past", null());
    let (code, made) = past(cluster.node, 0, Some(c"yesterday"), null());
    assert_eq!((code, made.is_null()), (Own::Setting as Code, true));
    let said = error();
    assert!(
        said.starts_with("no position: it does not begin with"),
        "{said}"
    );
    let queue = QsmQueue {
        bytes: 0,
        messages: 0,
        overflow: 0,
        delivery: QsmDelivery::Arrival as u32,
        within_us: 0,
    };
    let (code, made) = past(cluster.node, 1, None, &queue);
    assert_eq!((code, made.is_null()), (Own::Setting as Code, true));
    let (pattern, mut keeper) = (c"a/*".as_ptr(), null_mut());
    // SAFETY: the node lives, and the text is there.
    let code = unsafe { qsm_keep(cluster.node, &pattern, 1, null(), &mut keeper) };
    assert_eq!(code, ErrorCode::RequestPattern.number(), "{}", error());
    assert!(keeper.is_null());
}

/// Text that a call writes to a place.
fn written(call: impl Fn(*mut std::ffi::c_char, usize) -> usize) -> String {
    let mut text = vec![0; call(null_mut(), 0) + 1];
    let size = text.len();
    assert_eq!(call(text.as_mut_ptr(), size), size - 1);
    // SAFETY: the call has written a nul.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_string_lossy().into_owned()
}

#[test]
fn settings_are_listed_with_their_meanings() {
    // SAFETY: `written` gives so many bytes as it says.
    let name = |number| written(|place, size| unsafe { qsm_setting_name(number, place, size) });
    let count = (0..).find(|number| name(*number).is_empty());
    assert_eq!(count, Some(qsm_binding::SETTINGS.len()));
    // SAFETY: as above.
    let meaning = written(|place, size| unsafe { qsm_setting_meaning(2, place, size) });
    assert_eq!(name(2), "cores");
    assert_eq!(meaning, "Core threads, 1 to 64 (1).");
}

#[test]
fn a_node_says_who_it_is_and_why_it_has_ended() {
    let cluster = Cluster::new("who", null());
    let node = cluster.node;
    // SAFETY: the node lives, and `written` gives so many bytes as it says.
    let closed = || written(|place, size| unsafe { qsm_closed(node, place, size) });
    assert_eq!(closed(), "");
    let mut events = null_mut();
    // SAFETY: handles of the library; texts last until the next call of this thread.
    unsafe {
        assert_ne!(qsm_node_id(node), 0);
        assert_eq!(qsm_events_new(node, &mut events), 0);
        assert_eq!(qsm_shutdown(node, 5_000, null_mut()), 0);
        assert_eq!(CStr::from_ptr(qsm_lacking()).to_bytes(), b"");
        let mut event = QsmEvent {
            kind: EventKind::None,
            text: null(),
        };
        let name = || written(|place, size| qsm_event_name(events, place, size));
        assert_eq!(name(), "");
        while event.kind != EventKind::Closed {
            assert_eq!(qsm_next_event(events, 10_000, &mut event), 0);
        }
        assert_eq!(name(), "Closed");
        qsm_events_free(events);
    }
    assert!(closed().contains("shut down"), "{}", closed());
}

#[test]
fn a_buffer_is_filled_with_frames_and_a_full_one_says_what_it_needs() {
    let cluster = Cluster::new("fill", null());
    assert_eq!(cluster.send(&[7; 100]), 0);
    // SAFETY: the publisher lives, and the bytes are there.
    let sent = unsafe { qsm_send_within(cluster.publisher, b"more".as_ptr().cast(), 4, 1_000) };
    assert_eq!(sent, 0, "{}", error());
    let fill = |buffer: &mut [u8]| {
        let (mut used, mut needed) = (9, 9);
        // SAFETY: the subscription lives, and so many bytes are there.
        let code = unsafe {
            let (start, size) = (buffer.as_mut_ptr().cast(), buffer.len());
            qsm_fill(
                cluster.subscription,
                start,
                size,
                1,
                10_000,
                &mut used,
                &mut needed,
            )
        };
        assert_eq!(code, 0, "{}", error());
        (used, needed)
    };
    // A name of a byte takes 56, a message of 100 bytes 152.
    assert_eq!(fill(&mut [0; 100]), (0, 208));
    let mut buffer = [0; 208];
    assert_eq!(fill(&mut buffer), (208, 0));
    let field = |at: usize| i32::from_le_bytes(buffer[at..at + 4].try_into().expect("four bytes"));
    assert_eq!([0, 4, 8, 12].map(field), [56, 0, 0, 1]);
    assert_eq!(buffer[48], b'g');
    assert_eq!(
        [56, 60, 64, 68].map(field),
        [152, ItemKind::Message as i32, 0, 100]
    );
    assert_eq!(&buffer[104..204], [7; 100]);
    assert_eq!(fill(&mut buffer), (56, 0));
    assert_eq!(&buffer[48..52], b"more");
    // SAFETY: both live.
    let queued = unsafe {
        let to_read = qsm_queued_to_read(cluster.subscription);
        (qsm_queued_to_send(cluster.publisher), to_read)
    };
    assert_eq!(queued, (0, 0));
}
