//! What is asked of every system: the axes and their cells.

use clap::ValueEnum;
use qsm_measure::Layout;
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
    /// Groups that some receivers have, and others do not.
    Layout,
}

impl Axis {
    pub(crate) const ALL: [Self; 8] = [
        Self::Payload,
        Self::Receivers,
        Self::Groups,
        Self::Senders,
        Self::Latency,
        Self::Loss,
        Self::Unicast,
        Self::Layout,
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
            Self::Layout => "layout",
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
    /// Which receiver has which of the groups that not all have.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "layout_name")]
    pub(crate) layout: Option<Layout>,
}

/// A layout by its name.
mod layout_name {
    use qsm_measure::Layout;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde hands fields out by reference")]
    pub(super) fn serialize<S: Serializer>(
        layout: &Option<Layout>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        layout.map(Layout::name).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Layout>, D::Error> {
        let name = Option::<String>::deserialize(from)?;
        let layout = name.map(|name| name.parse().map_err(Error::custom));
        layout.transpose()
    }
}

/// Groups that all receivers have where there is a layout.
const COMMON: usize = 1;
/// Receivers of each layout.
const LAYOUT_RECEIVERS: usize = 6;

/// Messages per second where latency is measured.
pub(crate) const LATENCY_RATE: u64 = 10_000;

impl Cell {
    fn new(axis: Axis, payload: usize) -> Self {
        Self {
            axis,
            payload,
            receivers: if axis == Axis::Loss { 4 } else { 2 },
            groups: 1,
            senders: 1,
            loss_ppm: 0,
            layout: None,
        }
    }

    /// Groups that all receivers have. The others are rare: they get a hundredth of the messages.
    pub(crate) fn common(self) -> usize {
        if self.layout.is_some() {
            COMMON
        } else {
            self.groups
        }
    }

    /// The rare groups that somebody has, by their number in the layout.
    fn rare(self) -> Vec<(u32, u32)> {
        let audience = self
            .layout
            .map(|layout| layout.audience(self.receivers as u32));
        audience.into_iter().flatten().collect()
    }

    /// Receivers of each rare group.
    pub(crate) fn audience(self) -> Vec<u32> {
        self.rare()
            .into_iter()
            .map(|(_, receivers)| receivers)
            .collect()
    }

    /// The rare groups that a receiver has; the first one has the number after the common ones'.
    pub(crate) fn wants(self, receiver: usize) -> Vec<usize> {
        let Some(layout) = self.layout else {
            return Vec::new();
        };
        let own = layout.groups_of(receiver as u32, self.receivers as u32);
        let rare = (COMMON..).zip(self.rare());
        let wanted = rare.filter(|(_, (group, _))| own.contains(group));
        wanted.map(|(number, _)| number).collect()
    }

    fn with_layout(mut self, layout: Layout) -> Self {
        self.receivers = LAYOUT_RECEIVERS;
        self.layout = Some(layout);
        self.groups = COMMON + self.rare().len();
        self
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
            // Layouts have no order: they are not drawn.
            Axis::Layout => 0.0,
        }
    }

    /// The name of the layout, if there is one.
    fn layout_name(self) -> String {
        self.layout.map(Layout::name).unwrap_or_default()
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
            Axis::Layout => self.layout_name(),
        }
    }

    /// All about it in one line.
    pub(crate) fn describe(self) -> String {
        let network = match self.axis {
            Axis::Loss => "own hosts, MTU 1500",
            Axis::Unicast => "loopback without multicast",
            _ => "loopback",
        };
        let layout = self.layout.map(|layout| format!(" {}", layout.name()));
        format!(
            "{}{}: {} B, {} receivers, {} groups, {} senders, {} % loss, {network}",
            self.axis.name(),
            layout.unwrap_or_default(),
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
    /// Bytes of a message on all axes but that of payloads.
    payload: usize,
}

impl Matrix {
    /// All axes if none are named.
    pub(crate) fn new(quick: bool, axes: &[Axis], payload: usize) -> Self {
        let axes = if axes.is_empty() { &Axis::ALL } else { axes };
        Self {
            quick,
            axes: axes.to_vec(),
            payload,
        }
    }

    pub(crate) fn cells(&self) -> Vec<Cell> {
        self.axes.iter().flat_map(|&axis| self.axis(axis)).collect()
    }

    fn axis(&self, axis: Axis) -> Vec<Cell> {
        let cell = Cell::new(axis, self.payload);
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
            Axis::Layout => {
                let layouts =
                    Layout::ALL
                        .into_iter()
                        .take(if self.quick { 2 } else { Layout::ALL.len() });
                layouts.map(|layout| cell.with_layout(layout)).collect()
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn layouts() -> Vec<Cell> {
        Matrix::new(false, &[Axis::Layout], 100).cells()
    }

    #[test]
    fn receivers_want_what_their_layout_says_and_every_rare_group_is_wanted_as_often_as_is_told() {
        let cells = layouts();
        assert_eq!(cells.len(), Layout::ALL.len());
        for cell in cells {
            let audience = cell.audience();
            assert_eq!(
                cell.groups,
                cell.common() + audience.len(),
                "{}",
                cell.label()
            );
            let mut counts = vec![0; audience.len()];
            for receiver in 0..cell.receivers {
                for group in cell.wants(receiver) {
                    counts[group - cell.common()] += 1;
                }
            }
            assert_eq!(counts, audience, "{}", cell.label());
        }
    }

    #[test]
    fn a_layout_is_read_as_it_is_written_and_no_other_cell_has_one() {
        for cell in layouts() {
            let text = serde_json::to_string(&cell).unwrap();
            assert_eq!(serde_json::from_str::<Cell>(&text).unwrap(), cell);
        }
        for cell in Matrix::new(false, &[Axis::Groups], 100).cells() {
            let text = serde_json::to_string(&cell).unwrap();
            assert!(!text.contains("layout"), "{text}");
            assert_eq!(serde_json::from_str::<Cell>(&text).unwrap(), cell);
            assert_eq!((cell.common(), cell.wants(0)), (cell.groups, Vec::new()));
        }
    }
}
