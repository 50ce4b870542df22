//! What the dashboard answers, to clients that are not browsers.

mod support;

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use qsm_dash::{CONNECTIONS_MAX, INTERVAL};
use serde_json::Value;
use support::client::{Request, assert_strict, connect, event};
use support::{HOSTILE, Made, serve};

/// The first look that a new browser with all rights is told, and where its tables have their rows. Nobody watched
/// before: it comes as a difference from nothing, or was quicker, and is the whole.
fn first_look(stream: &mut BufReader<TcpStream>) -> (Value, &'static str) {
    let (kind, whole) = event(stream);
    assert_eq!(
        (kind.as_str(), &whole["rights"]),
        ("whole", &Value::from("all"))
    );
    match whole["sequence"].as_u64() {
        Some(0) => (event(stream).1, "set"),
        _ => (whole, "rows"),
    }
}

#[test]
fn every_answer_allows_no_script_but_its_own() {
    let dash = serve(Made::new(3, 1));
    for path in ["/", "/main.js", "/uplot.js", "/api/explain", "/nothing"] {
        let (_, head, _) = Request::of(path).answer(dash.address());
        assert_strict(&head);
    }
    let (status, head, page) = Request::of("/").answer(dash.address());
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/html") && page.contains("<title>Quicksilver"));
    assert_eq!(Request::of("/nothing").answer(dash.address()).0, 404);
}

#[test]
fn a_page_of_another_name_is_refused() {
    let dash = serve(Made::new(3, 1));
    let status = |host| {
        let request = Request {
            host,
            ..Request::of("/")
        };
        request.answer(dash.address()).0
    };
    for own in ["localhost:4488", "127.0.0.1", "[::1]:80", "desk.example"] {
        assert_eq!(status(own), 200, "{own}");
    }
    for other in ["evil.example", "localhost.evil.example:4488"] {
        assert_eq!(status(other), 421, "{other}");
    }
}

#[test]
fn a_stream_tells_everything_once_and_then_what_differs() {
    let dash = serve(Made::new(20, 2));
    let mut stream = Request::of("/api/stream").send(dash.address());
    let (first, rows) = first_look(&mut stream);
    let nodes = &first["tables"]["nodes"];
    assert_eq!(
        (&nodes["total"], nodes[rows].as_object().unwrap().len()),
        (&Value::from(20), 20)
    );
    assert_eq!(first["tables"]["here"]["total"], 1);
    let (_, change) = event(&mut stream);
    let set = &change["tables"]["nodes"]["set"];
    assert!(set["3.1"]["received_per_second"].is_u64(), "{set}");
    assert_eq!(set["3.1"].as_object().unwrap().len(), 1, "{set}");
    assert!(change["tables"].get("groups").is_none(), "{change}");
    let away = (0..5).map(|_| event(&mut stream).1);
    let told = away.flat_map(|change| change["events"].as_array().unwrap().clone());
    let told: Vec<Value> = told.collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0]["name"], &told[0]["text"]),
        (&"node-007".into(), &"away: silent".into())
    );
    // Another browser gets the same at once.
    let (kind, whole) = event(&mut Request::of("/api/stream").send(dash.address()));
    assert_eq!(
        (kind.as_str(), &whole["tables"]["nodes"]["total"]),
        ("whole", &Value::from(20))
    );
    assert_eq!(
        whole["tables"]["nodes"]["rows"]["7.1"]["trouble"],
        "away: silent"
    );
}

#[test]
fn nobody_is_asked_while_no_browser_watches() {
    let made = Made::new(3, 1);
    let looks = Arc::clone(&made.looks);
    let dash = serve(made);
    assert_eq!(Request::of("/").answer(dash.address()).0, 200);
    assert_eq!(looks.load(Ordering::Relaxed), 0);
    let mut stream = Request::of("/api/stream").send(dash.address());
    event(&mut stream);
    event(&mut stream);
    assert!(looks.load(Ordering::Relaxed) > 0);
    drop(stream);
    // The end of the stream is seen at the next change, or the one after it.
    let quiet = (0..60).any(|_| {
        let before = looks.load(Ordering::Relaxed);
        thread::sleep(3 * INTERVAL);
        looks.load(Ordering::Relaxed) == before
    });
    assert!(quiet);
}

#[test]
fn names_cannot_make_events_of_their_own() {
    let dash = serve(Made::new(1, HOSTILE.len()));
    let mut stream = Request::of("/api/stream").send(dash.address());
    let (first, rows) = first_look(&mut stream);
    let groups = &first["tables"]["groups"][rows];
    for (number, name) in HOSTILE.iter().enumerate() {
        assert_eq!(groups[&number.to_string()]["name"], *name);
    }
}

#[test]
fn who_has_no_token_sees_lists_alone_and_who_has_a_wrong_one_nothing() {
    let dash = serve(Made::new(3, 1));
    let mut request = Request {
        token: None,
        ..Request::of("/api/stream")
    };
    let mut stream = request.send(dash.address());
    let (_, whole) = event(&mut stream);
    assert_eq!(whole["rights"], "lists");
    let (_, change) = event(&mut stream);
    assert_eq!(change["tables"]["nodes"]["total"], 3);
    assert!(change["tables"].get("here").is_none() && change["point"]["missing"].is_null());
    request.path = "/api/explain?kind=node&name=desk";
    assert_eq!(request.answer(dash.address()).0, 401);
    request.token = Some("0123456789abcdeX");
    assert_eq!(request.answer(dash.address()).0, 403);
    request.path = "/api/stream";
    assert_eq!(request.answer(dash.address()).0, 403);
}

#[test]
fn nodes_and_groups_are_explained_by_name() {
    let dash = serve(Made::new(3, 1));
    let request = Request::of("/api/explain?kind=group&name=prices%2Feur%26%3Cb%3E");
    let (status, head, body) = request.answer(dash.address());
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(told["sections"][0]["heading"], "this is prices/eur&<b>");
    let (status, _, why) = Request::of("/api/explain?kind=node&name=nobody").answer(dash.address());
    assert_eq!((status, why.as_str()), (404, "nobody knows it\n"));
    for wrong in ["/api/explain?kind=moon&name=a", "/api/explain?name=a"] {
        assert_eq!(Request::of(wrong).answer(dash.address()).0, 400, "{wrong}");
    }
    let long = format!("/api/explain?kind=node&name={}", "a".repeat(5000));
    assert_eq!(Request::of(&long).answer(dash.address()).0, 414);
}

#[test]
fn more_connections_than_there_is_room_for_are_closed() {
    let dash = serve(Made::new(3, 1));
    let held: Vec<_> = (0..CONNECTIONS_MAX)
        .map(|_| {
            let mut stream = Request::of("/api/stream").send(dash.address());
            event(&mut stream);
            stream
        })
        .collect();
    let mut refused = connect(dash.address());
    // It may be closed before the request is written.
    drop(refused.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let mut answer = Vec::new();
    drop(refused.read_to_end(&mut answer));
    assert_eq!(answer, b"");
    drop(held);
    // Ends are noticed when the next change is written.
    let answered = (0..600).any(|_| {
        thread::sleep(Duration::from_millis(100));
        let mut text = String::new();
        drop(
            Request::of("/")
                .send(dash.address())
                .read_to_string(&mut text),
        );
        text.starts_with("HTTP/1.1 200")
    });
    assert!(answered);
}

#[test]
fn its_end_closes_streams_and_the_port() {
    let dash = serve(Made::new(3, 1));
    let address = dash.address();
    let mut stream = Request::of("/api/stream").send(dash.address());
    event(&mut stream);
    drop(dash);
    let mut rest = Vec::new();
    drop(stream.read_to_end(&mut rest));
    assert!(TcpStream::connect(address).is_err());
}
