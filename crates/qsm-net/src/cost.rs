//! CPU time that datagrams take on this machine, measured over loopback.

use std::io;
use std::time::Duration;

use crate::address::Family;
use crate::clock::{monotonic_nanos, thread_cpu_time};
use crate::config::PortConfig;
use crate::interface::choose_interface;
use crate::port::Port;

/// Bytes of a datagram: a message of a few hundred bytes with its headers.
const BYTES: usize = 300;
/// Datagrams of a round: fewer than the smallest receive buffer of a system takes.
const DATAGRAMS: u32 = 64;
/// Rounds, of which the median counts: an interrupt spoils one.
const ROUNDS: usize = 9;
/// Time after which no round is begun any more, nanoseconds.
const TIME_MAX: u64 = 50_000_000;
/// Longest wait for a datagram that was sent on loopback.
const PATIENCE: Duration = Duration::from_millis(10);
/// Receive buffer of the two ports.
const BUFFER_BYTES: usize = 1 << 20;

/// CPU time of one datagram, of the thread that sends or receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramCost {
    /// To send one of some hundred bytes by itself. Over loopback the kernel brings it to the receiver's
    /// socket in that time, too.
    pub sent: Duration,
    /// To find out that one is there, and read it.
    pub received: Duration,
}

impl DatagramCost {
    /// Measures both over loopback, with ports as nodes have them, in 5 ms on a usual machine; after 50 ms no round
    /// is begun any more. Others on the machine do not count, since CPU time is taken.
    ///
    /// # Errors
    /// There is no loopback interface, its ports cannot be opened, or datagrams do not arrive.
    pub fn measure() -> io::Result<Self> {
        let (interface, _) = choose_interface(Some("lo"), Some(Family::V4))
            .map_err(|error| io::Error::other(error.to_string()))?;
        let config = PortConfig {
            receive_buffer_bytes: BUFFER_BYTES,
            ..PortConfig::new(interface)
        };
        let open =
            || Port::open(config.clone()).map_err(|error| io::Error::other(error.to_string()));
        let mut pair = Pair {
            from: open()?,
            to: open()?,
        };
        let end = monotonic_nanos() + TIME_MAX;
        let (mut sent, mut both) = (Vec::new(), Vec::new());
        while sent.len() < ROUNDS && (sent.is_empty() || monotonic_nanos() < end) {
            sent.push(pair.time_sending()?);
            pair.drain()?;
            both.push(pair.time_passing()?);
        }
        let (sent, both) = (median(&mut sent), median(&mut both));
        Ok(Self {
            sent: sent / DATAGRAMS,
            received: both.saturating_sub(sent) / DATAGRAMS,
        })
    }
}

/// Two ports on loopback.
struct Pair {
    from: Port,
    to: Port,
}

impl Pair {
    /// CPU time to send the datagrams of a round.
    fn time_sending(&mut self) -> io::Result<Duration> {
        let start = thread_cpu_time();
        for _ in 0..DATAGRAMS {
            self.send()?;
        }
        Ok(thread_cpu_time().saturating_sub(start))
    }

    /// CPU time to send them, and to receive each before the next.
    fn time_passing(&mut self) -> io::Result<Duration> {
        let start = thread_cpu_time();
        for _ in 0..DATAGRAMS {
            self.send()?;
            self.receive()?;
        }
        Ok(thread_cpu_time().saturating_sub(start))
    }

    fn send(&mut self) -> io::Result<()> {
        let to = self.to.local_addr();
        match self.from.send(to, &[0; BYTES], BYTES) {
            Ok(_) => Ok(()),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }

    /// Receives what is there, at least one datagram.
    fn receive(&mut self) -> io::Result<()> {
        while self.to.receive()? == 0 {
            if !self.to.wait(Some(PATIENCE))?.readable {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "a datagram over loopback did not arrive",
                ));
            }
        }
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        while self.to.receive()? > 0 {}
        Ok(())
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_and_receiving_take_time() {
        let cost = DatagramCost::measure().unwrap();
        assert!(cost.sent > Duration::ZERO, "{cost:?}");
        // No machine takes longer for one.
        assert!(
            cost.sent + cost.received < Duration::from_millis(50),
            "{cost:?}"
        );
    }

    #[test]
    fn the_median_is_no_outlier() {
        let mut times = [1, 900, 2].map(Duration::from_micros);
        assert_eq!(median(&mut times), Duration::from_micros(2));
        assert_eq!(median(&mut []), Duration::ZERO);
    }
}
