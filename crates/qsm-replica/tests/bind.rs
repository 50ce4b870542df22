//! Binding step by step: donors that end, snapshots that are damaged or too long, updates that find no room.

use std::time::Duration;

use qsm_replica::{
    BindError, Cause, Core, Limits, Notice, Order, Output, RestoreError, StateMachine,
};

const TICK: Duration = Duration::from_millis(20);

/// Front of a state that no other replica takes.
const FOREIGN: &[u8] = b"foreign";

/// The updates, as they came.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Bytes(Vec<u8>);

impl StateMachine for Bytes {
    fn apply(&mut self, update: &[u8]) {
        self.0.extend_from_slice(update);
    }
    fn snapshot(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        if snapshot.starts_with(FOREIGN) {
            return Err(RestoreError);
        }
        snapshot.clone_into(&mut self.0);
        Ok(())
    }
}

/// Replicas that hear each other at once.
struct Bed {
    order: Order,
    cores: Vec<Core<Bytes>>,
    dead: Vec<bool>,
    now: Duration,
    notices: Vec<Vec<Notice>>,
    /// Words to one alone: from, length.
    chunks: Vec<(usize, usize)>,
}

impl Bed {
    fn new(size: usize, limits: Limits) -> Self {
        Self::ordered(Order::Source, size, limits)
    }

    fn ordered(order: Order, size: usize, limits: Limits) -> Self {
        let mut bed = Self {
            order,
            cores: Vec::new(),
            dead: Vec::new(),
            now: Duration::ZERO,
            notices: Vec::new(),
            chunks: Vec::new(),
        };
        (0..size).for_each(|_| bed.join(limits));
        bed
    }

    fn join(&mut self, limits: Limits) {
        let seed = self.cores.len() as u64 + 1;
        let state = Bytes::default();
        self.cores
            .push(Core::ordered(state, self.order, limits, seed, self.now));
        self.dead.push(false);
        self.notices.push(Vec::new());
    }

    fn publish(&mut self, from: usize, content: &[u8]) {
        let bytes = self.cores[from].publish(content).unwrap();
        for to in 0..self.cores.len() {
            self.cores[to].update(&bytes, self.now);
        }
    }

    /// One tick; `pass` may change what is said to one alone, or keep it back.
    fn step(&mut self, pass: &mut dyn FnMut(&mut Vec<u8>) -> bool) {
        self.now += TICK;
        let alive = self.dead.iter().filter(|dead| !**dead).count();
        let others = u32::try_from(alive).unwrap() - 1;
        for from in (0..self.cores.len())
            .filter(|id| !self.dead[*id])
            .collect::<Vec<_>>()
        {
            self.cores[from].tick(Some(others), self.now);
            while let Some(output) = self.cores[from].take() {
                self.carry(from, output, pass);
            }
        }
    }

    fn carry(&mut self, from: usize, output: Output, pass: &mut dyn FnMut(&mut Vec<u8>) -> bool) {
        let alive = |id: &usize| !self.dead[*id];
        match output {
            Output::Tell(notice) => self.notices[from].push(notice),
            Output::All(word) => {
                for to in (0..self.cores.len()).filter(alive).collect::<Vec<_>>() {
                    self.cores[to].word(&word, self.now);
                }
            }
            Output::One(address, mut word) => {
                self.chunks.push((from, word.len()));
                let to = (0..self.cores.len()).find(|id| self.cores[*id].address() == address);
                if pass(&mut word) {
                    self.cores[to.unwrap()].word(&word, self.now);
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn until(&mut self, id: usize, pass: &mut dyn FnMut(&mut Vec<u8>) -> bool) {
        for _ in 0..2000 {
            if self.cores[id].is_live() || failure(&self.notices[id]).is_some() {
                return;
            }
            self.step(pass);
        }
        panic!("neither live nor failed");
    }

    /// Two live replicas with a state of so many chunks of 128 KiB.
    fn with_state(chunks: usize) -> Self {
        let mut bed = Self::new(2, Limits::default());
        bed.until(0, &mut |_| true);
        bed.until(1, &mut |_| true);
        (0..chunks).for_each(|_| bed.publish(0, &[1; 128 << 10]));
        bed.chunks.clear();
        bed
    }
}

fn failure(notices: &[Notice]) -> Option<BindError> {
    notices.iter().find_map(|notice| match notice {
        Notice::Failed(error) => Some(*error),
        _ => None,
    })
}

#[test]
fn a_joiner_asks_one_that_does_not_publish_and_goes_on_with_another_where_that_one_ended() {
    let mut bed = Bed::with_state(80);
    bed.join(Limits::default());
    let mut left = 60;
    while left > 0 {
        bed.step(&mut |_| {
            left -= i32::from(left > 0);
            left > 0
        });
    }
    assert!(
        bed.chunks.iter().all(|(from, _)| *from == 1),
        "the first one publishes"
    );
    bed.dead[1] = true;
    bed.chunks.clear();
    bed.until(2, &mut |_| true);
    assert_eq!(bed.cores[2].state(), bed.cores[0].state());
    // 59 had come; the first question to another donor brings 16 of them again.
    let bytes: usize = bed.chunks.iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes < 48 * (130 << 10), "{} chunks", bed.chunks.len());
    let counted = bed.cores[2].stats();
    assert_eq!((counted.taken_snapshots, counted.failed_attempts), (1, 1));
    assert!(counted.asked_again > 0, "{counted}");
    let given = [0, 1].map(|id| bed.cores[id].stats().given_snapshots);
    assert_eq!(
        given,
        [2, 1],
        "the first one gave its state to the second one, too"
    );
}

#[test]
fn damaged_chunks_are_found_and_asked_for_anew() {
    let mut bed = Bed::with_state(3);
    bed.join(Limits::default());
    let mut damaged = 3;
    bed.until(2, &mut |word| {
        if damaged > 0 {
            damaged -= 1;
            *word.last_mut().unwrap() ^= 1;
        }
        true
    });
    assert_eq!(bed.cores[2].state(), bed.cores[0].state());
}

#[test]
fn donors_that_never_answer_end_in_an_error() {
    let mut bed = Bed::with_state(3);
    bed.join(Limits::default().attempts(3));
    bed.until(2, &mut |_| false);
    assert_eq!(failure(&bed.notices[2]), Some(BindError::Attempts));
    assert_eq!(bed.cores[2].stats().failed_attempts, 3);
    bed.join(Limits::default().patience(Duration::from_secs(2)));
    bed.until(3, &mut |_| false);
    assert_eq!(failure(&bed.notices[3]), Some(BindError::Patience));
    bed.join(Limits::default().snapshot_bytes(128 << 10));
    bed.until(4, &mut |_| true);
    assert_eq!(failure(&bed.notices[4]), Some(BindError::TooLong));
}

#[test]
fn a_state_of_another_kind_is_said_to_be_one() {
    let mut bed = Bed::new(1, Limits::default());
    bed.until(0, &mut |_| true);
    bed.publish(0, FOREIGN);
    bed.join(Limits::default().attempts(3));
    bed.until(1, &mut |_| true);
    assert_eq!(failure(&bed.notices[1]), Some(BindError::Foreign));
    assert_eq!(bed.cores[1].stats().failed_attempts, 3);
}

#[test]
fn updates_that_find_no_room_are_in_a_later_snapshot() {
    let mut bed = Bed::with_state(3);
    bed.join(Limits::default().held_bytes(4096));
    // Until the transfer has begun.
    let mut kept_back = 0;
    while kept_back == 0 {
        bed.step(&mut |_| {
            kept_back += 1;
            false
        });
    }
    (0..10_u8).for_each(|update| bed.publish(0, &[update; 1000]));
    bed.until(2, &mut |_| true);
    assert_eq!(bed.cores[2].state(), bed.cores[0].state());
    let counted = bed.cores[2].stats();
    assert_eq!((counted.held, counted.held_bytes), (10, 0));
}

#[test]
fn a_replica_that_missed_something_refuses_updates_until_it_is_bound_again() {
    let mut bed = Bed::with_state(1);
    bed.cores[1].lost(bed.now);
    assert_eq!(bed.cores[1].publish(b"x"), None);
    // It does not see this one as an update, but in its snapshot.
    bed.publish(0, b"y");
    bed.until(1, &mut |_| true);
    assert!(bed.notices[1].contains(&Notice::Rebinds(Cause::Lost)));
    assert_eq!(bed.cores[1].state(), bed.cores[0].state());

    let missed = bed.cores[0].publish(b"a").unwrap();
    bed.cores[0].update(&missed, bed.now);
    bed.publish(0, b"b");
    assert!(!bed.cores[1].is_live());
    bed.until(1, &mut |_| true);
    assert!(bed.notices[1].contains(&Notice::Rebinds(Cause::Hole)));
    assert_eq!(bed.cores[1].state(), bed.cores[0].state());
    let counted = bed.cores[1].stats();
    assert_eq!((counted.binds, counted.rebinds, counted.refused), (3, 2, 1));
}

#[test]
fn a_replica_that_no_number_shows_to_be_behind_finds_it_out() {
    let mut bed = Bed::with_state(1);
    let missed = bed.cores[0].publish(b"a").unwrap();
    bed.cores[0].update(&missed, bed.now);
    for _ in 0..400 {
        bed.step(&mut |_| true);
    }
    assert!(bed.notices[1].contains(&Notice::Rebinds(Cause::Behind)));
    assert_eq!(bed.cores[1].state(), bed.cores[0].state());
}

#[test]
fn if_all_miss_something_the_one_that_has_most_founds_anew() {
    let mut bed = Bed::with_state(1);
    let last = bed.cores[0].publish(b"a").unwrap();
    bed.cores[1].update(&last, bed.now);
    (0..2).for_each(|id| bed.cores[id].lost(bed.now));
    let more = bed.cores[1].state().clone();
    bed.until(0, &mut |_| true);
    assert_eq!(bed.cores[0].state(), &more);
    assert_eq!(bed.cores[0].history(), bed.cores[1].history());
    assert_eq!(bed.cores[0].history().unwrap().generation, 2);
}

#[test]
fn a_member_that_is_silent_is_waited_for_before_somebody_founds() {
    let mut bed = Bed::new(3, Limits::default());
    for _ in 0..200 {
        // The third one is a member and says nothing.
        bed.now += TICK;
        for id in 0..2 {
            bed.cores[id].tick(Some(2), bed.now);
            while let Some(output) = bed.cores[id].take() {
                if let Output::All(word) = output {
                    bed.cores[1 - id].word(&word, bed.now);
                }
            }
        }
    }
    assert!(bed.cores.iter().all(|core| !core.is_live()));
    bed.until(0, &mut |_| true);
}

/// Of a sequencer that keeps 16,384 entries.
#[test]
fn a_joiner_follows_a_sequence_that_went_on_far_while_its_snapshot_came() {
    let mut bed = Bed::ordered(Order::Total, 2, Limits::default());
    (0..2).for_each(|id| bed.until(id, &mut |_| true));
    bed.publish(0, &[7]);
    bed.join(Limits::default());
    let mut kept_back = false;
    while !kept_back {
        bed.step(&mut |_| {
            kept_back = true;
            false
        });
    }
    // For less time than a donor may be silent.
    for _ in 0..20 {
        (0..1000_u16).for_each(|update| bed.publish(0, &update.to_le_bytes()));
        bed.step(&mut |_| false);
    }
    bed.until(2, &mut |_| true);
    (0..5).for_each(|_| bed.step(&mut |_| true));
    assert_eq!(bed.cores[2].updates(), 20_001);
    assert_eq!(bed.cores[2].state(), bed.cores[0].state());
    let rebinds = |notice: &Notice| matches!(notice, Notice::Rebinds(_));
    assert!(!bed.notices[2].iter().any(rebinds), "{:?}", bed.notices[2]);
}
