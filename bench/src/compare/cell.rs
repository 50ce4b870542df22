//! What is asked of every system: the axes and their cells.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What varies along an axis of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Axis {
    /// Bytes of a message.
    Payload,
    /// Receivers.
    Receivers,
    /// Groups.
    Groups,
    /// Senders.
    Senders,
    /// Latency at a fixed rate.
    Latency,
    /// Loss, independent per packet, at each receiver.
    Loss,
    /// Receivers, where nothing may be sent by multicast.
    Unicast,
}

impl Axis {
    pub(crate) const ALL: [Self; 7] = [
        Self::Payload,
        Self::Receivers,
        Self::Groups,
        Self::Senders,
        Self::Latency,
        Self::Loss,
        Self::Unicast,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Receivers => "receivers",
            Self::Groups => "groups",
            Self::Senders => "senders",
            Self::Latency => "latency",
            Self::Loss => "loss",
            Self::Unicast => "unicast",
        }
    }
}

/// One thing asked of every system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) axis: Axis,
    /// Bytes of a message.
    pub(crate) payload: usize,
    pub(crate) receivers: usize,
    pub(crate) groups: usize,
    pub(crate) senders: usize,
    /// Packets lost in a million, independently at each receiver.
    pub(crate) loss_ppm: u32,
}

/// Messages per second where latency is measured.
pub(crate) const LATENCY_RATE: u64 = 10_000;

impl Cell {
    fn new(axis: Axis) -> Self {
        Self {
            axis,
            payload: 100,
            receivers: if axis == Axis::Loss { 4 } else { 2 },
            groups: 1,
            senders: 1,
            loss_ppm: 0,
        }
    }

    /// Is the highest rate measured?
    pub(crate) fn floods(self) -> bool {
        self.axis != Axis::Latency
    }

    /// Is latency measured, at [`LATENCY_RATE`]?
    pub(crate) fn paces(self) -> bool {
        matches!(self.axis, Axis::Latency | Axis::Loss)
    }

    /// Does every process have a host of its own, on a network of 1500 byte packets?
    pub(crate) fn in_lab(self) -> bool {
        self.axis == Axis::Loss
    }

    /// May systems multicast?
    pub(crate) fn has_multicast(self) -> bool {
        self.axis != Axis::Unicast
    }

    /// Its place on its axis.
    pub(crate) fn x(self) -> f64 {
        match self.axis {
            Axis::Payload => self.payload as f64,
            Axis::Receivers | Axis::Unicast => self.receivers as f64,
            Axis::Groups => self.groups as f64,
            Axis::Senders => self.senders as f64,
            Axis::Latency => LATENCY_RATE as f64,
            Axis::Loss => f64::from(self.loss_ppm) / 1e4,
        }
    }

    /// The head of its column.
    pub(crate) fn label(self) -> String {
        match self.axis {
            Axis::Payload => format!("{} B", self.payload),
            Axis::Receivers | Axis::Unicast => format!("N = {}", self.receivers),
            Axis::Groups => format!("{} groups", self.groups),
            Axis::Senders => format!("{} senders", self.senders),
            Axis::Latency => format!("{LATENCY_RATE} messages/s"),
            Axis::Loss => format!("{} % loss", self.x()),
        }
    }

    /// All about it in one line.
    pub(crate) fn describe(self) -> String {
        let network = match self.axis {
            Axis::Loss => "own hosts, MTU 1500",
            Axis::Unicast => "loopback without multicast",
            _ => "loopback",
        };
        format!(
            "{}: {} B, {} receivers, {} groups, {} senders, {} % loss, {network}",
            self.axis.name(),
            self.payload,
            self.receivers,
            self.groups,
            self.senders,
            f64::from(self.loss_ppm) / 1e4
        )
    }
}

/// The cells of a run.
#[derive(Debug)]
pub(crate) struct Matrix {
    quick: bool,
    axes: Vec<Axis>,
}

impl Matrix {
    /// All axes if none are named.
    pub(crate) fn new(quick: bool, axes: &[Axis]) -> Self {
        let axes = if axes.is_empty() { &Axis::ALL } else { axes };
        Self {
            quick,
            axes: axes.to_vec(),
        }
    }

    pub(crate) fn cells(&self) -> Vec<Cell> {
        self.axes.iter().flat_map(|&axis| self.axis(axis)).collect()
    }

    fn axis(&self, axis: Axis) -> Vec<Cell> {
        let cell = Cell::new(axis);
        let pick = |quick: &[usize], full: &[usize]| if self.quick { quick } else { full }.to_vec();
        let each = |values: Vec<usize>, change: fn(&mut Cell, usize)| {
            let changed = |value| {
                let mut cell = cell;
                change(&mut cell, value);
                cell
            };
            values.into_iter().map(changed).collect()
        };
        match axis {
            Axis::Payload => each(
                pick(&[100, 1000], &[16, 100, 1000, 8192, 60_000]),
                |cell, value| cell.payload = value,
            ),
            Axis::Receivers => each(pick(&[4], &[1, 2, 4, 8]), |cell, value| {
                cell.receivers = value;
            }),
            Axis::Unicast => each(pick(&[8], &[2, 4, 8]), |cell, value| {
                cell.receivers = value;
            }),
            Axis::Groups => each(pick(&[8192], &[1, 256, 8192, 100_000]), |cell, value| {
                cell.groups = value;
            }),
            Axis::Senders => each(pick(&[], &[1, 2, 4, 8]), |cell, value| cell.senders = value),
            Axis::Latency => vec![cell],
            Axis::Loss => each(
                pick(&[10_000], &[0, 1000, 10_000, 50_000]),
                |cell, value| {
                    cell.loss_ppm = value as u32;
                },
            ),
        }
    }
}
