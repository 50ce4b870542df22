//! A socket and those who ask: answers, mistakes, limits, the end.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use qsm_admin::{
    AdminSocket, Answer, AskError, NodeSocket, QUESTION_BYTES_MAX, Question, RepairLimitState,
    ServiceState,
};
use serde_json::json;

fn open() -> AdminSocket {
    let answer = |question| match question {
        Question::Counters => Ok(Answer::Counters(json!({ "data_sent": 3 }))),
        Question::Group { name } if name == "none" => Ok(Answer::Group(None)),
        Question::Group { .. } => panic!("as a faulty node would"),
        _ => Err("not now".to_owned()),
    };
    AdminSocket::open(answer).unwrap()
}

fn find(socket: &AdminSocket) -> Option<NodeSocket> {
    let all = NodeSocket::all().unwrap();
    all.into_iter().find(|node| node.name() == socket.name())
}

/// The answer to these bytes.
fn say(socket: &AdminSocket, bytes: &[u8]) -> String {
    let address = SocketAddr::from_abstract_name(socket.name()).unwrap();
    let mut stream = UnixStream::connect_addr(&address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_node_is_found_and_answers() {
    let socket = open();
    let node = find(&socket).expect("it is in the kernel's table");
    assert_eq!(node.pid(), std::process::id());
    let counters = node.ask(&Question::Counters).unwrap();
    assert_eq!(counters, Answer::Counters(json!({ "data_sent": 3 })));
    let name = "none".to_owned();
    let group = node.ask(&Question::Group { name }).unwrap();
    assert_eq!(group, Answer::Group(None));
    let refused = node.ask(&Question::Node).unwrap_err();
    assert!(matches!(refused, AskError::Refused(cause) if cause == "not now"));
}

#[test]
fn a_membership_service_is_no_node() {
    let answer = |question| match question {
        Question::LimitRepairs(limit) => Ok(Answer::Service(ServiceState {
            cluster: "blue".to_owned(),
            address: ([10, 0, 0, 1], 4481).into(),
            nodes: 3,
            repair_limit: limit,
        })),
        _ => Err("not now".to_owned()),
    };
    let socket = AdminSocket::open_service(answer).unwrap();
    assert!(find(&socket).is_none());
    let all = NodeSocket::services().unwrap();
    let service = all.into_iter().find(|one| one.name() == socket.name());
    let limit = RepairLimitState {
        bytes_per_second: 1_000_000,
        share_ppm: 0,
    };
    let answer = service
        .unwrap()
        .ask(&Question::LimitRepairs(limit))
        .unwrap();
    let Answer::Service(state) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(state.repair_limit, limit);
}

#[test]
fn several_nodes_of_a_process_have_names_of_their_own() {
    let (one, other) = (open(), open());
    assert_ne!(one.name(), other.name());
    assert!(find(&one).is_some() && find(&other).is_some());
}

#[test]
fn what_is_no_question_is_answered_with_what_to_ask() {
    let socket = open();
    let long = vec![b'x'; QUESTION_BYTES_MAX];
    let questions: [&[u8]; 4] = [
        b"GET / HTTP/1.1\n",
        b"{\"ask\":\"all\"}\n",
        b"\xff\n",
        &long,
    ];
    for question in questions {
        let answer = say(&socket, question);
        assert!(
            answer.starts_with(r#"{"error":"not a question"#),
            "{answer}"
        );
        assert!(answer.contains(r#"{\"ask\":\"node\"}"#), "{answer}");
    }
}

#[test]
fn neither_a_panic_nor_a_client_that_goes_ends_the_socket() {
    let socket = open();
    let node = find(&socket).unwrap();
    let name = "any".to_owned();
    let panicked = node.ask(&Question::Group { name }).unwrap_err();
    assert!(panicked.to_string().contains("a panic"), "{panicked}");
    let address = SocketAddr::from_abstract_name(socket.name()).unwrap();
    drop(UnixStream::connect_addr(&address).unwrap());
    assert!(node.ask(&Question::Counters).is_ok());
}

#[test]
fn nothing_is_left_of_a_socket_that_is_dropped() {
    let socket = open();
    let node = find(&socket).unwrap();
    drop(socket);
    assert!(matches!(
        node.ask(&Question::Counters),
        Err(AskError::Connection(_))
    ));
}
