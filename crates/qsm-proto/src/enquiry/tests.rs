use qsm_wire::TAIL_BYTES;

use super::*;

const CLUSTER: u32 = 5;
const DATAGRAM: usize = 1472;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn config(service: Option<&str>) -> EnquiryConfig {
    EnquiryConfig {
        cluster: CLUSTER,
        question: EnquiryQuestion::List(QueryKind::Groups),
        service: service.map(address),
        discovery: address("239.192.83.77:4483"),
        datagram_bytes: DATAGRAM,
    }
}

fn enquiry(service: Option<&str>) -> Enquiry {
    Enquiry::new(config(service), NodeId(1), Seed(1), Instant(0))
}

/// A service as an enquiry sees it.
struct Responder {
    origin: Origin,
    version: u64,
    list: Vec<u8>,
    /// Lose every so many replies; 0: none.
    lose: usize,
    sent: usize,
    /// Versions change after so many replies; 0: never.
    change: usize,
}

impl Responder {
    fn new(groups: u32) -> (Self, AnswerRows) {
        let row = |number: u32| qsm_wire::membership::GroupRow {
            group: qsm_wire::GroupId(number),
            name: format!("group/{number}"),
            members: 1,
            regions: 1,
            publishers: 0,
        };
        let rows = AnswerRows::Groups((0..groups).map(row).collect());
        let mut list = Vec::new();
        rows.encode_list(&mut list);
        let responder = Self {
            origin: Origin {
                node: NodeId(9),
                incarnation: Incarnation(4),
            },
            version: 1,
            list,
            lose: 0,
            sent: 0,
            change: 0,
        };
        (responder, rows)
    }

    fn reply(&mut self, query: &ListQuery) -> Option<Vec<u8>> {
        self.sent += 1;
        if self.change > 0 && self.sent.is_multiple_of(self.change) {
            self.version += 1;
        }
        let known = query.version == self.version;
        let offset = if known { query.offset } else { 0 };
        let at = usize::try_from(offset).unwrap();
        let room = ListReply::room(query, DATAGRAM);
        let content = &self.list[at..self.list.len().min(at + room)];
        let reply = ListReply {
            nonce: query.nonce,
            list: query.list,
            version: self.version,
            total: u32::try_from(self.list.len()).unwrap(),
            offset,
            content,
        };
        let header = HeaderTemplate::new(CLUSTER).header(self.origin);
        let mut bytes = Vec::new();
        reply.encode(&header, &mut bytes);
        qsm_wire::seal(&mut bytes, qsm_wire::Coverage::Whole);
        assert!(bytes.len() <= 3 * query.datagram_bytes());
        let lost = self.lose > 0 && self.sent.is_multiple_of(self.lose);
        (!lost).then_some(bytes)
    }

    /// Answers until there is an outcome; the time that it took.
    fn serve(
        &mut self,
        enquiry: &mut Enquiry,
        mut now: Instant,
    ) -> (Result<AnswerRows, EnquiryError>, Duration) {
        let start = now;
        loop {
            enquiry.handle_timeout(now);
            let mut replies = Vec::new();
            while let Some(transmit) = enquiry.poll_transmit(now) {
                let packet = Packet::open(transmit.bytes).expect("legal");
                let Body::ListQuery(query) = packet.body else {
                    panic!("{packet:?}");
                };
                replies.extend(self.reply(&query));
            }
            // Those of a version that is not collected any more may still be on their way.
            assert!(replies.len() <= 2 * WINDOW);
            let quiet = replies.is_empty();
            for reply in replies {
                enquiry.handle_datagram(now, &reply);
            }
            if let Some(outcome) = enquiry.poll_outcome() {
                return (outcome.map(rows_of), now.since(start));
            }
            let due = enquiry.next_timeout().expect("it goes on");
            now = if quiet { due } else { now };
        }
    }
}

fn rows_of(answer: EnquiryAnswer) -> AnswerRows {
    match answer {
        EnquiryAnswer::Rows(rows) => rows,
        EnquiryAnswer::Group(answer) => panic!("{answer:?}"),
    }
}

const SERVICE: &str = "10.0.0.1:4481";

#[test]
fn a_long_list_comes_in_parts() {
    for groups in [0, 1, 5000] {
        let (mut responder, rows) = Responder::new(groups);
        let outcome = responder.serve(&mut enquiry(Some(SERVICE)), Instant(0));
        assert_eq!(outcome, (Ok(rows), Duration::ZERO));
    }
}

#[test]
fn parts_that_are_lost_are_asked_for_again() {
    let (mut responder, rows) = Responder::new(5000);
    responder.lose = 3;
    let (outcome, took) = responder.serve(&mut enquiry(Some(SERVICE)), Instant(0));
    assert_eq!(outcome, Ok(rows));
    assert!(took >= PAUSE_MIN, "{took:?}");
}

#[test]
fn a_list_that_changes_is_begun_with_again_and_not_for_ever() {
    let (mut responder, rows) = Responder::new(5000);
    let parts = responder.list.len() / 1400;
    responder.change = parts / 3;
    let (outcome, _) = responder.serve(&mut enquiry(Some(SERVICE)), Instant(0));
    let changing = EnquiryError::Changing {
        versions: VERSIONS_MAX,
    };
    assert_eq!(outcome, Err(changing));
    let (mut responder, _) = Responder::new(5000);
    responder.change = parts * 2 / 3;
    let mut enquiry = enquiry(Some(SERVICE));
    // It stays as it is after the first change.
    let first = responder.change;
    enquiry.handle_timeout(Instant(0));
    while responder.version == 1 {
        let mut replies = Vec::new();
        while let Some(transmit) = enquiry.poll_transmit(Instant(0)) {
            let Body::ListQuery(query) = Packet::open(transmit.bytes).unwrap().body else {
                panic!("no question");
            };
            replies.extend(responder.reply(&query));
        }
        for reply in replies {
            enquiry.handle_datagram(Instant(0), &reply);
        }
    }
    assert!(responder.sent >= first);
    responder.change = 0;
    let (outcome, _) = responder.serve(&mut enquiry, Instant(0));
    assert_eq!(outcome, Ok(rows));
}

/// Parts of the service's former run have the same number of a version.
#[test]
fn a_service_that_has_restarted_is_another_one() {
    let (mut responder, _) = Responder::new(5000);
    let mut enquiry = enquiry(Some(SERVICE));
    enquiry.handle_timeout(Instant(0));
    let question = |enquiry: &mut Enquiry| {
        let transmit = enquiry.poll_transmit(Instant(0))?;
        match Packet::open(transmit.bytes).unwrap().body {
            Body::ListQuery(query) => Some(query),
            other => panic!("{other:?}"),
        }
    };
    let first = question(&mut enquiry).unwrap();
    let reply = responder.reply(&first).unwrap();
    enquiry.handle_datagram(Instant(0), &reply);
    let (mut restarted, rows) = Responder::new(7);
    restarted.origin.incarnation = Incarnation(5);
    restarted.version = 9;
    while let Some(query) = question(&mut enquiry) {
        let reply = restarted.reply(&query).unwrap();
        enquiry.handle_datagram(Instant(0), &reply);
    }
    assert_eq!(enquiry.poll_outcome(), Some(Ok(EnquiryAnswer::Rows(rows))));
}

#[test]
fn a_service_is_looked_for_and_another_one_if_it_does_not_answer() {
    let mut enquiry = enquiry(None);
    let mut now = Instant(0);
    let sent = |enquiry: &mut Enquiry, now: &mut Instant| {
        *now = enquiry.next_timeout().unwrap();
        enquiry.handle_timeout(*now);
        let transmit = enquiry.poll_transmit(*now).unwrap();
        (transmit.to, Kind::peek(transmit.bytes).unwrap())
    };
    let solicit = (
        Destination::Group(address("239.192.83.77:4483")),
        Kind::Solicit,
    );
    for _ in 0..6 {
        assert_eq!(sent(&mut enquiry, &mut now), solicit);
    }
    let beacon = |at, cluster| {
        let beacon = qsm_wire::Beacon {
            address: address(at),
            second: Some(address("10.1.0.1:4481")),
            term: 1,
            embedded: false,
        };
        let mut bytes = Vec::new();
        beacon.encode(
            &HeaderTemplate::new(cluster).header(Origin::default()),
            &mut bytes,
        );
        qsm_wire::seal(&mut bytes, qsm_wire::Coverage::Whole);
        bytes
    };
    enquiry.handle_datagram(now, &beacon("10.0.0.7:1", CLUSTER + 1));
    assert_eq!(enquiry.service(), None);
    enquiry.handle_datagram(now, &beacon(SERVICE, CLUSTER));
    assert_eq!(enquiry.service(), Some(address(SERVICE)));
    let both = (address(SERVICE), address("10.1.0.1:4481"));
    assert_eq!(enquiry.poll_second(), Some(both));
    assert_eq!(enquiry.poll_second(), None);
    let asked = (Destination::Node(address(SERVICE)), Kind::ListQuery);
    let transmit = enquiry.poll_transmit(now).unwrap();
    assert_eq!(
        (transmit.to, Kind::peek(transmit.bytes)),
        (asked.0, Some(asked.1))
    );
    let mut questions = 0;
    while sent(&mut enquiry, &mut now) == asked {
        questions += 1;
    }
    assert_eq!(questions, PATIENCE - 1);
    assert_eq!(enquiry.service(), None);
}

#[test]
fn what_cannot_be_is_an_error_or_nothing() {
    let (responder, _) = Responder::new(3);
    let reply = |nonce, total, content: &[u8]| {
        let reply = ListReply {
            nonce,
            list: QueryKind::Groups,
            version: 1,
            total,
            offset: 0,
            content,
        };
        let mut bytes = Vec::new();
        reply.encode(
            &HeaderTemplate::new(CLUSTER).header(responder.origin),
            &mut bytes,
        );
        qsm_wire::seal(&mut bytes, qsm_wire::Coverage::Whole);
        bytes
    };
    let asked = || {
        let mut enquiry = enquiry(Some(SERVICE));
        enquiry.handle_timeout(Instant(0));
        let nonce = enquiry.nonce;
        (enquiry, nonce)
    };
    let (mut enquiry, nonce) = asked();
    // Not asked for, and a part so short that there would be millions.
    enquiry.handle_datagram(Instant(0), &reply(nonce ^ 1, 4, &[0; 4]));
    enquiry.handle_datagram(Instant(0), &reply(nonce, 1 << 20, &[0; 4]));
    assert_eq!(enquiry.poll_outcome(), None);
    enquiry.handle_datagram(Instant(0), &reply(nonce, 4, &[0xff; 4]));
    assert_eq!(enquiry.poll_outcome(), Some(Err(EnquiryError::Malformed)));
    let (mut enquiry, nonce) = asked();
    enquiry.handle_datagram(Instant(0), &reply(nonce, u32::MAX, &[]));
    let Some(Err(error)) = enquiry.poll_outcome() else {
        panic!("a list of four gigabytes");
    };
    assert!(error.to_string().contains("4294967295 bytes"), "{error}");
    assert_eq!(enquiry.next_timeout(), None);
}

// Rule R-MEM-18.
#[test]
fn a_question_about_a_group_is_repeated_until_its_answer_comes() {
    let config = EnquiryConfig {
        question: EnquiryQuestion::Group("news".to_owned()),
        ..config(Some(SERVICE))
    };
    let mut enquiry = Enquiry::new(config, NodeId(1), Seed(1), Instant(0));
    let mut now = Instant(0);
    let mut asked = Vec::new();
    for _ in 0..3 {
        now = enquiry.next_timeout().unwrap();
        enquiry.handle_timeout(now);
        let transmit = enquiry.poll_transmit(now).unwrap();
        assert_eq!(transmit.to, Destination::Node(address(SERVICE)));
        let Body::GroupQuery(query) = Packet::open(transmit.bytes).unwrap().body else {
            panic!("no question");
        };
        assert_eq!(query.name, "news");
        assert_eq!(
            GroupReply::room(&query, DATAGRAM),
            DATAGRAM - TAIL_BYTES - 32
        );
        asked.push(query.nonce);
    }
    let reply = |nonce, answer: &[u8]| {
        let mut bytes = Vec::new();
        let header = HeaderTemplate::new(CLUSTER).header(Origin::default());
        GroupReply { nonce, answer }.encode(&header, &mut bytes);
        qsm_wire::seal(&mut bytes, qsm_wire::Coverage::Whole);
        bytes
    };
    enquiry.handle_datagram(now, &reply(asked[0] ^ 1, &[0]));
    assert_eq!(enquiry.poll_outcome(), None);
    enquiry.handle_datagram(now, &reply(asked[0], &[0]));
    let nothing = EnquiryAnswer::Group(Box::new(GroupAnswer { decision: None }));
    assert_eq!(enquiry.poll_outcome(), Some(Ok(nothing)));
    assert_eq!(enquiry.next_timeout(), None);
}
