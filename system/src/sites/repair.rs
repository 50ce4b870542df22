//! Repairs: of what is lost at one receiver of a site, and of what is lost between sites.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lab::{LinkShape, Traffic};

use super::layout::{Layout, Sites, round_trip};
use super::stage::{End, Outcome};
use super::stream::{Arrival, Load};
use crate::cluster::Failure;
use crate::figure::{Bar, Finding};
use crate::trial::median;

/// Time that a packet takes between sites.
const WIDE: Duration = Duration::from_millis(50);
/// Time that a packet takes between a relay and a receiver of its site.
const LOCAL: Duration = Duration::from_millis(2);
/// Round trips that a repair may take.
const TRIPS_MAX: f64 = 1.5;
/// Receivers of a far site.
const RECEIVERS: usize = 3;
/// Losses of which a quantile is told.
const LOSSES_MIN: f64 = 5.0;
/// Time before the stream counts: the rate of a source begins low.
const WARM_UP: Duration = Duration::from_secs(3);

/// Where packets are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At one receiver of each far site.
    LastHop,
    /// On each link between sites, both ways.
    Link,
}

/// A stream between sites, of which some is lost.
#[derive(Debug, Clone, Copy)]
pub struct Repair {
    /// Sites with four hosts each, the source's among them.
    pub sites: usize,
    /// Where packets are lost.
    pub place: Place,
    /// Of a million packets, so many are lost.
    pub loss_ppm: u32,
    /// The stream.
    pub load: Load,
}

/// A message that stood still on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stall {
    /// Time from when it left its source to when it was read.
    sent: Duration,
    /// Time from when the next message should have come, which shows that this one is missing.
    noticed: Duration,
}

impl Repair {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let where_lost = match self.place {
            Place::LastHop => "at a receiver",
            Place::Link => "between sites",
        };
        let (sites, percent) = (self.sites, f64::from(self.loss_ppm) / 1e4);
        let rate = self.load.rate;
        format!("{sites} sites, {percent} % lost {where_lost}, {rate} messages/s")
    }

    /// Runs it once.
    ///
    /// # Errors
    /// A process fails.
    pub fn run(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        let of = |delay| LinkShape {
            delay,
            ..LinkShape::default()
        };
        let layout = Layout {
            sites: self.sites,
            wide: of(WIDE),
            local: Some(of(LOCAL)),
        };
        // Requests and repairs are judged, and parity would leave few.
        let mut sites = layout.open(program, &["--parity", "off"])?;
        let far = &sites.sites[1];
        let lab = &sites.stage.lab;
        let local = round_trip(lab, far.relay, far.receivers[0])?;
        let wide = round_trip(lab, sites.sites[0].relay, far.relay)?;
        let receivers = sites.start_receivers()?;
        let feeder = sites.stage.publish(&mut sites.source, self.load)?;
        self.begin_loss(&sites)?;
        let outcome = sites.stage.finish(feeder, receivers)?;
        let mut found = whole(&outcome);
        found.push(self.carried(&outcome));
        let near = sites.sites[0].receivers.len();
        let clock = Departures::of(&[&outcome.ends[0]], local / 2);
        let far: Vec<&End> = outcome.ends.iter().skip(near).collect();
        match self.place {
            Place::LastHop => found.extend(at_receivers(&far, local)),
            Place::Link => {
                let mut lost = 0;
                for link in &sites.wide {
                    let [away, _] = sites.stage.lab.link_counters(*link)?;
                    lost += away.lost_packets;
                }
                found.push(Finding::new("packets lost", lost as f64, Bar::Told));
                found.extend(between(&far, &clock, wide));
            }
        }
        Ok(found)
    }

    /// Receivers of the far sites are three each; the first of them loses.
    fn begin_loss(&self, sites: &Sites) -> Result<(), Failure> {
        let lab = &sites.stage.lab;
        match self.place {
            Place::LastHop => {
                for site in &sites.sites[1..] {
                    lab.set_loss(site.receivers[0], self.loss_ppm, Traffic::Unicast)?;
                }
            }
            Place::Link => {
                for (place, link) in sites.wide.iter().enumerate() {
                    let shape = LinkShape {
                        delay: WIDE,
                        loss_ppm: self.loss_ppm,
                        seed: place as u64 + 1,
                        ..LinkShape::default()
                    };
                    lab.reshape(*link, shape)?;
                }
            }
        }
        Ok(())
    }

    /// The part of the offered messages that the source took in time.
    fn carried(&self, outcome: &Outcome) -> Finding {
        let offered = self.load.rate as f64 * self.load.lasts.as_secs_f64();
        let share = outcome.given as f64 / offered;
        Finding::new("messages taken, of those offered", share, Bar::Least(0.99))
    }
}

/// When each message left its source, or its site's relay, by receivers to which nothing is lost: a
/// source may have been given it long before.
struct Departures {
    /// By number.
    left: BTreeMap<u64, Duration>,
}

impl Departures {
    /// By what came first at receivers that are so far away.
    fn of(ends: &[&End], way: Duration) -> Self {
        let mut left = BTreeMap::new();
        for arrival in ends.iter().flat_map(|end| &end.tape.arrivals) {
            let sent = arrival.came.saturating_sub(way);
            let known = left.entry(arrival.number).or_insert(sent);
            *known = sent.min(*known);
        }
        Self { left }
    }

    /// Messages that came at a receiver behind the beginning of the stream, as sent when it left.
    fn counted(&self, end: &End) -> Vec<Arrival> {
        let first = self.left.values().next().copied().unwrap_or_default();
        let arrivals = end.tape.arrivals.iter().filter_map(|arrival| {
            let sent = *self.left.get(&arrival.number)?;
            Some(Arrival { sent, ..*arrival })
        });
        arrivals
            .filter(|arrival| arrival.sent >= first + WARM_UP)
            .collect()
    }
}

/// Receivers of the far sites are three each, of which the first loses. The others tell when a message
/// should have come there.
fn at_receivers(far: &[&End], local: Duration) -> Vec<Finding> {
    let sites = || far.chunks_exact(RECEIVERS);
    let repairs = |end: &End| end.counter("repairs_received");
    let seen: u64 = sites().map(|site| repairs(site[0])).sum();
    let others: u64 = sites()
        .flat_map(|site| &site[1..])
        .map(|end| repairs(end))
        .sum();
    let stalls = sites().flat_map(|site| {
        let clock = Departures::of(&site[1..], local / 2);
        stalls(&clock.counted(site[0]), local / 2, local / 4)
    });
    // A repair takes a round trip; what came sooner was late for other reasons.
    let repaired = stalls.filter(|stall| stall.noticed >= local * 3 / 4);
    let mut times: Vec<f64> = repaired.map(|stall| stall.noticed.as_secs_f64()).collect();
    let trip = local.as_secs_f64();
    let [middle, late] = [0.5, 0.99].map(|share| quantile(&mut times, share) / trip);
    vec![
        Finding::new("local round trip, ms", trip * 1e3, Bar::Told),
        Finding::new("losses timed", times.len() as f64, Bar::Least(LOSSES_MIN)),
        Finding::new("repair, local round trips: median", middle, Bar::Told),
        Finding::new("repair, local round trips: p99", late, Bar::Most(TRIPS_MAX)),
        Finding::new("repairs at who loses", seen as f64, Bar::Least(1.0)),
        Finding::none("repairs at the others", others),
    ]
}

/// All receivers of a site wait for the same packet, so one of each is asked.
fn between(far: &[&End], clock: &Departures, wide: Duration) -> Vec<Finding> {
    let one_each = far.iter().step_by(RECEIVERS);
    let stalls = one_each.flat_map(|end| stalls(&clock.counted(end), wide / 2, wide / 20));
    let mut times: Vec<f64> = stalls.map(|stall| stall.sent.as_secs_f64()).collect();
    let trip = wide.as_secs_f64();
    let [middle, late] = [0.5, 0.99].map(|share| quantile(&mut times, share));
    let beyond = (late - trip / 2.0) / trip;
    let what = "beyond the way, round trips: p99";
    vec![
        Finding::new("round trip between sites, ms", trip * 1e3, Bar::Told),
        Finding::new("losses timed", times.len() as f64, Bar::Least(LOSSES_MIN)),
        Finding::new(
            "lost, from sent to read, ms: median",
            middle * 1e3,
            Bar::Told,
        ),
        Finding::new("lost, from sent to read, ms: p99", late * 1e3, Bar::Told),
        Finding::new(what, beyond, Bar::Most(TRIPS_MAX)),
    ]
}

/// Counts of what must not be, as each trial finds them.
pub(super) fn whole(outcome: &Outcome) -> Vec<Finding> {
    let flaws = outcome.flaws();
    let told = u64::from(!outcome.is_complete());
    vec![
        Finding::none("messages lost, or told to be", flaws.missing + told),
        Finding::none(
            "messages doubled, wrong or in disorder",
            flaws.doubled + flaws.wrong,
        ),
    ]
}

/// Messages that came this much later than most, and not together with the one before: for these the
/// receiver waited, and others behind them for order's sake.
fn stalls(arrivals: &[Arrival], late: Duration, apart: Duration) -> Vec<Stall> {
    let usual = median(arrivals.iter().map(Arrival::delay)).unwrap_or_default();
    let of_three = arrivals.windows(3).filter(|three| {
        let [before, this, _] = three else {
            return false;
        };
        this.delay() > usual + late && this.came > before.came + apart
    });
    let stalls = of_three.map(|three| Stall {
        sent: three[1].delay(),
        noticed: three[1].came.saturating_sub(three[2].sent + usual),
    });
    stalls.collect()
}

/// The value below which this share of them is.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * share).ceil() as usize;
    let value = values.get(place.saturating_sub(1));
    value.copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn of_messages_that_waited_together_the_first_was_lost() {
        // 2 was lost and came with 3 to 5; 6 was lost as well and came by itself.
        let came = |number: u32| match number {
            2..6 => 22,
            6..11 => 26,
            _ => number + 10,
        };
        let all: Vec<Arrival> = (0..60)
            .map(|number| Arrival {
                number: u64::from(number),
                sent: MS * number,
                came: MS * came(number),
            })
            .collect();
        let stall = Stall {
            sent: MS * 20,
            noticed: MS * 9,
        };
        assert_eq!(stalls(&all, MS * 5, MS * 2), [stall, stall]);
        assert_eq!(stalls(&all[11..], MS * 5, MS * 2), []);
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let mut values = [3.0, 1.0, 2.0, 4.0];
        assert_eq!(quantile(&mut values, 0.5), 2.0);
        assert_eq!(quantile(&mut values, 0.99), 4.0);
        assert!(quantile(&mut [], 0.5).is_nan());
    }
}
