//! Answers of the page of an object, to clients that are not browsers.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, UNIX_EPOCH};

use qsm_dash::{
    CONNECTIONS_MAX, Change, Content, Line, OBJECT_ROWS_MAX, ObjectKind, ObjectPage,
    VALUE_BYTES_MAX,
};
use serde_json::{Value, json};
use support::client::{Request, assert_strict, connect, event};
use support::{HOSTILE, show};

fn set(page: &ObjectPage, key: &str, value: &[u8]) {
    page.take(Change::Set {
        key: key.to_owned(),
        written: UNIX_EPOCH + Duration::from_millis(1500),
        value: Content::of(value),
    });
}

fn line(page: &ObjectPage, number: u64, content: Content) {
    page.take(Change::Line(Line {
        time: UNIX_EPOCH,
        sender: Some("ab.2".to_owned()),
        number: Some(number),
        content,
    }));
}

/// A stream, and the event that it begins with.
fn watch(page: &ObjectPage) -> (BufReader<TcpStream>, Value) {
    let mut stream = Request::of("/api/stream").send(page.address());
    let (kind, whole) = event(&mut stream);
    assert_eq!(kind, "whole");
    (stream, whole)
}

/// The next change.
fn change(stream: &mut BufReader<TcpStream>) -> Value {
    let (kind, change) = event(stream);
    assert_eq!(kind, "change");
    change
}

#[test]
fn every_answer_allows_no_script_but_its_own() {
    let page = show(ObjectKind::Map);
    for path in [
        "/",
        "/main.js",
        "/rows.js",
        "/style.css",
        "/object.css",
        "/nothing",
    ] {
        let (status, head, _) = Request::of(path).answer(page.address());
        assert_strict(&head);
        assert_eq!(status == 404, path == "/nothing", "{path}");
    }
    let mut stream = Request::of("/api/stream").send(page.address());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
    }
    assert_strict(&head.to_lowercase());
}

#[test]
fn the_object_is_for_holders_of_the_token_at_a_name_that_is_the_servers() {
    let page = show(ObjectKind::Map);
    set(&page, "secret", b"1");
    let answer = |token, host| {
        let request = Request {
            token,
            host,
            ..Request::of("/api/stream")
        };
        request.answer(page.address())
    };
    for (token, host, expected) in [
        (None, "localhost", 401),
        (Some("0123456789abcdeX"), "localhost", 403),
        (None, "evil.example", 421),
    ] {
        let (status, head, body) = answer(token, host);
        assert_eq!(status, expected);
        assert_strict(&head);
        assert!(!body.contains("secret"), "{body}");
    }
    // The page itself, which asks for the token, is for everybody.
    let request = Request {
        token: None,
        ..Request::of("/")
    };
    assert_eq!(request.answer(page.address()).0, 200);
}

#[test]
fn a_map_is_told_as_it_is_and_then_as_it_changes() {
    let page = show(ObjectKind::Map);
    set(&page, "eur", b"1.08");
    set(&page, "raw", b"\xff\x00");
    let (mut stream, whole) = watch(&page);
    assert_eq!(
        (&whole["object"], &whole["group"], &whole["begun"]),
        (&json!("map"), &json!(HOSTILE[0]), &json!(2))
    );
    let rows = &change(&mut stream)["rows"];
    assert_eq!(
        rows["set"],
        json!([
            { "at": 1, "key": "eur", "time": 1_500_000, "form": "text", "text": "1.08", "size": 4, "cut": false },
            { "at": 2, "key": "raw", "time": 1_500_000, "form": "hex", "text": "ff 00", "size": 2, "cut": false },
        ])
    );
    set(&page, "eur", b"1.09");
    let rows = &change(&mut stream)["rows"];
    assert_eq!(rows["set"][0]["text"], "1.09");
    page.take(Change::Removed {
        key: "eur".to_owned(),
    });
    assert_eq!(change(&mut stream)["rows"]["removed"], json!(["eur"]));
    page.say(false, "no replica answers");
    let told = change(&mut stream);
    assert_eq!(
        (&told["well"], &told["word"], &told["rows"]),
        (&json!(false), &json!("no replica answers"), &Value::Null)
    );
    page.take(Change::Restart);
    set(&page, "usd", b"1");
    let mut kinds = Vec::new();
    let usd = loop {
        let (kind, told) = event(&mut stream);
        kinds.push(kind);
        if told["rows"]["set"][0]["key"] == "usd" {
            break told;
        }
    };
    assert_eq!(
        (&*kinds[0], &usd["rows"]["set"][1]),
        ("whole", &Value::Null)
    );
}

#[test]
fn a_text_is_told_by_what_differs() {
    let page = show(ObjectKind::Text);
    page.take(Change::Text("Present:".to_owned()));
    let (mut stream, _) = watch(&page);
    let splice = |before: u64, insert: &str, size: u64| json!({ "before": before, "after": 0, "insert": insert, "size": size, "cut": false });
    assert_eq!(change(&mut stream)["text"], splice(0, "Present:", 8));
    page.take(Change::Text("Present: all".to_owned()));
    assert_eq!(change(&mut stream)["text"], splice(8, " all", 12));
}

#[test]
fn messages_come_with_sender_number_and_content_and_cannot_make_events() {
    let page = show(ObjectKind::Messages);
    let (mut stream, _) = watch(&page);
    for (number, text) in (1..).zip(HOSTILE) {
        line(&page, number, Content::of(text.as_bytes()));
    }
    line(&page, 5, Content::object("Quote v2", "{\"bid\":1.5}", 9));
    line(
        &page,
        6,
        Content::of(b"hello").remark("type 104 is not known"),
    );
    line(&page, 7, Content::missing("3 messages are missing"));
    let mut rows = Vec::new();
    while rows.len() < HOSTILE.len() + 3 {
        let told = change(&mut stream);
        rows.extend(told["rows"]["set"].as_array().unwrap().iter().cloned());
    }
    for (row, text) in rows.iter().zip(HOSTILE) {
        assert_eq!(
            (&row["text"], &row["sender"]),
            (&json!(text), &json!("ab.2"))
        );
    }
    let of = |at: usize, name: &str| rows[at][name].as_str().unwrap().to_owned();
    assert_eq!(
        (of(4, "form"), of(4, "remark")),
        ("object".into(), "Quote v2".into())
    );
    assert_eq!(
        (of(5, "form"), of(5, "remark")),
        ("text".into(), "type 104 is not known".into())
    );
    assert_eq!(
        (of(6, "form"), &rows[6]["number"]),
        ("missing".into(), &json!(7))
    );
}

#[test]
fn of_too_much_the_newest_is_told_and_that_it_is_cut() {
    let page = show(ObjectKind::Map);
    let rows = OBJECT_ROWS_MAX + 7;
    for number in 0..rows {
        set(&page, &number.to_string(), b"1");
    }
    let (mut stream, whole) = watch(&page);
    assert_eq!(whole["rows_max"], OBJECT_ROWS_MAX);
    let mut seen = 0;
    while seen < OBJECT_ROWS_MAX {
        let told = &change(&mut stream)["rows"];
        assert_eq!((&told["first"], &told["left_out"]), (&json!(8), &json!(7)));
        seen += told["set"].as_array().unwrap().len();
    }
    assert_eq!(seen, OBJECT_ROWS_MAX);
    set(&page, "long", &vec![b'x'; VALUE_BYTES_MAX + 1]);
    let told = &change(&mut stream)["rows"];
    let row = &told["set"][0];
    assert_eq!(
        (&row["cut"], &row["size"]),
        (&json!(true), &json!(VALUE_BYTES_MAX + 1))
    );
    assert_eq!(row["text"].as_str().unwrap().len(), VALUE_BYTES_MAX);
    assert_eq!(told["first"], 9, "who has the oldest forgets it");
}

/// More than sockets hold: the server is in the middle of telling.
#[test]
fn a_browser_that_does_not_read_holds_nobody_up_and_gets_the_newest_state() {
    const KEYS: usize = 250;
    let page = show(ObjectKind::Map);
    let value = |letter| vec![letter; 60 << 10];
    for key in 0..KEYS {
        set(&page, &key.to_string(), &value(b'o'));
    }
    let (mut lazy, _) = watch(&page);
    for round in 0..4 {
        for key in 0..KEYS {
            let letter = if round == 3 { b'n' } else { b'm' };
            set(&page, &key.to_string(), &value(letter));
        }
    }
    set(&page, "end", b"n");
    // Another one is told meanwhile.
    let (mut other, _) = watch(&page);
    assert!(change(&mut other)["rows"]["set"][0]["text"].is_string());
    let (mut held, mut told) = (BTreeMap::new(), 0);
    while !held.contains_key("end") {
        for row in change(&mut lazy)["rows"]["set"].as_array().unwrap() {
            let text = row["text"].as_str().unwrap();
            let key = row["key"].as_str().unwrap().to_owned();
            held.insert(key, text.as_bytes()[0]);
            told += 1;
        }
    }
    assert_eq!(held.len(), KEYS + 1);
    assert!(held.values().all(|first| *first == b'n'), "{held:?}");
    assert!(told <= 2 * KEYS + 1, "{told} of {} changes", 5 * KEYS + 1);
}

#[test]
fn more_connections_than_there_is_room_for_are_closed_and_its_end_closes_all() {
    let page = show(ObjectKind::Log);
    let mut held: Vec<_> = (0..CONNECTIONS_MAX).map(|_| watch(&page).0).collect();
    let mut refused = connect(page.address());
    // It may be closed before the request is written.
    drop(refused.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let mut answer = Vec::new();
    drop(refused.read_to_end(&mut answer));
    assert_eq!(answer, b"");
    let address = page.address();
    drop(page);
    let mut rest = Vec::new();
    drop(held[0].read_to_end(&mut rest));
    assert!(TcpStream::connect(address).is_err());
}
