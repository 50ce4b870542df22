//! Latency budgets: how long each stage of a message's way may take (R241).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Stage of a message's way from the call of [`Publisher::send`](crate::Publisher::send) to the
/// receiver that takes it out of its [`Subscription`](crate::Subscription).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// From the call to the core thread that takes the message out of the publisher's queue. Time in
    /// which the send window has no room for it belongs to [`Stage::Admission`].
    Handoff,
    /// Time for which the message waits for others in its packet.
    Batching,
    /// Time for which receivers' credit or the rate hold the packet.
    Admission,
    /// Time for which the kernel has no room for the packet in its send buffer.
    SocketSend,
    /// The network between the two hosts, kernels and cards included. Packets do not carry the time
    /// at which they left, so no node judges it; its share is what is left for it.
    Network,
    /// From the kernel's receipt of a datagram to the core thread that reads it.
    ReceiveBuffer,
    /// From finding a packet missing to having it, also if it was only overtaken.
    Repair,
    /// Time for which the message waits in the queue of a subscription of this process.
    Subscription,
}

impl Stage {
    /// All stages, in the order of a message's way.
    pub const ALL: [Self; 8] = [
        Self::Handoff,
        Self::Batching,
        Self::Admission,
        Self::SocketSend,
        Self::Network,
        Self::ReceiveBuffer,
        Self::Repair,
        Self::Subscription,
    ];

    /// Its name in options, such as `receive-buffer`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Handoff => "handoff",
            Self::Batching => "batching",
            Self::Admission => "admission",
            Self::SocketSend => "socket-send",
            Self::Network => "network",
            Self::ReceiveBuffer => "receive-buffer",
            Self::Repair => "repair",
            Self::Subscription => "subscription",
        }
    }

    /// Its part of a budget, of a hundred, if nothing else is said.
    fn weight(self) -> u32 {
        match self {
            Self::SocketSend => 5,
            Self::Handoff | Self::Batching | Self::Subscription => 10,
            Self::ReceiveBuffer | Self::Repair | Self::Network => 15,
            Self::Admission => 20,
        }
    }

    pub(crate) fn place(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Stage {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let named = Self::ALL.into_iter().find(|stage| stage.name() == text);
        named.ok_or_else(|| BudgetError::Stage {
            name: text.to_owned(),
        })
    }
}

/// Time that messages may take, in all and in each [`Stage`]; given to a node by
/// [`Builder::latency_budget`](crate::Builder::latency_budget).
///
/// ```
/// use std::time::Duration;
/// use qsm::{LatencyBudget, Stage};
///
/// let ms = Duration::from_millis;
/// let budget = LatencyBudget::new(ms(10)).stage(Stage::Batching, ms(1))?;
/// assert_eq!(budget.of(Stage::Batching), ms(1));
/// assert_eq!(budget.of(Stage::Admission), ms(2), "20 of 90 parts of what is left");
/// # Ok::<(), qsm::BudgetError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBudget {
    total: Duration,
    given: [Option<Duration>; Stage::ALL.len()],
}

impl LatencyBudget {
    /// A budget of which each stage has its usual share, of a hundred parts: hand-off 10, batching 10,
    /// admission 20, socket 5, network 15, receive buffer 15, repair 15, subscription 10.
    #[must_use]
    pub fn new(total: Duration) -> Self {
        Self {
            total,
            given: [None; Stage::ALL.len()],
        }
    }

    /// Gives a stage this share. Stages without one divide what is left, in proportion to their usual
    /// shares.
    ///
    /// # Errors
    /// The shares given are more than the total.
    pub fn stage(mut self, stage: Stage, share: Duration) -> Result<Self, BudgetError> {
        self.given[stage.place()] = Some(share);
        let given = self.sum_given();
        match given > self.total {
            true => Err(BudgetError::TooMuch {
                given,
                total: self.total,
            }),
            false => Ok(self),
        }
    }

    /// All stages together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The share of a stage.
    #[must_use]
    pub fn of(&self, stage: Stage) -> Duration {
        if let Some(share) = self.given[stage.place()] {
            return share;
        }
        let free = Stage::ALL
            .into_iter()
            .filter(|stage| self.given[stage.place()].is_none());
        let weights: u32 = free.map(Stage::weight).sum();
        let left = self.total.saturating_sub(self.sum_given());
        left * stage.weight() / weights.max(1)
    }

    fn sum_given(&self) -> Duration {
        let given = self.given.iter().flatten();
        given.fold(Duration::ZERO, |sum, share| sum.saturating_add(*share))
    }
}

/// A stage that took longer than its share of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverBudget {
    /// The stage.
    pub stage: Stage,
    /// Time that it took, or has taken so far if it has not ended.
    pub took: Duration,
    /// Its share.
    pub budget: Duration,
}

/// One line for people, without a full stop: the stage, its time, and what to look at.
impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, remedy) = match self.stage {
            Stage::Handoff => (
                "a message waited in its publisher's queue",
                "the core thread had no CPU or too much to do: see `qsm latency host`",
            ),
            Stage::Batching => (
                "a message waited for others in its packet",
                "lower the time that it may wait",
            ),
            Stage::Admission => (
                "a packet waited for receivers' credit or the rate",
                "a receiver is slow: see `qsm explain`",
            ),
            Stage::SocketSend => (
                "the kernel had no room for a packet",
                "the card or the link is slower than the sender: see `qsm doctor`",
            ),
            Stage::Network => ("the network", "see `qsm bench latency`"),
            Stage::ReceiveBuffer => (
                "a datagram waited to be read",
                "the core thread had no CPU or too much to do: see `qsm latency host`",
            ),
            Stage::Repair => (
                "a packet was missing",
                "find out where packets are lost: see `qsm explain`",
            ),
            Stage::Subscription => (
                "a message waited in a subscription's queue",
                "the program that reads it is slow",
            ),
        };
        write!(
            f,
            "{}: {what} for {:.1?}, of {:.1?} in the latency budget; {remedy}",
            self.stage, self.took, self.budget
        )
    }
}

/// A latency budget that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetError {
    /// The shares given are more than the total.
    TooMuch {
        /// Their sum.
        given: Duration,
        /// The total.
        total: Duration,
    },
    /// No stage has this name.
    Stage {
        /// The name.
        name: String,
    },
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMuch { given, total } => write!(
                f,
                "the stages together have {given:?} of a latency budget of {total:?}; raise the total, or \
                 lower a share"
            ),
            Self::Stage { name } => {
                write!(f, "{name:?} is no stage; stages are")?;
                let mut sign = "";
                for stage in Stage::ALL {
                    write!(f, "{sign} {stage}")?;
                    sign = ",";
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for BudgetError {}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn shares_add_up_to_the_total_however_many_are_given() {
        let mut budget = LatencyBudget::new(MS * 100);
        for (place, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage.place(), place);
            let sum: Duration = Stage::ALL.into_iter().map(|stage| budget.of(stage)).sum();
            assert!(MS * 100 - sum < MS, "{sum:?}");
            budget = budget.stage(stage, MS * 12).unwrap();
            assert_eq!(budget.of(stage), MS * 12);
        }
        let error = budget.stage(Stage::Repair, MS * 50).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("134ms of a latency budget of 100ms")
        );
    }

    #[test]
    fn stages_have_names_and_a_wrong_one_is_told_all() {
        for stage in Stage::ALL {
            assert_eq!(stage.name().parse(), Ok(stage));
        }
        let error = "socket".parse::<Stage>().unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("receive-buffer, repair, subscription")
        );
    }
}
