//! A service at three nodes that share their accounts. The third one joins while the others book, and has the same.
//! `cargo run -p qsm-replica --example ledger`

use std::collections::BTreeMap;
use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::{Builder, Node};
use qsm_replica::{Limits, Replica, RestoreError, StateMachine};

const PATIENCE: Duration = Duration::from_secs(60);

/// Accounts and what is on them. Bookings commute: an amount is added.
#[derive(Default)]
struct Ledger {
    accounts: BTreeMap<u32, i64>,
}

/// An update: the account, and what is added.
fn booking(account: u32, amount: i64) -> Vec<u8> {
    [&account.to_le_bytes()[..], &amount.to_le_bytes()[..]].concat()
}

fn parse(bytes: &[u8]) -> Option<(u32, i64)> {
    let (account, amount) = bytes.split_first_chunk::<4>()?;
    let amount = i64::from_le_bytes(amount.try_into().ok()?);
    Some((u32::from_le_bytes(*account), amount))
}

impl StateMachine for Ledger {
    fn apply(&mut self, update: &[u8]) {
        // All replicas pass over the same nonsense.
        if let Some((account, amount)) = parse(update) {
            *self.accounts.entry(account).or_default() += amount;
        }
    }

    fn snapshot(&self, out: &mut Vec<u8>) {
        for (account, amount) in &self.accounts {
            out.extend_from_slice(&booking(*account, *amount));
        }
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let entries = snapshot.chunks(12).map(parse).collect::<Option<_>>();
        self.accounts = entries.ok_or(RestoreError)?;
        Ok(())
    }
}

fn member(builder: &Builder, name: &str) -> Result<(Node, Replica<Ledger>), Box<dyn Error>> {
    let node = builder.clone().name(name).start()?;
    let replica = Replica::join(&node, "ledger", Ledger::default(), Limits::default())?;
    replica.wait_live(PATIENCE)?;
    Ok((node, replica))
}

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("ledger-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let (_first, alpha) = member(&builder, "alpha")?;
    let (_second, beta) = member(&builder, "beta")?;
    for amount in 1..=100 {
        alpha.update(&booking(1, amount))?;
        beta.update(&booking(2, -amount))?;
    }
    let (_third, gamma) = member(&builder, "gamma")?;
    gamma.update(&booking(1, 1000))?;

    for (name, replica) in [("alpha", &alpha), ("beta", &beta), ("gamma", &gamma)] {
        replica.wait_updates(201, PATIENCE)?;
        println!(
            "{name}: {:?}",
            replica.read(|ledger| ledger.accounts.clone())
        );
    }
    Ok(())
}
