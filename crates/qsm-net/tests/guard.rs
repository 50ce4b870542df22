//! A port with a guard: what leaves is sealed, and what comes is opened or refused, train by train.

mod common;

use std::net::SocketAddr;

use common::{PATIENCE, config};
use qsm_net::{Guard, Offload, Opened, OwnDatagram, PortConfig, Ports, Refusal};

/// Turns each byte around, and adds a mark: two bytes long after an even first byte, else one.
#[derive(Debug)]
struct Turned {
    mark: u8,
    answers: Vec<OwnDatagram>,
}

/// A datagram that begins so is the guard's own, and it answers.
const ECHO: u8 = 250;

impl Guard for Turned {
    fn growth(&self, _to: SocketAddr, datagram: &[u8]) -> usize {
        1 + usize::from(datagram[0].is_multiple_of(2))
    }

    fn seal(&mut self, to: SocketAddr, datagram: &[u8], sealed: &mut Vec<u8>) -> bool {
        sealed.extend(datagram.iter().map(|byte| !byte));
        sealed.extend(vec![self.mark; self.growth(to, datagram)]);
        datagram[0] != 255
    }

    fn open(&mut self, from: SocketAddr, datagram: &mut [u8]) -> Result<Opened, Refusal> {
        if datagram.last() != Some(&self.mark) {
            return Err(Refusal::Forged);
        }
        datagram.iter_mut().for_each(|byte| *byte = !*byte);
        if datagram[0] == ECHO {
            self.answers.push(OwnDatagram {
                to: from,
                bytes: vec![!8, self.mark, self.mark],
            });
            return Ok(Opened::Own);
        }
        Ok(Opened::Datagram(
            datagram.len() - self.growth(from, datagram),
        ))
    }

    fn poll_transmit(&mut self) -> Option<OwnDatagram> {
        self.answers.pop()
    }
}

fn open(mark: Option<u8>, offload: Offload) -> Ports {
    let config = PortConfig {
        offload,
        ..config()
    };
    let mut ports = Ports::open(config, None).unwrap();
    if let Some(mark) = mark {
        let answers = Vec::new();
        ports.protect(Box::new(Turned { mark, answers }));
    }
    ports
}

/// Datagrams that have come, until one of one byte with this value.
fn until(ports: &mut Ports, last: u8) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all
        .last()
        .is_none_or(|datagram: &Vec<u8>| *datagram != [last])
    {
        assert!(ports.wait(Some(PATIENCE)).unwrap().readable);
        let gathered = ports.gather(usize::MAX, |datagram| usize::from(datagram[0]));
        all.extend(gathered.unwrap().map(|datagram| datagram.bytes.to_vec()));
    }
    all
}

/// Datagrams of these lengths, each of bytes of its own.
fn datagrams(firsts: &[u8], segment: usize, last: usize) -> Vec<Vec<u8>> {
    let length = |at: usize| {
        if at + 1 == firsts.len() {
            last
        } else {
            segment
        }
    };
    let firsts = firsts.iter().enumerate();
    firsts.map(|(at, first)| vec![*first; length(at)]).collect()
}

fn sent(from: &mut Ports, to: SocketAddr, datagrams: &[Vec<u8>], segment: usize) {
    let bytes = datagrams.concat();
    let sent = from.send(to, &bytes, segment).unwrap();
    assert_eq!((sent.bytes, sent.datagrams), (bytes.len(), datagrams.len()));
}

#[test]
fn trains_arrive_as_they_were_whether_their_datagrams_grow_alike_or_not() {
    for offload in [Offload::Auto, Offload::Off] {
        let (mut from, mut to) = (open(Some(7), offload), open(Some(7), offload));
        for firsts in [vec![3; 20], vec![4; 20], vec![3, 3, 4, 4, 3, 5, 6]] {
            let train = datagrams(&firsts, 900, 100);
            sent(&mut from, to.local_addr(), &train, 900);
            sent(&mut from, to.local_addr(), &[vec![9]], 1);
            let mut came = until(&mut to, 9);
            came.pop();
            let mut train = train;
            // Lower first bytes are handed over first, and four classes are told apart.
            train.sort_by_key(|datagram| datagram[0].min(3));
            assert_eq!(came, train);
        }
        assert_eq!(to.counters().refused.forged, 0);
    }
}

#[test]
fn what_is_not_opened_is_not_there_and_is_counted() {
    let (mut friend, mut stranger) = (open(Some(7), Offload::Auto), open(None, Offload::Auto));
    let mut to = open(Some(7), Offload::Auto);
    sent(
        &mut stranger,
        to.local_addr(),
        &datagrams(&[1; 10], 500, 20),
        500,
    );
    sent(&mut friend, to.local_addr(), &[vec![9]], 1);
    assert_eq!(until(&mut to, 9), [[9]]);
    assert_eq!(to.counters().refused.forged, 10);
    let refused = to.take_refused().unwrap();
    assert_eq!(
        (refused.from, refused.why),
        (stranger.local_addr(), Refusal::Forged)
    );
    assert_eq!(to.take_refused(), None);
}

#[test]
fn what_the_guard_does_not_seal_does_not_leave_and_the_rest_does() {
    let (mut from, mut to) = (open(Some(7), Offload::Auto), open(Some(7), Offload::Auto));
    let bytes = datagrams(&[3, 255, 3, 255], 50, 50).concat();
    let result = from.send(to.local_addr(), &bytes, 50).unwrap();
    assert_eq!((result.bytes, result.datagrams), (200, 2));
    sent(&mut from, to.local_addr(), &[vec![9]], 1);
    assert_eq!(until(&mut to, 9), [vec![3; 50], vec![3; 50], vec![9]]);
}

#[test]
fn copies_are_sealed_as_well() {
    let mut from = open(Some(7), Offload::Auto);
    let mut receivers = [(); 3].map(|()| open(Some(7), Offload::Auto));
    let train = datagrams(&[5; 8], 700, 700);
    let mut left: Vec<_> = receivers.iter().map(Ports::local_addr).collect();
    let bytes = train.concat();
    assert_eq!(
        from.send_copies(&mut left, &bytes, 700).unwrap(),
        3 * bytes.len()
    );
    for receiver in &mut receivers {
        sent(&mut from, receiver.local_addr(), &[vec![9]], 1);
        let came = until(receiver, 9);
        assert_eq!(came[..8], train);
    }
}

#[test]
fn a_full_send_buffer_leaves_whole_datagrams_as_they_were() {
    let config = PortConfig {
        send_buffer_bytes: 1,
        ..config()
    };
    let mut from = Ports::open(config, None).unwrap();
    let answers = Vec::new();
    from.protect(Box::new(Turned { mark: 7, answers }));
    let mut to = open(Some(7), Offload::Auto);
    let train = datagrams(&[3; 60], 1000, 1000);
    let bytes = train.concat();
    let mut done = 0;
    let mut came = 0;
    while done < 20 * bytes.len() {
        let rest = &bytes[done % bytes.len()..];
        done += match from.send(to.local_addr(), rest, 1000) {
            Ok(sent) => sent.bytes,
            Err(error) => error.sent().bytes,
        };
        assert!(done.is_multiple_of(1000), "{done}");
        while to.receive().unwrap() > 0 {
            for datagram in to.datagrams() {
                assert_eq!(datagram.bytes, [3; 1000]);
                came += 1;
            }
        }
    }
    assert!(came > 0);
}

#[test]
fn what_guards_say_to_each_other_nobody_else_sees() {
    let (mut from, mut to) = (open(Some(7), Offload::Auto), open(Some(7), Offload::Auto));
    sent(&mut from, to.local_addr(), &[vec![ECHO; 3]], 3);
    sent(&mut from, to.local_addr(), &[vec![9]], 1);
    assert_eq!(until(&mut to, 9), [[9]]);
    assert_eq!(until(&mut from, 8), [[8]]);
    assert_eq!(to.counters().refused.forged, 0);
}
