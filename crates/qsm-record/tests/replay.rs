//! A node alone, recorded and replayed; nodes that talk are in the tests of `qsm`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use qsm_proto::{Config, Datagram, Deliver, Delivery, Endpoint, Instant, Seed};
use qsm_record::{
    Audience, Ending, Input, Journal, JournalOptions, Played, ReadError, Recorded, Recording,
    Setup, Stopped, replay,
};
use qsm_wire::NodeId;
use qsm_wire::membership::{QueryKind, Role};

/// A place for a file, which is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("qsm-record-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn options(&self) -> JournalOptions {
        JournalOptions {
            path: self.0.clone(),
            limit_bytes: 1 << 30,
        }
    }

    fn replay(&self) -> Result<Played, ReadError> {
        replay(Recording::open(&self.0)?, &mut Nobody)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

struct Nobody;

impl Deliver for Nobody {
    fn deliver(&mut self, _message: Delivery<'_>) {}
}

impl Audience for Nobody {}

fn setup(seed: u64) -> Setup {
    let mut config = Config::new(NodeId(7), SocketAddr::from(([10, 0, 0, 7], 5)));
    config.service = Some(SocketAddr::from(([10, 0, 0, 1], 4483)));
    Setup {
        version: "test".to_owned(),
        wall_clock: 0,
        config,
        seed: Seed(seed),
        start: Instant(1000),
    }
}

fn recorded(setup: &Setup, options: &JournalOptions) -> Recorded {
    let endpoint = Endpoint::new(setup.config.clone(), setup.seed, setup.start).unwrap();
    let journal = Journal::open(options, setup).unwrap();
    Recorded::new(endpoint, Some(journal))
}

/// Ten seconds of a node that finds no service. Its probes are drawn from its seed.
fn live(node: &mut Recorded) {
    let from = SocketAddr::from(([10, 0, 0, 9], 77));
    let buffer: Arc<[u8]> = vec![5; 3000].into();
    let mut now = Instant(2000);
    node.enter(now, Role::Subscriber, vec!["a".to_owned(), "b".to_owned()]);
    node.query(now, QueryKind::Nodes);
    for round in 0..1000_u32 {
        now = now.after(Duration::from_millis(10));
        node.refill();
        node.handle_datagram(now, from, round.to_le_bytes()[..].into(), &mut Nobody);
        let lent = Datagram::lent(&buffer, 100..1500);
        node.handle_datagram(now, from, lent, &mut Nobody);
        node.note_sojourn(now, Duration::from_micros((round * 10).into()));
        node.set_backlog(now, round % 7 == 0);
        node.note_drops(now, u64::from(round % 3));
        node.handle_timeout(now, &mut Nobody);
        while node.poll_event().is_some() {}
        while node.poll_transmit(now).is_some() {}
        assert_eq!(node.turn(now), None);
    }
    node.move_to(now, from, None);
    node.exit(now, Role::Subscriber, vec!["b".to_owned()]);
    node.close(now);
    node.handle_timeout(now.after(Duration::from_secs(11)), &mut Nobody);
}

fn record(place: &Place, seed: u64) {
    let mut node = recorded(&setup(seed), &place.options());
    live(&mut node);
    node.end().unwrap();
}

#[test]
fn a_recorded_node_replays_to_the_same_outputs() {
    let place = Place::new("same");
    record(&place, 1);
    let played = place.replay().unwrap();
    assert_eq!(played.difference, None);
    assert!(
        matches!(played.end, Some(Ok(Ending::Closed))),
        "{:?}",
        played.end
    );
    assert_eq!(played.datagrams, 2000);
    assert!(played.inputs > 6000, "{}", played.inputs);
    assert!(played.time >= Duration::from_secs(21), "{:?}", played.time);
    assert_eq!(
        played.stats.discard_malformed
            + played.stats.discard_version
            + played.stats.discard_damaged,
        2000
    );
}

#[test]
fn only_this_user_can_read_a_recording() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new("mode");
    record(&place, 1);
    assert_eq!(
        fs::metadata(&place.0).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

/// A file with the start of one recording, and the inputs and outputs of another.
fn mixed(start: &Path, rest: &Path) -> Vec<u8> {
    let split = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        let length = u32::from_le_bytes(bytes[10..14].try_into().unwrap()) as usize;
        let at = 10 + 12 + length;
        (bytes[..at].to_vec(), bytes[at..].to_vec())
    };
    [split(start).0, split(rest).1].concat()
}

#[test]
fn the_first_input_after_which_outputs_differ_is_named() {
    let (one, other) = (Place::new("one"), Place::new("other"));
    record(&one, 1);
    record(&other, 2);
    let mixed = mixed(&one.0, &other.0);
    let played = replay(Recording::new(&mixed[..]).unwrap(), &mut Nobody).unwrap();
    let difference = played.difference.expect("another seed draws other numbers");
    assert!(played.end.is_none());
    assert_ne!(difference.recorded, difference.replayed);
    assert_eq!(difference.input, played.inputs);
    assert!(difference.to_string().contains("to send"), "{difference}");
}

#[test]
fn a_file_that_is_cut_off_replays_up_to_its_last_whole_block() {
    let place = Place::new("cut");
    record(&place, 1);
    let whole = fs::read(&place.0).unwrap();
    let all = replay(Recording::new(&whole[..]).unwrap(), &mut Nobody).unwrap();
    let mut seen = Vec::new();
    for parts in 1..20 {
        let cut = &whole[..whole.len() * parts / 20];
        let played = replay(Recording::new(cut).unwrap(), &mut Nobody).unwrap();
        assert_eq!(played.difference, None, "{parts}");
        assert!(
            matches!(played.end, Some(Ok(Ending::Cut))),
            "{:?}",
            played.end
        );
        seen.push(played.inputs);
    }
    assert!(
        seen.is_sorted() && seen[0] < seen[18] && seen[18] < all.inputs,
        "{seen:?}"
    );
}

#[test]
fn a_damaged_block_is_named_after_all_that_is_before_it() {
    let place = Place::new("damaged");
    record(&place, 1);
    let mut bytes = fs::read(&place.0).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    let played = replay(Recording::new(&bytes[..]).unwrap(), &mut Nobody).unwrap();
    assert!(played.inputs > 0 && played.difference.is_none());
    match played.end {
        Some(Err(ReadError::Damaged { block, offset })) => {
            assert!(block > 0 && offset <= at as u64, "{block} {offset}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn at_its_limit_a_recording_stops_and_says_so_and_the_node_goes_on() {
    let place = Place::new("limit");
    let limit_bytes = 100_000;
    let options = JournalOptions {
        limit_bytes,
        ..place.options()
    };
    let mut node = recorded(&setup(1), &options);
    let mut stopped = Vec::new();
    for round in 0..1000 {
        let now = Instant(0).after(Duration::from_millis(10 * round));
        let datagram = vec![0; 500];
        let from = SocketAddr::from(([10, 0, 0, 9], 77));
        node.handle_datagram(now, from, datagram[..].into(), &mut Nobody);
        stopped.extend(node.turn(now));
    }
    assert_eq!(stopped, [Stopped::Limit { bytes: limit_bytes }]);
    assert_eq!(
        node.stats().discard_version + node.stats().discard_malformed,
        1000
    );
    assert_eq!(node.end(), Ok(()), "it was said before");
    let length = fs::metadata(&place.0).unwrap().len();
    assert!(length <= limit_bytes + 100, "{length}");
    let played = place.replay().unwrap();
    assert!(
        matches!(played.end, Some(Ok(Ending::Limit))),
        "{:?}",
        played.end
    );
    assert_eq!(played.difference, None);
    assert!(played.datagrams > 100 && played.datagrams < 1000);
}

#[test]
fn a_limit_that_is_reached_with_the_last_block_is_said_in_the_file_too() {
    let place = Place::new("last");
    let limit_bytes = 2000;
    let options = JournalOptions {
        limit_bytes,
        ..place.options()
    };
    let mut node = recorded(&setup(1), &options);
    let from = SocketAddr::from(([10, 0, 0, 9], 77));
    node.handle_datagram(Instant(5000), from, [9; 5000][..].into(), &mut Nobody);
    assert_eq!(node.end(), Err(Stopped::Limit { bytes: limit_bytes }));
    let end = place.replay().unwrap().end;
    assert!(matches!(end, Some(Ok(Ending::Limit))), "{end:?}");
}

#[test]
fn a_full_disk_stops_the_recording_and_is_named_with_its_remedy() {
    let options = JournalOptions {
        path: PathBuf::from("/dev/full"),
        limit_bytes: 1 << 30,
    };
    let mut node = recorded(&setup(1), &options);
    let from = SocketAddr::from(([10, 0, 0, 9], 77));
    node.handle_datagram(Instant(5), from, [9][..].into(), &mut Nobody);
    let stopped = node.end().unwrap_err().to_string();
    assert!(
        stopped.contains("No space left") && stopped.contains("free space"),
        "{stopped}"
    );
}

#[test]
fn a_place_that_cannot_be_written_is_refused_with_its_remedy() {
    for (path, remedy) in [
        ("/nowhere/file", "make its folder"),
        ("/tmp", "name a file"),
    ] {
        let options = JournalOptions {
            path: PathBuf::from(path),
            limit_bytes: 1 << 30,
        };
        let error = Journal::open(&options, &setup(1)).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains(remedy), "{error}");
    }
}

/// Notes what it hears of.
#[derive(Default)]
struct Notes(Vec<String>);

impl Deliver for Notes {
    fn deliver(&mut self, _message: Delivery<'_>) {}
}

impl Audience for Notes {
    fn begin(&mut self, number: u64, _now: Instant, input: &Input<'_>) {
        self.0.push(format!("{number}: {input}"));
    }
}

#[test]
fn inputs_are_named_in_their_order() {
    let place = Place::new("names");
    let mut node = recorded(&setup(1), &place.options());
    let now = Instant(5000);
    node.enter(now, Role::Publisher, vec!["a".to_owned()]);
    node.handle_timeout(now, &mut Nobody);
    drop(node);
    let mut notes = Notes::default();
    let played = replay(Recording::open(&place.0).unwrap(), &mut notes).unwrap();
    assert_eq!(played.inputs, 2);
    assert_eq!(
        notes.0,
        ["1: 1 groups are entered as Publisher", "2: timers are due"]
    );
}
