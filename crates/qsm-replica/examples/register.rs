//! Three members count in one register by compare-and-set, which does not commute: who read an old version changes
//! nothing, and tries again. None of their steps is lost, and all have the same register.
//! `cargo run -p qsm-replica --example register`

use std::error::Error;
use std::process;
use std::thread;
use std::time::Duration;

use qsm::{Builder, Node};
use qsm_replica::{Limits, Order, Replica, RestoreError, StateMachine};

const PATIENCE: Duration = Duration::from_secs(60);
const STEPS: usize = 20;
const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// A number with its version, and how often each member has changed it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Register {
    version: u64,
    value: u64,
    steps: [u64; NAMES.len()],
}

impl Register {
    fn numbers(&self) -> impl Iterator<Item = u64> {
        [self.version, self.value].into_iter().chain(self.steps)
    }
}

/// An update: if the register has this version, member `who` sets it to this value.
fn change(version: u64, value: u64, who: usize) -> Vec<u8> {
    let numbers = [version, value, who as u64];
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

fn parse(bytes: &[u8]) -> Vec<u64> {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers.iter().copied().map(u64::from_le_bytes).collect()
}

impl StateMachine for Register {
    fn apply(&mut self, update: &[u8]) {
        let [version, value, who] = parse(update)[..] else {
            return;
        };
        let steps = self.steps.iter_mut().zip(0..).find(|(_, of)| *of == who);
        if let (Some((steps, _)), true) = (steps, self.version == version) {
            (self.version, self.value) = (version + 1, value);
            *steps += 1;
        }
    }

    fn snapshot(&self, out: &mut Vec<u8>) {
        out.extend(self.numbers().flat_map(u64::to_le_bytes));
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let [version, value, ref steps @ ..] = parse(snapshot)[..] else {
            return Err(RestoreError);
        };
        let steps = steps.try_into().map_err(|_| RestoreError)?;
        *self = Self {
            version,
            value,
            steps,
        };
        Ok(())
    }

    fn digest(&self) -> Option<u64> {
        Some(self.numbers().fold(0, |hash, number| {
            (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }))
    }
}

type Failure = Box<dyn Error + Send + Sync>;

fn member(builder: &Builder, name: &str) -> Result<(Node, Replica<Register>), Failure> {
    let node = builder.clone().name(name).start()?;
    let (state, limits) = (Register::default(), Limits::default());
    let replica = Replica::join_in_order(&node, "register", state, Order::Total, limits)?;
    replica.wait_live(PATIENCE)?;
    Ok((node, replica))
}

/// Adds one until that was done as often as it should.
fn count(replica: &Replica<Register>, who: usize) -> Result<(), Failure> {
    loop {
        let seen = replica.read(Register::clone);
        if seen
            .steps
            .get(who)
            .is_none_or(|steps| *steps == STEPS as u64)
        {
            return Ok(());
        }
        replica.update(&change(seen.version, seen.value + 1, who))?;
        // Another version is there then: this one's or that of whoever was first.
        let other = |state: &Register| (state.version > seen.version).then_some(());
        let found = replica.wait_for(PATIENCE, other)?;
        found.ok_or("the update was not applied in time")?;
    }
}

fn main() -> Result<(), Failure> {
    let cluster = format!("register-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let members: Vec<_> = NAMES
        .iter()
        .map(|name| member(&builder, name))
        .collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (who, (_, replica)) in members.iter().enumerate() {
            threads.push(scope.spawn(move || count(replica, who)));
        }
        threads.into_iter().try_for_each(|thread| {
            let done = thread.join();
            done.unwrap_or_else(|_| Err("a thread has ended early".into()))
        })
    })?;
    let all = (STEPS * NAMES.len()) as u64;
    for (name, (_, replica)) in NAMES.iter().zip(&members) {
        let there = |state: &Register| (state.value == all).then(|| state.clone());
        let register = replica.wait_for(PATIENCE, there)?;
        println!("{name}: {:?}", register.map(|it| it.value));
    }
    Ok(())
}
