//! A node's start: what its state machine was made of.

use qsm_proto::view::Layout;
use qsm_proto::{Config, Instant, Introduction, Limits, Pace, Recovery, Seed};
use qsm_wire::{Coverage, NodeId};

use crate::fields::{Fields, Malformed, Put};

/// The beginning of a recording.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Version of the library that recorded it. Another one may decide otherwise.
    pub version: String,
    /// Nanoseconds between 1970-01-01 and [`Setup::start`].
    pub wall_clock: u64,
    /// The configuration.
    pub config: Config,
    /// Where its random numbers come from.
    pub seed: Seed,
    /// The first time it was told.
    pub start: Instant,
}

impl Setup {
    pub(crate) fn put(&self, to: &mut Vec<u8>) {
        to.text(&self.version);
        to.number(qsm_wire::VERSION.into());
        to.number(self.wall_clock);
        to.number(self.seed.0);
        to.number(self.start.0);
        put_config(&self.config, to);
    }

    /// The setup, and the protocol's version that it is of.
    pub(crate) fn take(from: &mut Fields<'_>) -> Result<(Self, u8), Malformed> {
        let version = from.text()?.to_owned();
        let protocol = from.narrow()?;
        let setup = Self {
            version,
            wall_clock: from.number()?,
            seed: Seed(from.number()?),
            start: Instant(from.number()?),
            config: take_config(from)?,
        };
        Ok((setup, protocol))
    }
}

fn put_config(config: &Config, to: &mut Vec<u8>) {
    // All fields by name: a new one cannot be forgotten.
    let Config {
        node,
        name,
        introduction,
        cluster,
        address,
        second,
        multicast,
        own_messages,
        discovery,
        service,
        layout,
        datagram_bytes,
        signed,
        coverage,
        receive_buffer_bytes,
        limits,
        recovery,
        pace,
        // Times change nothing of what a node does.
        times_packets: _,
    } = config;
    to.number(node.0);
    to.text(name);
    to.flag(introduction.is_some());
    if let Some(Introduction { host, version }) = introduction {
        to.text(host);
        to.text(version);
    }
    to.text(cluster);
    to.address(*address);
    to.address_if(*second);
    // One number, so that files of before there were own messages to leave out are read as before.
    to.number(u64::from(*multicast) | u64::from(!*own_messages) << 1);
    to.address(*discovery);
    to.address_if(*service);
    put_layout(layout, to);
    to.count(*datagram_bytes);
    to.flag(*signed);
    to.flag(match coverage {
        Coverage::Whole => true,
        Coverage::Head => false,
    });
    to.count(*receive_buffer_bytes);
    put_limits(limits, to);
    put_recovery(recovery, to);
    put_pace(pace, to);
}

fn take_config(from: &mut Fields<'_>) -> Result<Config, Malformed> {
    let node = NodeId(from.number()?);
    let name = from.text()?.to_owned();
    let introduction = from.flag()?.then(|| take_introduction(from)).transpose()?;
    let cluster = from.text()?.to_owned();
    let (address, second) = (from.address()?, from.address_if()?);
    let ways = from.number()?;
    if ways > 3 {
        return Err(Malformed);
    }
    Ok(Config {
        node,
        name,
        introduction,
        cluster,
        address,
        second,
        multicast: ways & 1 == 1,
        own_messages: ways & 2 == 0,
        discovery: from.address()?,
        service: from.address_if()?,
        layout: take_layout(from)?,
        datagram_bytes: from.narrow()?,
        signed: from.flag()?,
        coverage: match from.flag()? {
            true => Coverage::Whole,
            false => Coverage::Head,
        },
        receive_buffer_bytes: from.narrow()?,
        limits: take_limits(from)?,
        recovery: take_recovery(from)?,
        pace: take_pace(from)?,
        times_packets: false,
    })
}

fn take_introduction(from: &mut Fields<'_>) -> Result<Introduction, Malformed> {
    Ok(Introduction {
        host: from.text()?.to_owned(),
        version: from.text()?.to_owned(),
    })
}

fn put_layout(layout: &Layout, to: &mut Vec<u8>) {
    let Layout {
        replication,
        block_packets,
        ring_max,
    } = layout;
    to.count(*replication);
    to.number(*block_packets);
    to.count(*ring_max);
}

fn take_layout(from: &mut Fields<'_>) -> Result<Layout, Malformed> {
    Ok(Layout {
        replication: from.narrow()?,
        block_packets: from.number()?,
        ring_max: from.narrow()?,
    })
}

fn put_limits(limits: &Limits, to: &mut Vec<u8>) {
    let Limits {
        send_bytes,
        receive_bytes,
        retention_bytes,
        ahead_packets,
        streams,
        message_bytes,
        groups,
    } = limits;
    to.count(*send_bytes);
    to.count(*receive_bytes);
    to.count(*retention_bytes);
    to.number(*ahead_packets);
    to.count(*streams);
    to.count(*message_bytes);
    to.count(*groups);
}

fn take_limits(from: &mut Fields<'_>) -> Result<Limits, Malformed> {
    Ok(Limits {
        send_bytes: from.narrow()?,
        receive_bytes: from.narrow()?,
        retention_bytes: from.narrow()?,
        ahead_packets: from.number()?,
        streams: from.narrow()?,
        message_bytes: from.narrow()?,
        groups: from.narrow()?,
    })
}

fn put_recovery(recovery: &Recovery, to: &mut Vec<u8>) {
    let Recovery {
        fast,
        pull_late,
        reorder_guard,
        retry_min,
        repair_bytes_per_second,
        requests_per_second,
        give_up,
        reach,
        parity,
        parities_ahead,
    } = recovery;
    to.flag(*fast);
    to.flag(*pull_late);
    to.duration(*reorder_guard);
    to.duration(*retry_min);
    to.number(*repair_bytes_per_second);
    to.number(*requests_per_second);
    to.duration(*give_up);
    to.flag(*reach);
    to.flag(*parity);
    to.number((*parities_ahead).into());
}

fn take_recovery(from: &mut Fields<'_>) -> Result<Recovery, Malformed> {
    Ok(Recovery {
        fast: from.flag()?,
        pull_late: from.flag()?,
        reorder_guard: from.duration()?,
        retry_min: from.duration()?,
        repair_bytes_per_second: from.number()?,
        requests_per_second: from.number()?,
        give_up: from.duration()?,
        reach: from.flag()?,
        parity: from.flag()?,
        parities_ahead: from.narrow()?,
    })
}

fn put_pace(pace: &Pace, to: &mut Vec<u8>) {
    let Pace {
        token_min,
        token_max,
        rings_in_turn,
        partition_feedback,
        kept_factor,
        faithful_rate,
        rate_interval,
        growth_permille,
        rate_min_packets,
        rate_max_packets,
        node_bytes_per_second,
        heartbeat_min,
        queue_target,
        batch_delay,
    } = pace;
    to.duration(*token_min);
    to.duration(*token_max);
    to.flag(*rings_in_turn);
    to.flag(*partition_feedback);
    to.count(*kept_factor);
    to.flag(*faithful_rate);
    to.duration(*rate_interval);
    to.number((*growth_permille).into());
    to.number((*rate_min_packets).into());
    to.number((*rate_max_packets).into());
    to.number(*node_bytes_per_second);
    to.duration(*heartbeat_min);
    to.duration(*queue_target);
    to.duration(*batch_delay);
}

fn take_pace(from: &mut Fields<'_>) -> Result<Pace, Malformed> {
    Ok(Pace {
        token_min: from.duration()?,
        token_max: from.duration()?,
        rings_in_turn: from.flag()?,
        partition_feedback: from.flag()?,
        kept_factor: from.narrow()?,
        faithful_rate: from.flag()?,
        rate_interval: from.duration()?,
        growth_permille: from.narrow()?,
        rate_min_packets: from.narrow()?,
        rate_max_packets: from.narrow()?,
        node_bytes_per_second: from.number()?,
        heartbeat_min: from.duration()?,
        queue_target: from.duration()?,
        batch_delay: from.duration()?,
    })
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn a_setup_is_read_as_it_was_written() {
        let mut config = Config::new(NodeId(0xab), "10.0.0.1:7".parse().unwrap());
        config.introduction = Some(Introduction {
            host: "h".to_owned(),
            version: "1".to_owned(),
        });
        config.second = Some("[fd00::1]:8".parse().unwrap());
        config.service = Some("10.0.0.2:9".parse().unwrap());
        config.coverage = Coverage::Whole;
        config.pace.batch_delay = Duration::from_micros(5);
        config.limits.message_bytes = 77;
        config.recovery.reach = false;
        let mut outward = config.clone();
        (outward.multicast, outward.own_messages) = (false, false);
        for config in [config.clone(), config.seed_faithful(), outward] {
            let setup = Setup {
                version: "0.9".to_owned(),
                wall_clock: 5,
                config,
                seed: Seed(6),
                start: Instant(7),
            };
            let mut block = Vec::new();
            setup.put(&mut block);
            let mut fields = Fields(&block);
            let (again, protocol) = Setup::take(&mut fields).unwrap();
            assert_eq!(format!("{again:?}"), format!("{setup:?}"));
            assert!(fields.is_empty() && protocol == qsm_wire::VERSION);
            for length in 0..block.len() {
                assert!(Setup::take(&mut Fields(&block[..length])).is_err());
            }
        }
    }
}
