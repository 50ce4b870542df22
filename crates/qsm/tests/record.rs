//! A node that was recorded replays to the deliveries that its application had, byte for byte.

mod common;

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, Place, Site, admitted};
use qsm::{ErrorCode, Event, FaultConfig, Origin, RecordingEnd, Subscription};
use qsm_proto::{Deliver, Delivery};
use qsm_record::{Audience, Ending, Played, Recording, replay};
use qsm_wire::GroupId;

/// A message as an application has it.
type Heard = (String, Origin, u64, Vec<u8>);

/// Notes what is delivered.
#[derive(Default)]
struct Listener {
    names: Vec<(GroupId, String)>,
    heard: Vec<Heard>,
}

impl Deliver for Listener {
    fn deliver(&mut self, message: Delivery<'_>) {
        let of = |(group, _): &&(GroupId, String)| *group == message.group;
        let name = self
            .names
            .iter()
            .rev()
            .find(of)
            .map(|(_, name)| name.clone());
        let name = name.expect("a group has its name first");
        let bytes = message.bytes.to_vec();
        self.heard
            .push((name, message.sender, message.number, bytes));
    }

    fn name_group(&mut self, group: GroupId, name: &str) {
        self.names.push((group, name.to_owned()));
    }
}

impl Audience for Listener {}

fn replayed(path: &Path) -> (Played, Vec<Heard>) {
    let mut listener = Listener::default();
    let played = replay(Recording::open(path).unwrap(), &mut listener).unwrap();
    (played, listener.heard)
}

fn assert_same(played: &Played) {
    assert_eq!(played.difference, None);
    assert!(
        matches!(played.end, Some(Ok(Ending::Closed))),
        "{:?}",
        played.end
    );
}

fn receive(subscription: &Subscription, heard: &mut Vec<Heard>) {
    while let Ok(Some(message)) = subscription.recv_timeout(Duration::ZERO) {
        let message = message.into_message().expect("nothing is lost");
        heard.push((
            message.group().to_owned(),
            message.sender(),
            message.number(),
            message.bytes().to_vec(),
        ));
    }
}

/// Two publishers and a receiver of both that loses one datagram in twenty, for so long; recorded are
/// the receiver, and one of the publishers, which loses as many.
fn under_loss(time: Duration) {
    let (site, place, sender_place) = (Site::new(), Place::new(), Place::new());
    let service = site.first("service");
    let loss = |seed| {
        site.network().fault(FaultConfig {
            seed,
            loss_ppm: 50_000,
            ..FaultConfig::default()
        })
    };
    let recorded =
        |name, path: PathBuf, seed| admitted(site.builder(name).network(loss(seed)).record(path));
    let (receiver_file, sender_file) = (place.path(), sender_place.path());
    let receiver = recorded("receiver", receiver_file.clone(), 1);
    let sender = recorded("sender", sender_file.clone(), 2);
    let subscription = receiver.subscribe(["a", "b"]).unwrap();
    let publishers = [
        sender.publisher("a").unwrap(),
        service.publisher("b").unwrap(),
    ];
    for publisher in &publishers {
        publisher.wait_for_members(1, PATIENCE).unwrap();
    }
    let (start, mut heard, mut sent) = (Instant::now(), Vec::new(), 0_u64);
    while start.elapsed() < time {
        for publisher in &publishers {
            // Several in a packet, one, and one in several packets.
            for length in [10, 100, 1000, 30_000] {
                let mut message = vec![(sent % 251) as u8; length];
                message[..8].copy_from_slice(&sent.to_le_bytes());
                publisher.send(&message).unwrap();
                sent += 1;
            }
        }
        receive(&subscription, &mut heard);
        thread::sleep(Duration::from_millis(8));
    }
    for node in [&sender, &service] {
        node.flush(PATIENCE).unwrap();
    }
    receive(&subscription, &mut heard);
    assert_eq!(heard.len() as u64, sent);
    for node in [receiver, sender, service] {
        node.shutdown(PATIENCE).unwrap();
    }
    let (played, deliveries) = replayed(&receiver_file);
    assert_same(&played);
    assert!(deliveries == heard, "the application heard something else");
    assert_eq!(played.delivered, sent);
    assert!(played.stats.naks_sent > 0, "nothing was repaired");
    assert!(played.time >= time);
    let (played, deliveries) = replayed(&sender_file);
    assert_same(&played);
    assert_eq!((played.published, deliveries.len()), (sent / 2, 0));
}

#[test]
fn a_node_that_loses_one_datagram_in_twenty_replays_to_the_same_deliveries() {
    under_loss(Duration::from_secs(2));
}

/// `make replay`.
#[test]
#[ignore = "takes a minute"]
fn a_minute_under_loss_replays_to_the_same_deliveries() {
    under_loss(Duration::from_secs(60));
}

#[test]
fn each_core_of_a_node_has_a_recording_of_its_own() {
    let (site, place) = (Site::new(), Place::new());
    let file = place.path();
    let node = site.builder("all").record(file.clone()).cores(2);
    let node = admitted(node.embedded_service(qsm::Embedded::Always));
    let groups: Vec<String> = (0..8).map(|number| format!("group{number}")).collect();
    // Its own messages come to it as well, by way of the core that publishes them.
    let subscription = node.subscribe(&groups).unwrap();
    for group in &groups {
        node.publisher(group)
            .unwrap()
            .send(group.as_bytes())
            .unwrap();
    }
    let mut heard = Vec::new();
    while heard.len() < groups.len() {
        receive(&subscription, &mut heard);
    }
    node.shutdown(PATIENCE).unwrap();
    let second = place.path().with_file_name("engine.2");
    let mut replayed = [file, second].map(|file| {
        let (played, deliveries) = replayed(&file);
        assert_same(&played);
        assert!(!deliveries.is_empty(), "all groups are of one core");
        deliveries
    });
    let mut all: Vec<Heard> = replayed.iter_mut().flat_map(core::mem::take).collect();
    all.sort();
    heard.sort();
    assert_eq!(all, heard);
}

#[test]
fn a_recording_has_the_input_during_which_the_application_panicked() {
    let (site, place) = (Site::new(), Place::new());
    let (service, file) = (site.first("service"), place.path());
    let node = admitted(site.builder("panics").record(file.clone()));
    let (heard, hears) = channel();
    let _upcalls = node
        .group("x")
        .subscribe_with(move |delivery: qsm::Delivery<'_>| {
            if let Some(message) = delivery.message() {
                heard.send(message.bytes.to_vec()).unwrap();
                assert_ne!(message.bytes, b"bang", "as it should");
            }
        })
        .unwrap();
    let publisher = service.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for message in ["first", "bang"] {
        publisher.send(message.as_bytes()).unwrap();
        assert_eq!(hears.recv_timeout(PATIENCE).unwrap(), message.as_bytes());
    }
    // It ends with the core thread, which writes the file before.
    while node.closed().is_none() {}
    drop(node);
    let (played, deliveries) = replayed(&file);
    assert_same(&played);
    let bytes: Vec<_> = deliveries.iter().map(|(.., bytes)| &bytes[..]).collect();
    assert_eq!(bytes, [&b"first"[..], b"bang"]);
}

#[test]
fn a_node_goes_on_when_its_recording_has_reached_the_limit_and_says_so() {
    let (site, place) = (Site::new(), Place::new());
    let (service, file) = (site.first("service"), place.path());
    let builder = site.builder("limited").record(file.clone());
    let node = admitted(builder.record_limit(100_000));
    let events = node.events();
    let subscription = node.subscribe(["x"]).unwrap();
    let publisher = service.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let mut heard = Vec::new();
    let (path, reason) = loop {
        publisher.send(&[7; 1000]).unwrap();
        receive(&subscription, &mut heard);
        if let Ok(Some(Event::RecordingStopped { path, reason })) = events.try_recv() {
            break (path, reason);
        }
    };
    assert_eq!(
        (path, reason),
        (file.clone(), RecordingEnd::Limit { bytes: 100_000 })
    );
    let before = heard.len();
    while heard.len() < before + 10 {
        publisher.send(&[8; 1000]).unwrap();
        receive(&subscription, &mut heard);
    }
    node.shutdown(PATIENCE).unwrap();
    let (played, deliveries) = replayed(&file);
    assert_eq!(played.difference, None);
    assert!(
        matches!(played.end, Some(Ok(Ending::Limit))),
        "{:?}",
        played.end
    );
    assert!(heard.starts_with(&deliveries));
}

#[test]
fn a_node_whose_recording_cannot_be_written_does_not_start() {
    let site = Site::new();
    let error = site
        .builder("x")
        .record("/nowhere/file")
        .start()
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::StartRecording);
    assert!(error.to_string().contains("/nowhere/file"), "{error}");
}
