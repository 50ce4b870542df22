//! Looks at the cluster and at this host, for the page.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use qsm::admin::{MemberState, Reach};
use qsm_console::figures::counted;
use qsm_console::options::NodeOptions;
use qsm_console::passage::Passage;
use qsm_console::table::{Align, Table};
use qsm_dash::{Cluster, Explanation, Look as Sent, Section, Source, Subject};

use super::super::explain::{ServiceWitness, Witness, accounts, site_words, witnesses};
use super::super::look::{self, Here, View};
use super::rows;

/// Time for which a node is watched before it is explained.
const WATCH: Duration = Duration::from_secs(2);

/// Nodes of this host that tell all they know of a group; the others are told by how far they are behind.
const TELLERS_MAX: usize = 3;

/// Sees what `qsm top` and `qsm explain` see.
pub(super) struct Sight {
    node: NodeOptions,
    timeout: Duration,
    here: Mutex<Here>,
}

impl Sight {
    pub(super) fn new(node: &NodeOptions, timeout: Duration) -> Self {
        Self {
            node: node.clone(),
            timeout,
            here: Mutex::new(Here::of_cluster(&node.network.cluster)),
        }
    }
}

impl Source for Sight {
    fn look(&self) -> Sent {
        // Where no service answers, nodes here are not waited for longer.
        let (cluster, here) = thread::scope(|scope| {
            let cluster = scope.spawn(|| look::cluster(&self.node, self.timeout, &View::CLUSTER));
            let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
            let here = here.look();
            (cluster.join(), here)
        });
        let cluster = cluster.unwrap_or_default();
        let point = rows::point(&cluster, &here);
        let lists = Cluster {
            nodes: cluster.nodes.iter().map(rows::node).collect(),
            groups: cluster.groups.iter().map(rows::group).collect(),
            regions: cluster.regions.iter().map(rows::region).collect(),
        };
        Sent {
            cluster: match cluster.trouble {
                None => Ok(lists),
                Some(trouble) => Err(trouble.cause),
            },
            here: here.iter().map(rows::here).collect(),
            point,
        }
    }

    fn explain(&self, subject: &Subject) -> Result<Explanation, String> {
        match subject {
            Subject::Node(name) => {
                let explained = accounts(Some(name), WATCH);
                let (mut accounts, others) = explained.map_err(|failure| failure.cause)?;
                accounts.retain(|account| account.is_of(&self.node.network.cluster));
                if accounts.is_empty() {
                    return Err(others.failure(None, Some(name)).cause);
                }
                let words = accounts.iter().flat_map(|account| account.words());
                Ok(Explanation {
                    sections: words.filter_map(section).collect(),
                    ..Explanation::default()
                })
            }
            Subject::Group(name) => {
                let explained = witnesses(name, None);
                let (mut witnesses, others) = explained.map_err(|failure| failure.cause)?;
                witnesses.retain(|it| it.node.cluster == self.node.network.cluster);
                match witnesses.is_empty() {
                    true => Err(others.failure(Some(name), None).cause),
                    false => Ok(of_group(name, &witnesses)),
                }
            }
        }
    }
}

fn of_group(name: &str, witnesses: &[Witness]) -> Explanation {
    let decided = ServiceWitness::all(name, witnesses.iter().map(|it| &it.node));
    let decided = decided.iter().flat_map(|service| service.words(name));
    let regions = witnesses.iter().flat_map(|it| &it.group.regions);
    let mut numbers: Vec<u32> = regions.clone().map(|region| region.region).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let copied = |member: &&MemberState| matches!(member.reached, Reach::Copies);
    let members = regions.flat_map(|region| &region.members);
    let mut copies: Vec<String> = members
        .filter(copied)
        .map(|member| member.name.clone())
        .collect();
    copies.sort_unstable();
    copies.dedup();
    let publishers = witnesses.iter().filter(|it| it.group.publishes);
    // A publisher knows most.
    let mut tellers: Vec<&Witness> = witnesses.iter().collect();
    tellers.sort_by_key(|it| !it.group.publishes);
    let words = tellers.iter().take(TELLERS_MAX);
    let words = words.flat_map(|witness| witness.words());
    let silent = tellers.len().saturating_sub(TELLERS_MAX);
    let rest = (silent > 0).then(|| {
        let nodes = counted(silent as u64, "more node");
        Passage::Text(format!("{nodes} of this host: `qsm explain` asks all."))
    });
    Explanation {
        sections: lags(witnesses)
            .into_iter()
            .chain(words)
            .chain(rest)
            .chain(decided)
            .chain(site_words(name, witnesses).flatten())
            .filter_map(section)
            .collect(),
        regions: numbers,
        publishers: publishers.map(|it| it.node.name.clone()).collect(),
        copies,
    }
}

/// How far each receiver of this host is behind each sender.
fn lags(witnesses: &[Witness]) -> Vec<Passage> {
    let mut table = Table::new(&[
        ("RECEIVER", Align::Left),
        ("SENDER", Align::Left),
        ("PACKETS BEHIND", Align::Right),
    ]);
    for witness in witnesses.iter().filter(|it| it.group.receives) {
        let regions = witness.group.regions.iter().filter(|region| region.member);
        for stream in regions.flat_map(|region| &region.receiving) {
            let behind = stream.packets.saturating_sub(stream.contiguous);
            table.row([
                witness.node.name.clone(),
                stream.sender.clone(),
                behind.to_string(),
            ]);
        }
    }
    match table.rows().is_empty() {
        true => Vec::new(),
        false => vec![
            Passage::Heading("Receivers on this host".to_owned()),
            Passage::Table(table),
        ],
    }
}

/// A passage for the page, which sets gaps itself.
fn section(passage: Passage) -> Option<Section> {
    Some(match passage {
        Passage::Heading(line) => Section::Heading(line),
        Passage::Text(line) => Section::Text(line.trim().to_owned()),
        Passage::Finding(line) => Section::Finding(line),
        Passage::Gap => return None,
        Passage::Table(table) => {
            let trimmed = |cells: &Vec<String>| {
                let cells = cells.iter().map(|cell| cell.trim().to_owned());
                cells.collect::<Vec<_>>()
            };
            let columns = table.columns().iter();
            Section::Table {
                columns: columns
                    .clone()
                    .map(|(heading, _)| heading.trim().to_owned())
                    .collect(),
                numbers: columns.map(|(_, align)| *align == Align::Right).collect(),
                rows: table.rows().iter().map(trimmed).collect(),
            }
        }
    })
}
