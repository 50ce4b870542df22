//! CPU time of packets, for plans: given, measured, or that of a typical server.

use std::fmt;
use std::ops::RangeInclusive;

use clap::Args;
use qsm::PlanCosts;

/// Options for the costs that plans weigh.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Costs")]
pub struct CostOptions {
    /// CPU time of a packet sent, for plans, microseconds: 0.2 to 100. Copies and regions cost in proportion
    #[arg(long, value_name = "MICROSECONDS", value_parser = sending)]
    pub cost_send: Option<u32>,
    /// CPU time of a packet at a node that does not want it, for plans, microseconds: 0.05 to 50
    #[arg(long, value_name = "MICROSECONDS", value_parser = receiving)]
    pub cost_receive: Option<u32>,
}

/// Costs, and where they are from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCosts {
    /// The costs.
    pub costs: PlanCosts,
    /// Their origin.
    pub source: CostSource,
}

/// Origin of costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CostSource {
    /// Options give both.
    Given,
    /// Measured on this machine, but for what an option gives.
    Measured,
    /// Those of a typical server, but for what an option gives.
    Typical,
    /// The same, because they could not be measured.
    Failed(String),
}

impl CostOptions {
    /// The costs given; what is not given is measured, if that is wanted, or that of a typical server.
    #[must_use]
    pub fn costs(self, measure: bool) -> KnownCosts {
        let (costs, source) = match (self.cost_send, self.cost_receive) {
            (Some(_), Some(_)) => (PlanCosts::default(), CostSource::Given),
            _ if !measure => (PlanCosts::default(), CostSource::Typical),
            _ => match qsm::measure_plan_costs() {
                Ok(costs) => (costs, CostSource::Measured),
                Err(error) => (PlanCosts::default(), CostSource::Failed(error.to_string())),
            },
        };
        let packet = self.cost_send.unwrap_or(costs.packet);
        let unwanted = self.cost_receive.unwrap_or(costs.unwanted);
        KnownCosts {
            costs: PlanCosts::of_packets(packet, unwanted),
            source,
        }
    }
}

/// In words: `a packet sent costs 5 µs of CPU time, one that is not wanted 1.5 µs, a copy 6 µs (measured here)`.
impl fmt::Display for KnownCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |nanos: u32| f64::from(nanos) / 1e3;
        write!(
            f,
            "a packet sent costs {} µs of CPU time, one that is not wanted {} µs, a copy {} µs ({})",
            micros(self.costs.packet),
            micros(self.costs.unwanted),
            micros(self.costs.copy),
            self.source
        )
    }
}

impl fmt::Display for CostSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("as given"),
            Self::Measured => f.write_str("measured on this machine"),
            Self::Typical => f.write_str("of a typical server"),
            Self::Failed(cause) => {
                write!(f, "of a typical server, since measuring failed: {cause}")
            }
        }
    }
}

fn sending(text: &str) -> Result<u32, String> {
    microseconds(text, &PlanCosts::PACKET_NS)
}

fn receiving(text: &str) -> Result<u32, String> {
    microseconds(text, &PlanCosts::UNWANTED_NS)
}

/// Microseconds into nanoseconds within a range.
fn microseconds(text: &str, range: &RangeInclusive<u32>) -> Result<u32, String> {
    let number = text.trim_end_matches("µs").trim_end_matches("us");
    let number: f64 = number
        .parse()
        .map_err(|_| "not a number of microseconds".to_owned())?;
    // What is out of range saturates, and is not in the range either.
    let nanos = (number * 1e3).round() as u32;
    if !range.contains(&nanos) {
        let [least, most] = [range.start(), range.end()].map(|end| f64::from(*end) / 1e3);
        return Err(format!("must be between {least} and {most} microseconds"));
    }
    Ok(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_holds_and_nothing_is_measured_unasked() {
        let given = CostOptions {
            cost_send: Some(10_000),
            cost_receive: Some(2_000),
        };
        let known = given.costs(true);
        assert_eq!(
            known.to_string(),
            "a packet sent costs 10 µs of CPU time, one that is not wanted 2 µs, a copy 12 µs (as given)"
        );
        let typical = CostOptions::default().costs(false);
        assert_eq!(typical.costs, PlanCosts::default());
        assert_eq!(typical.source, CostSource::Typical);
        let half = CostOptions {
            cost_receive: None,
            ..given
        };
        let half = half.costs(false);
        assert_eq!((half.costs.packet, half.costs.unwanted), (10_000, 1_500));
    }

    #[test]
    fn measured_costs_are_within_their_range() {
        let known = CostOptions::default().costs(true);
        assert_eq!(known.source, CostSource::Measured);
        assert!(
            PlanCosts::PACKET_NS.contains(&known.costs.packet),
            "{known}"
        );
        assert!(
            PlanCosts::UNWANTED_NS.contains(&known.costs.unwanted),
            "{known}"
        );
    }

    #[test]
    fn microseconds_are_read_and_others_refused() {
        assert_eq!(sending("4.2"), Ok(4200));
        assert_eq!(receiving("0.5us"), Ok(500));
        for wrong in ["0", "-1", "1e9", "NaN"] {
            let error = sending(wrong).unwrap_err();
            assert_eq!(error, "must be between 0.2 and 100 microseconds", "{wrong}");
        }
        assert_eq!(sending("fast").unwrap_err(), "not a number of microseconds");
    }
}
