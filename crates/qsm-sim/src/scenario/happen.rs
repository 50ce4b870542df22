use core::time::Duration;

use super::parse::ROLES;
use super::words::{Words, Wrong};
use crate::faults::{Fault, Garbage};
use crate::options::SimOptions;
use crate::workload::Churn;

/// What stands behind `at` and a time.
#[derive(Debug)]
pub(super) enum Happens {
    Fault(Fault),
    Churn(Churn),
}

const VERBS: [(&str, Verb); 20] = [
    ("crash", Verb::Crash),
    ("restart", Verb::Restart),
    ("close", Verb::Close),
    ("freeze", Verb::Freeze),
    ("sleep", Verb::Sleep),
    ("slow", Verb::Slow),
    ("full", Verb::Full),
    ("read", Verb::Read),
    ("split", Verb::Split),
    ("cut", Verb::Cut),
    ("heal", Verb::Heal),
    ("clog", Verb::Clog),
    ("filter", Verb::Filter),
    ("narrow", Verb::Narrow),
    ("outage", Verb::Outage),
    ("doom", Verb::Doom),
    ("foreign", Verb::Foreign),
    ("garbage", Verb::Garbage),
    ("enter", Verb::Enter),
    ("exit", Verb::Exit),
];

#[derive(Debug, Clone, Copy)]
enum Verb {
    Crash,
    Restart,
    Close,
    Freeze,
    Sleep,
    Slow,
    Full,
    Read,
    Split,
    Cut,
    Heal,
    Clog,
    Filter,
    Narrow,
    Outage,
    Doom,
    Foreign,
    Garbage,
    Enter,
    Exit,
}

pub(super) fn happens(words: &mut Words<'_>, options: &SimOptions) -> Result<Happens, Wrong> {
    let nodes = options.nodes;
    let fault = match words.choice("what happens", &VERBS)? {
        Verb::Enter => return churn(words, options, true),
        Verb::Exit => return churn(words, options, false),
        Verb::Crash => Fault::Crash {
            host: words.host(nodes)?,
        },
        Verb::Close => Fault::Close {
            host: words.host(nodes)?,
        },
        Verb::Restart => Fault::Restart {
            host: words.host(nodes)?,
            same_node: words.choice("as whom", &[("same-node", true), ("new-node", false)])?,
        },
        Verb::Freeze => Fault::Freeze {
            host: words.host(nodes)?,
            time: words.time("for how long")?,
        },
        Verb::Sleep => Fault::Sleep {
            host: words.host(nodes)?,
            time: words.time("for how long")?,
        },
        Verb::Slow => Fault::Slow {
            host: words.host(nodes)?,
            per_datagram: words.time("time per datagram")?,
            time: words.time("for how long")?,
        },
        Verb::Full => application(words, nodes, false)?,
        Verb::Read => application(words, nodes, true)?,
        Verb::Split => split(words.hosts("from", nodes)?, words.hosts("", nodes)?, true),
        Verb::Cut => split(words.hosts("to", nodes)?, words.hosts("", nodes)?, false),
        Verb::Heal => Fault::Heal,
        Verb::Clog => {
            let (time, from, to) = obstruction(words, nodes)?;
            Fault::Clog { from, to, time }
        }
        Verb::Filter => {
            let (time, from, to) = obstruction(words, nodes)?;
            Fault::Filter { from, to, time }
        }
        Verb::Narrow => {
            let bytes = words.bounded("the largest datagram in bytes", 0..=65_000)?;
            Fault::Narrow {
                bytes: usize::try_from(bytes).unwrap_or(0),
                time: words.time("for how long")?,
            }
        }
        Verb::Outage => {
            let network = words.bounded("the network's number", 1..=2)?;
            Fault::Outage {
                network: usize::from(network == 2),
                time: words.time("for how long")?,
            }
        }
        Verb::Doom => Fault::Doom {
            host: words.host(nodes)?,
            packets: words.number("how many packets")?,
        },
        Verb::Foreign => foreign(words, nodes)?,
        Verb::Garbage => Fault::Garbage {
            kind: words.choice(
                "a kind of garbage",
                &Garbage::ALL.map(|kind| (kind.name(), kind)),
            )?,
            host: words.host(nodes)?,
            count: words.number("how many datagrams")?,
        },
    };
    Ok(Happens::Fault(fault))
}

fn foreign(words: &mut Words<'_>, nodes: usize) -> Result<Fault, Wrong> {
    let host = words.host(nodes)?;
    Ok(Fault::Foreign { host })
}

/// How long something is held back, from which hosts, and to which.
fn obstruction(
    words: &mut Words<'_>,
    nodes: usize,
) -> Result<(Duration, Vec<usize>, Vec<usize>), Wrong> {
    let time = words.time("for how long")?;
    Ok((time, words.hosts("to", nodes)?, words.hosts("", nodes)?))
}

/// An application reads no more, or again.
fn application(words: &mut Words<'_>, nodes: usize, reads: bool) -> Result<Fault, Wrong> {
    let host = words.host(nodes)?;
    Ok(match reads {
        true => Fault::Read { host },
        false => Fault::Full { host },
    })
}

fn split(from: Vec<usize>, to: Vec<usize>, both_ways: bool) -> Fault {
    Fault::Split {
        from,
        to,
        both_ways,
    }
}

fn churn(words: &mut Words<'_>, options: &SimOptions, enter: bool) -> Result<Happens, Wrong> {
    let host = words.host(options.nodes)?;
    let plan = options.host(host);
    if plan.is_service() {
        return Err(words.wrong("a membership service enters no groups; expected a node"));
    }
    if !plan.is_node() {
        return Err(words.wrong("an observer enters no groups; expected a node"));
    }
    Ok(Happens::Churn(Churn {
        host,
        group: words.named("group")?,
        role: words.choice("a role", &ROLES)?,
        enter,
    }))
}
