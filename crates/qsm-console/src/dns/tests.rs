use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use domain::rdata::Cname;

use super::*;

const SERVICE: &str = "_qsm._udp.example.org";

/// A DNS server on loopback, by UDP and TCP at one port.
struct Server {
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// Answers to one question: each is a datagram, or the one message of a stream.
type Answers = fn(&Message<Vec<u8>>, Transport) -> Vec<Vec<u8>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Datagram,
    Stream,
}

impl Server {
    fn start(answers: Answers) -> Self {
        let (socket, listener) = ports();
        let address = socket.local_addr().unwrap();
        let by_datagram = thread::spawn(move || {
            let mut buffer = [0; 512];
            // An empty datagram ends it.
            while let Ok((length @ 1.., from)) = socket.recv_from(&mut buffer) {
                let query = Message::from_octets(buffer[..length].to_vec()).unwrap();
                for answer in answers(&query, Transport::Datagram) {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        let by_stream = thread::spawn(move || {
            // A connection without a question ends it.
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut length = [0; 2];
                if stream.read_exact(&mut length).is_err() {
                    return;
                }
                let mut query = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut query).unwrap();
                let query = Message::from_octets(query).unwrap();
                for answer in answers(&query, Transport::Stream) {
                    let length = u16::try_from(answer.len()).unwrap();
                    stream.write_all(&length.to_be_bytes()).unwrap();
                    stream.write_all(&answer).unwrap();
                }
            }
        });
        Self {
            address,
            threads: vec![by_datagram, by_stream],
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ends = UdpSocket::bind("127.0.0.1:0").and_then(|own| own.send_to(&[], self.address));
        let hangs_up = TcpStream::connect(self.address);
        if ends.is_ok() && hangs_up.map(drop).is_ok() {
            self.threads
                .drain(..)
                .for_each(|thread| drop(thread.join()));
        }
    }
}

/// Both kinds of sockets at one port, which others may have taken for one of them.
fn ports() -> (UdpSocket, TcpListener) {
    (0..100)
        .find_map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let listener = TcpListener::bind(socket.local_addr().unwrap());
            Some((socket, listener.ok()?))
        })
        .unwrap()
}

/// Asks these servers once, for so long each.
fn resolver(servers: &[SocketAddr], timeout: Duration) -> Resolver {
    Resolver {
        servers: servers.to_vec(),
        timeout,
        attempts: 1,
    }
}

fn patient(server: &Server) -> Resolver {
    resolver(&[server.address], Duration::from_secs(30))
}

fn target(priority: u16, weight: u16, host: &str) -> Target {
    Target {
        priority,
        weight,
        host: host.to_owned(),
        port: 4481,
    }
}

fn name(text: &str) -> Name<Vec<u8>> {
    Name::vec_from_str(text).unwrap()
}

/// An answer with these records, by the name that was asked for.
fn answer(query: &Message<Vec<u8>>, targets: &[Target]) -> Vec<u8> {
    let owner = query.first_question().unwrap().qname().to_string();
    named(query, &owner, targets)
}

/// An answer with records of that name; if another one was asked for, it is an alias of that.
fn named(query: &Message<Vec<u8>>, owner: &str, targets: &[Target]) -> Vec<u8> {
    let message = MessageBuilder::new_vec();
    let mut message = message.start_answer(query, Rcode::NOERROR).unwrap();
    let asked = query.first_question().unwrap().qname().to_string();
    if asked != owner {
        let alias = Cname::new(name(owner));
        message.push((name(&asked), 60, alias)).unwrap();
    }
    for target in targets {
        let service = Srv::new(
            target.priority,
            target.weight,
            target.port,
            name(&target.host),
        );
        message.push((name(owner), 60, service)).unwrap();
    }
    message.finish()
}

fn failed(query: &Message<Vec<u8>>, rcode: Rcode) -> Vec<u8> {
    let message = MessageBuilder::new_vec();
    message.start_answer(query, rcode).unwrap().finish()
}

fn hosts(found: &[Target]) -> Vec<&str> {
    found.iter().map(|target| target.host.as_str()).collect()
}

#[test]
fn the_hosts_of_a_service_come_by_their_priority() {
    let server = Server::start(|query, _| {
        let question = query.sole_question().unwrap();
        assert_eq!(question.qname().to_string(), SERVICE);
        assert_eq!(question.qtype(), Rtype::SRV);
        assert!(query.header().rd());
        let targets = [target(20, 0, "b.example"), target(10, 5, "a.example")];
        vec![answer(query, &targets)]
    });
    let found = patient(&server).hosts(SERVICE).unwrap();
    assert_eq!(
        found,
        [target(10, 5, "a.example"), target(20, 0, "b.example")]
    );
}

#[test]
fn an_alias_is_followed_and_records_of_others_are_not_taken() {
    let server = Server::start(|query, _| {
        vec![named(
            query,
            "_qsm._udp.example.net",
            &[target(1, 1, "a.example")],
        )]
    });
    let found = patient(&server).hosts(SERVICE).unwrap();
    assert_eq!(hosts(&found), ["a.example"]);
    // Records of another name, without a word that it is an alias.
    let server = Server::start(|query, _| {
        let message = MessageBuilder::new_vec();
        let mut message = message.start_answer(query, Rcode::NOERROR).unwrap();
        let foreign = Srv::new(1, 1, 4481, name("evil.example"));
        message
            .push((name("_other._udp.example.org"), 60, foreign))
            .unwrap();
        vec![message.finish()]
    });
    let error = patient(&server).hosts(SERVICE).unwrap_err();
    assert!(error.contains("no SRV record"), "{error}");
}

#[test]
fn what_does_not_answer_the_question_is_passed_over() {
    let server = Server::start(|query, _| {
        let evil = [target(1, 1, "evil.example")];
        let mut forged = answer(query, &evil);
        forged[0] ^= 1;
        let mut question = query.as_slice().to_vec();
        question[2] &= 0x7f;
        let good = answer(query, &[target(1, 1, "a.example")]);
        vec![b"short".to_vec(), forged, question, good]
    });
    let found = patient(&server).hosts(SERVICE).unwrap();
    assert_eq!(hosts(&found), ["a.example"]);
}

#[test]
fn an_answer_too_long_for_a_datagram_comes_by_a_stream() {
    let server = Server::start(|query, transport| {
        let many: Vec<Target> = (0..100)
            .map(|host| target(host, 0, &format!("host-{host}.of-a-long-name.example")))
            .collect();
        if transport == Transport::Stream {
            return vec![answer(query, &many)];
        }
        let mut message = Message::from_octets(failed(query, Rcode::NOERROR)).unwrap();
        message.header_mut().set_tc(true);
        vec![message.into_octets()]
    });
    let found = patient(&server).hosts(SERVICE).unwrap();
    assert_eq!(found.len(), HOSTS_MAX);
    assert_eq!(found[15].host, "host-15.of-a-long-name.example");
}

#[test]
fn what_a_server_does_not_know_is_said_with_its_address() {
    let cases: [(Answers, &str); 4] = [
        (
            |query, _| vec![failed(query, Rcode::NXDOMAIN)],
            "knows no such name",
        ),
        (|query, _| vec![answer(query, &[])], "knows no SRV record"),
        (
            |query, _| vec![answer(query, &[target(0, 0, ".")])],
            "no such service",
        ),
        (
            |query, _| vec![failed(query, Rcode::SERVFAIL)],
            "says SERVFAIL",
        ),
    ];
    for (answers, said) in cases {
        let server = Server::start(answers);
        let error = patient(&server).hosts(SERVICE).unwrap_err();
        assert!(error.contains(said), "{error}");
        assert!(error.contains(&server.address.to_string()), "{error}");
    }
    assert!(resolver(&[], Duration::ZERO).hosts("a..b").is_err());
}

#[test]
fn the_next_server_is_asked_where_one_fails_or_is_silent() {
    let failing = Server::start(|query, _| vec![failed(query, Rcode::REFUSED)]);
    let good = Server::start(|query, _| vec![answer(query, &[target(1, 1, "a.example")])]);
    let both = resolver(&[failing.address, good.address], Duration::from_secs(30));
    assert_eq!(hosts(&both.hosts(SERVICE).unwrap()), ["a.example"]);
    let silent = Server::start(|_, _| Vec::new());
    let short = Duration::from_millis(20);
    let error = resolver(&[silent.address, failing.address], short).hosts(SERVICE);
    let error = error.unwrap_err();
    assert!(error.contains("does not answer, "), "{error}");
    assert!(error.contains("says REFUSED"), "{error}");
}

#[test]
fn equals_are_drawn_by_weight() {
    let targets = [
        target(1, 3, "c"),
        target(1, 1, "b"),
        target(1, 0, "a"),
        target(0, 0, "z"),
    ];
    let drawn = |number: u64| {
        let ordered = order(targets.to_vec(), |below| number.min(below - 1));
        hosts(&ordered).concat()
    };
    assert_eq!(drawn(0), "zabc");
    assert_eq!(drawn(1), "zbca");
    assert_eq!(drawn(2), "zcba");
    assert_eq!(drawn(4), "zcba");
}

#[test]
fn servers_and_patience_are_those_of_the_configuration() {
    let text = "# nameserver 10.0.0.9\nsearch a.example\nnameserver 10.0.0.1\n\
                nameserver fd00::1\nnameserver nonsense\nnameserver 10.0.0.2\n\
                nameserver 10.0.0.3\noptions ndots:2 timeout:1 attempts:99\n";
    let resolver = Resolver::parse(text);
    let servers: Vec<String> = resolver.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["10.0.0.1:53", "[fd00::1]:53", "10.0.0.2:53"]);
    assert_eq!(
        (resolver.timeout, resolver.attempts),
        (Duration::from_secs(1), 5)
    );
    let usual = Resolver::parse("options timeout:0 attempts:x\n");
    assert_eq!(usual.servers, ["127.0.0.1:53".parse().unwrap()]);
    assert_eq!((usual.timeout, usual.attempts), (Duration::from_secs(5), 2));
}
