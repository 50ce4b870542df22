//! What receivers are given, over two axes.

/// Receivers whose runtimes are compared, the one without a collector first.
pub(super) const RECEIVERS: [&str; 3] = ["rust", "java", "python-batches"];
/// Messages a second while the groups vary.
pub(super) const RATE_OF_GROUPS: u64 = 50_000;

/// Quantity that varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Groups,
    Rate,
}

impl Axis {
    pub(super) const ALL: [Self; 2] = [Self::Groups, Self::Rate];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Groups => "groups",
            Self::Rate => "messages/s",
        }
    }

    /// Name of its plot.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Groups => "groups",
            Self::Rate => "rate",
        }
    }
}

/// Messages that a receiver is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) axis: Axis,
    pub(super) groups: usize,
    /// Messages a second, to all groups in turn.
    pub(super) rate: u64,
}

impl Load {
    /// Where it stands on its axis.
    pub(super) fn x(self) -> f64 {
        match self.axis {
            Axis::Groups => self.groups as f64,
            Axis::Rate => self.rate as f64,
        }
    }
}
