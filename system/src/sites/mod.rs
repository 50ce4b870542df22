//! Trials of relays between sites, with the program `qsm` on hosts of a lab: repairs in time, links that
//! are filled and shared with TCP, relays that are killed, ends that are hard to reach, and the cost of copies.

pub mod capacity;
pub mod fanout;
pub mod kill;
pub mod layout;
pub mod page;
pub mod reach;
pub mod repair;
pub mod router;
pub mod share;
pub mod stage;
pub mod stream;

use std::path::PathBuf;
use std::time::Duration;

use lab::LinkShape;

use crate::cluster::Failure;
use crate::figure::{Figure, Finding, gather};

use self::capacity::Capacity;
use self::fanout::Fanout;
use self::kill::{Kill, Successor};
use self::reach::{Hurdle, Reach};
use self::repair::{Place, Repair};
use self::share::Share;
use self::stream::Load;

/// A part of the promises, by its letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Losses, and the time that their repair takes.
    Repairs,
    /// A long link that loses packets, and how much of it a stream gets.
    Capacity,
    /// A bottleneck that a stream shares with TCP.
    Share,
    /// Relays that are killed.
    Kills,
    /// Ends that are hard to reach.
    Reach,
    /// Cost of a copy, beside other systems.
    Fanout,
}

/// Programs of the trials.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The program `qsm`.
    pub qsm: PathBuf,
    /// The program `nats-server`.
    pub nats: PathBuf,
    /// The folder with `moq-relay` and `moq-copies`.
    pub moq: PathBuf,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Repairs,
        Self::Capacity,
        Self::Share,
        Self::Kills,
        Self::Reach,
        Self::Fanout,
    ];

    /// Its letter.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Repairs => "a",
            Self::Capacity => "b",
            Self::Share => "c",
            Self::Kills => "d",
            Self::Reach => "e",
            Self::Fanout => "f",
        }
    }

    /// Its title.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Repairs => "Repairs",
            Self::Capacity => "Long links with losses",
            Self::Share => "Beside TCP",
            Self::Kills => "Relays that are killed",
            Self::Reach => "Ends that are hard to reach",
            Self::Fanout => "Copies for a hundred receivers",
        }
    }

    /// Its experiments.
    #[must_use]
    pub fn cases(self) -> Vec<Case> {
        match self {
            Self::Repairs => repairs(),
            Self::Capacity => capacities(),
            Self::Share => shares(),
            Self::Kills => kills(),
            Self::Reach => {
                let load = Load {
                    bytes: 200,
                    rate: 100,
                    lasts: Duration::from_secs(4),
                };
                let all = Hurdle::ALL.map(|hurdle| Case::Reach(Reach { hurdle, load }));
                all.into()
            }
            Self::Fanout => {
                let load = Load {
                    bytes: 4096,
                    rate: 100,
                    lasts: Duration::from_secs(6),
                };
                vec![Case::Fanout(Fanout { load })]
            }
        }
    }
}

fn repairs() -> Vec<Case> {
    let load = Load {
        bytes: 200,
        rate: 500,
        lasts: Duration::from_secs(12),
    };
    let places = [Place::LastHop, Place::Link];
    let all = places.map(|place| {
        [2, 3].map(|sites| {
            Case::Repair(Repair {
                sites,
                place,
                loss_ppm: 5000,
                load,
            })
        })
    });
    all.into_iter().flatten().collect()
}

fn capacities() -> Vec<Case> {
    let all = [125_000_000, 12_500_000].map(|rate| {
        let link = LinkShape {
            delay: Duration::from_millis(100),
            loss_ppm: 10_000,
            ..LinkShape::default()
        };
        Case::Capacity(Capacity {
            link: link.with_rate(rate),
            settle: Duration::from_secs(5),
            lasts: Duration::from_secs(5),
        })
    });
    all.into()
}

/// With each control of congestion that this kernel has.
fn shares() -> Vec<Case> {
    let all = ["cubic", "bbr"].map(|congestion| {
        let link = LinkShape {
            delay: Duration::from_millis(20),
            ..LinkShape::default()
        };
        Share {
            congestion,
            link: link.with_rate(2_500_000),
            settle: Duration::from_secs(6),
            lasts: Duration::from_secs(14),
        }
    });
    let possible = all.into_iter().filter(Share::is_possible);
    possible.map(Case::Share).collect()
}

fn kills() -> Vec<Case> {
    let load = Load {
        bytes: 200,
        rate: 100,
        lasts: Duration::from_secs(6),
    };
    let all = [
        (Successor::Restart, 0),
        (Successor::Restart, 1),
        (Successor::SecondParent, 1),
    ];
    let all = all.map(|(successor, site)| {
        Case::Kill(Kill {
            successor,
            site,
            load,
        })
    });
    all.into()
}

/// An experiment with figures that are judged.
#[derive(Debug, Clone, Copy)]
pub enum Case {
    /// Losses.
    Repair(Repair),
    /// A long link.
    Capacity(Capacity),
    /// A shared bottleneck.
    Share(Share),
    /// A relay that is killed.
    Kill(Kill),
    /// Ends that are hard to reach.
    Reach(Reach),
    /// Cost of a copy.
    Fanout(Fanout),
}

impl Case {
    /// Its name within its part.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Repair(of) => of.name(),
            Self::Capacity(of) => of.name(),
            Self::Share(of) => of.name(),
            Self::Kill(of) => of.name(),
            Self::Reach(of) => of.name(),
            Self::Fanout(of) => of.name(),
        }
    }

    /// Runs it so many times with these programs; runs that do not count are made again.
    ///
    /// # Errors
    /// A process fails, or the machine's host is busy.
    pub fn run(&self, programs: &Programs, runs: usize) -> Result<Vec<Figure>, Failure> {
        gather(runs, || self.run_once(programs))
    }

    /// Runs it once.
    ///
    /// # Errors
    /// A process fails.
    pub fn run_once(&self, programs: &Programs) -> Result<Vec<Finding>, Failure> {
        let program = &programs.qsm;
        match self {
            Self::Repair(of) => of.run(program),
            Self::Capacity(of) => of.run(program),
            Self::Share(of) => of.run(program),
            Self::Kill(of) => of.run(program),
            Self::Reach(of) => of.run(program),
            Self::Fanout(of) => of.run(programs),
        }
    }
}
