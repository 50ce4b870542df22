//! Paces of groups: for how long senders follow a slow receiver, and what becomes of it then (R-RATE-8,
//! R-RATE-12).

use core::time::Duration;

/// Whose pace senders follow where a receiver of a group is slower than the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupPace {
    /// Pace of the slowest receiver, for as long as it is slow.
    Slowest,
    /// Pace of the slowest receiver for so long; then it is set aside and catches up by itself.
    Bounded(Duration),
    /// Pace of the slowest receiver for so long; then it goes on from the present, and what it misses it
    /// loses.
    Demotes(Duration),
    /// Pace of the slowest receiver for so long; then it is shut out.
    Expels(Duration),
    /// As bounded, but no sender is held below a rate meanwhile: what a receiver has no room for then
    /// leaves all the same, and what is not kept for it any more it loses.
    AtLeast {
        /// Time after which a receiver that holds senders is set aside.
        time: Duration,
        /// Packets that each sender may send in a second, whatever receivers have room for; at least 1.
        packets_per_second: u32,
    },
    /// Its own, whatever receivers have room for: what is not kept any more for those that lag they lose.
    Uncontrolled,
}

/// Fate of a receiver that is slower than the others for longer than they wait for it; the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum LaggardFate {
    /// It is set aside, and catches up by itself.
    #[default]
    Apart,
    /// It is set aside, goes on from the present, and is told what it has lost.
    Demoted,
    /// Its life is over, and it may begin another one.
    Expelled,
}

impl GroupPace {
    /// The fate of who is slower than the others for too long.
    #[must_use]
    pub fn fate(self) -> LaggardFate {
        match self {
            Self::Demotes(_) => LaggardFate::Demoted,
            Self::Expels(_) => LaggardFate::Expelled,
            _ => LaggardFate::Apart,
        }
    }

    /// Packets that a sender may send in a second, whatever receivers have room for; 0: none, and
    /// [`u32::MAX`]: as many as it likes.
    #[must_use]
    pub fn minimum_packets(self) -> u32 {
        match self {
            Self::Slowest | Self::Bounded(_) | Self::Demotes(_) | Self::Expels(_) => 0,
            Self::AtLeast {
                packets_per_second, ..
            } => packets_per_second,
            Self::Uncontrolled => u32::MAX,
        }
    }
}

impl core::fmt::Display for GroupPace {
    /// As a file of hints has it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Slowest => f.write_str("slowest"),
            Self::Bounded(time) => write!(f, "bounded {}ms", time.as_millis()),
            Self::Demotes(time) => write!(f, "bounded {}ms then demote", time.as_millis()),
            Self::Expels(time) => write!(f, "bounded {}ms then expel", time.as_millis()),
            Self::AtLeast {
                time,
                packets_per_second,
            } => write!(
                f,
                "bounded {}ms min {packets_per_second}/s",
                time.as_millis()
            ),
            Self::Uncontrolled => f.write_str("uncontrolled"),
        }
    }
}

/// Longest lifetime of messages, and longest time for which a slow receiver is followed.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Shortest time for which a slow receiver is followed: words on that come once a second.
pub(crate) const PATIENCE_MIN: Duration = Duration::from_secs(1);
/// A pace, in the words of a hint.
pub(crate) fn pace_of(words: &[&str]) -> Option<GroupPace> {
    let patience = |text| span(text).filter(|time| *time >= PATIENCE_MIN);
    match *words {
        ["slowest"] => Some(GroupPace::Slowest),
        ["uncontrolled"] => Some(GroupPace::Uncontrolled),
        ["bounded", time] | ["bounded", time, "then", "apart"] => {
            patience(time).map(GroupPace::Bounded)
        }
        ["bounded", time, "then", "demote"] => patience(time).map(GroupPace::Demotes),
        ["bounded", time, "then", "expel"] => patience(time).map(GroupPace::Expels),
        ["bounded", time, "min", rate] => {
            let rate = rate.strip_suffix("/s")?.parse().ok();
            Some(GroupPace::AtLeast {
                time: patience(time)?,
                packets_per_second: rate.filter(|rate| (1..u32::MAX).contains(rate))?,
            })
        }
        _ => None,
    }
}

/// A time in whole milliseconds, with its unit.
pub(crate) fn span(text: &str) -> Option<Duration> {
    let unit = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let number: u64 = number.parse().ok()?;
    let ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let time = Duration::from_millis(number.checked_mul(ms)?);
    (time > Duration::ZERO && time <= LIFETIME_MAX).then_some(time)
}
