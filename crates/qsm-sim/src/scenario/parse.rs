use core::time::Duration;
use std::str::SplitWhitespace;

use qsm_proto::Seed;
use qsm_wire::membership::Role;

use super::{Expectation, Relation, Scenario, ScenarioError};
use crate::content::Sizes;
use crate::faults::{Fault, Garbage};
use crate::network::Burst;
use crate::options::SimOptions;
use crate::pattern::GroupPlan;
use crate::workload::{Churn, Flow};

type Reason = String;

pub(super) fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    let mut options = SimOptions::quiet(Seed(1), 3);
    options.groups.clear();
    options.flows.clear();
    let mut scenario = Scenario {
        options,
        expectations: Vec::new(),
    };
    for (index, line) in text.lines().enumerate() {
        let statement = line.split('#').next().unwrap_or_default();
        let mut words = Words(statement.split_whitespace());
        scenario
            .statement(&mut words)
            .map_err(|reason| ScenarioError {
                line: index + 1,
                reason,
            })?;
    }
    let options = &mut scenario.options;
    let quiet = SimOptions::quiet(Seed(1), options.nodes);
    if options.groups.is_empty() {
        options.groups = quiet.groups;
    }
    if options.flows.is_empty() && !text.lines().any(|line| line.trim() == "no-flows") {
        options.flows = quiet.flows;
    }
    options.faults.sort_by_key(|fault| fault.0);
    options.churn.sort_by_key(|churn| churn.0);
    Ok(scenario)
}

struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, Reason> {
        self.0.next().ok_or_else(|| format!("{what} is missing"))
    }

    fn word(&mut self, expected: &str) -> Result<(), Reason> {
        match self.next(expected)? {
            word if word == expected => Ok(()),
            word => Err(format!("expected `{expected}`, found `{word}`")),
        }
    }

    fn number<T: core::str::FromStr>(&mut self, what: &str) -> Result<T, Reason> {
        let word = self.next(what)?;
        word.parse()
            .map_err(|_| format!("{what} is not a number: `{word}`"))
    }

    /// `name number` in a fixed order.
    fn named<T: core::str::FromStr>(&mut self, name: &str) -> Result<T, Reason> {
        self.word(name)?;
        self.number(name)
    }

    fn time(&mut self, what: &str) -> Result<Duration, Reason> {
        let word = self.next(what)?;
        let units = [
            ("ns", 1),
            ("us", 1000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
        ];
        let found = units.into_iter().find_map(|(unit, ns)| {
            let count: u64 = word.strip_suffix(unit)?.parse().ok()?;
            Some(Duration::from_nanos(count.checked_mul(ns)?))
        });
        found.ok_or_else(|| format!("{what} is not a time such as 20ms, 3s or 50us: `{word}`"))
    }

    /// Per cent with up to four decimals, as parts per million.
    fn percent(&mut self, what: &str) -> Result<u32, Reason> {
        let word = self.next(what)?;
        let ppm = || {
            let (whole, part) = match word.strip_suffix('%')?.split_once('.') {
                Some((whole, part)) => (whole, part),
                None => (word.strip_suffix('%')?, ""),
            };
            let decimals: u32 = format!("{part:0<4}")
                .parse()
                .ok()
                .filter(|_| part.len() <= 4)?;
            whole
                .parse::<u32>()
                .ok()?
                .checked_mul(10_000)?
                .checked_add(decimals)
        };
        ppm().ok_or_else(|| format!("{what} is no percentage such as 5% or 0.1%: `{word}`"))
    }

    fn hosts(&mut self, until: &str, nodes: usize) -> Result<Vec<usize>, Reason> {
        let mut hosts = Vec::new();
        for word in self.0.by_ref() {
            if word == until {
                break;
            }
            hosts.push(host(word, nodes)?);
        }
        Ok(hosts)
    }

    fn host(&mut self, nodes: usize) -> Result<usize, Reason> {
        host(self.next("host")?, nodes)
    }
}

fn host(word: &str, nodes: usize) -> Result<usize, Reason> {
    let number = word.parse().ok().filter(|host| *host <= nodes);
    number.ok_or_else(|| format!("`{word}` is no host from 0 to {nodes}"))
}

impl Scenario {
    fn statement(&mut self, words: &mut Words<'_>) -> Result<(), Reason> {
        let Some(verb) = words.0.next() else {
            return Ok(());
        };
        let options = &mut self.options;
        match verb {
            "seed" => options.seed = words.number("seed")?,
            "nodes" => options.nodes = words.number("nodes")?,
            "duration" => options.duration = words.time("duration")?,
            "settle" => options.settle = words.time("settle")?,
            "drift" => options.drift_ppm_max = words.number("drift")?,
            "sizes" => {
                options.sizes = match words.next("sizes")? {
                    "mix" => Sizes::MIX,
                    "small" => Sizes::SMALL,
                    other => return Err(format!("sizes are `mix` or `small`, not `{other}`")),
                };
            }
            "group" => {
                words.word("members")?;
                let plan = GroupPlan {
                    subscribers: words
                        .hosts("publishers", options.nodes)?
                        .into_iter()
                        .collect(),
                    publishers: words.hosts("", options.nodes)?.into_iter().collect(),
                };
                options.groups.push(plan);
            }
            "flow" => options.flows.push(flow(words)?),
            "no-flows" => {}
            "network" => network(options, words)?,
            "layout" => {
                options.layout.replication = words.named("replication")?;
                options.layout.block_packets = words.named("block")?;
                options.layout.ring_max = words.named("ring")?;
            }
            "limits" => {
                options.limits.send_bytes = words.named("send")?;
                options.limits.receive_bytes = words.named("receive")?;
                options.limits.ahead_packets = words.named("ahead")?;
            }
            "token-plane-only" => options.recovery.fast = false,
            "faithful-rate" => options.pace.faithful_rate = true,
            "rate-max" => options.pace.rate_max_packets = words.number("rate-max")?,
            "batch-delay" => options.pace.batch_delay = words.time("batch-delay")?,
            "at" => at(options, words)?,
            "expect" => self.expectations.push(expectation(words)?),
            other => return Err(format!("`{other}` is no statement")),
        }
        match words.0.next() {
            Some(word) => Err(format!("`{word}` is too much")),
            None => Ok(()),
        }
    }
}

fn flow(words: &mut Words<'_>) -> Result<Flow, Reason> {
    let (host, group) = (words.named("host")?, words.named("group")?);
    words.word("start")?;
    let start = words.time("start")?;
    words.word("interval")?;
    Ok(Flow {
        host,
        group,
        start,
        interval: words.time("interval")?,
        burst: words.named("burst")?,
        messages: words.named("messages")?,
    })
}

fn network(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Reason> {
    let network = &mut options.network;
    match words.next("property of the network")? {
        "loss" => network.loss_ppm = words.percent("loss")?,
        "shared-loss" => network.shared_loss_ppm = words.percent("shared-loss")?,
        "duplicates" => network.duplicate_ppm = words.percent("duplicates")?,
        "lag-chance" => network.membership_lag_ppm = words.percent("lag-chance")?,
        "delay" => network.delay = words.time("delay")?,
        "jitter" => network.jitter = words.time("jitter")?,
        "cpu" => network.cpu_per_datagram = words.time("cpu")?,
        "join" => network.join_latency = words.time("join")?,
        "leave" => network.leave_latency = words.time("leave")?,
        "lag" => network.membership_lag = words.time("lag")?,
        "mtu" => network.mtu_bytes = words.number("mtu")?,
        "buffer" => network.receive_buffer_bytes = words.number("buffer")?,
        "uplink" => network.uplink_bits_per_second = words.number("uplink")?,
        "loopback" => network.loopback = true,
        "burst" => {
            network.burst = Some(Burst {
                enter_ppm: words.percent("chance to begin")?,
                exit_ppm: words.percent("chance to end")?,
                loss_ppm: words.percent("loss")?,
            });
        }
        other => return Err(format!("the network has no `{other}`")),
    }
    Ok(())
}

fn at(options: &mut SimOptions, words: &mut Words<'_>) -> Result<(), Reason> {
    let when = words.time("time")?;
    let nodes = options.nodes;
    let fault = match words.next("what happens")? {
        verb @ ("enter" | "exit") => {
            let host = words.host(nodes)?;
            let group = words.named("group")?;
            let role = match words.next("role")? {
                "subscriber" => Role::Subscriber,
                "publisher" => Role::Publisher,
                other => return Err(format!("`{other}` is neither subscriber nor publisher")),
            };
            let enter = verb == "enter";
            let churn = Churn {
                host,
                group,
                role,
                enter,
            };
            options.churn.push((when, churn));
            return Ok(());
        }
        verb => fault(verb, nodes, words)?,
    };
    options.faults.push((when, fault));
    Ok(())
}

fn fault(verb: &str, nodes: usize, words: &mut Words<'_>) -> Result<Fault, Reason> {
    Ok(match verb {
        "crash" => Fault::Crash {
            host: words.host(nodes)?,
        },
        "close" => Fault::Close {
            host: words.host(nodes)?,
        },
        "restart" => Fault::Restart {
            host: words.host(nodes)?,
            same_node: match words.next("same-node or new-node")? {
                "same-node" => true,
                "new-node" => false,
                other => return Err(format!("expected same-node or new-node, not `{other}`")),
            },
        },
        "freeze" => Fault::Freeze {
            host: words.host(nodes)?,
            time: words.time("time")?,
        },
        "split" => Fault::Split {
            from: words.hosts("from", nodes)?,
            to: words.hosts("", nodes)?,
            both_ways: true,
        },
        "cut" => Fault::Split {
            from: words.hosts("to", nodes)?,
            to: words.hosts("", nodes)?,
            both_ways: false,
        },
        "heal" => Fault::Heal,
        "doom" => Fault::Doom {
            host: words.host(nodes)?,
            packets: words.number("packets")?,
        },
        "garbage" => Fault::Garbage {
            kind: garbage(words.next("kind of garbage")?)?,
            host: words.host(nodes)?,
            count: words.number("count")?,
        },
        other => return Err(format!("`{other}` is nothing that can happen")),
    })
}

fn garbage(word: &str) -> Result<Garbage, Reason> {
    let kind = Garbage::ALL.into_iter().find(|kind| kind.name() == word);
    kind.ok_or_else(|| {
        let names = Garbage::ALL.map(Garbage::name).join(", ");
        format!("`{word}` is no kind of garbage; there are {names}")
    })
}

fn expectation(words: &mut Words<'_>) -> Result<Expectation, Reason> {
    Ok(Expectation {
        counter: words.next("counter")?.to_owned(),
        relation: match words.next("relation")? {
            ">=" => Relation::AtLeast,
            "<=" => Relation::AtMost,
            "=" => Relation::Equal,
            other => return Err(format!("`{other}` is none of >=, <=, =")),
        },
        value: words.number("number")?,
    })
}
