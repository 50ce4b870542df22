//! What stands in a block, one after the other.

use core::ops::ControlFlow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_proto::Instant;

use crate::error::Ending;
use crate::fields::{Fields, Malformed, Put};
use crate::input::{Addresses, Input};
use crate::outputs::Outputs;

/// Addresses that have numbers; later ones are written each time.
const ADDRESSES_MAX: usize = 4096;
/// Marks an input whose time is not that of the one before.
const NEW_TIME: u8 = 0x80;

/// Numbers of what is no input.
mod tag {
    pub(super) const REFILL: u8 = 1;
    pub(super) const BUFFER: u8 = 2;
    pub(super) const OUTPUTS: u8 = 3;
    pub(super) const UNFINISHED: u8 = 4;
    pub(super) const END: u8 = 5;
}

/// Something in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// Buffers lent so far are void, except to those who hold them; numbers begin again.
    Refill,
    /// A buffer, of which datagrams are lent.
    Buffer(&'a [u8]),
    /// A call.
    Input(Instant, Input<'a>),
    /// What the call before gave. Missing if it gave nothing.
    Outputs(Outputs),
    /// The call before did not come back: a panic.
    Unfinished,
    /// Nothing follows.
    End(Ending),
}

/// Writes entries.
#[derive(Debug, Default)]
pub(crate) struct EntryWriter {
    now: Instant,
    numbers: BTreeMap<SocketAddr, usize>,
}

impl EntryWriter {
    pub(crate) fn put(&mut self, entry: &Entry<'_>, to: &mut Vec<u8>) {
        match entry {
            Entry::Refill => to.push(tag::REFILL),
            Entry::Buffer(bytes) => {
                to.push(tag::BUFFER);
                to.bytes(bytes);
            }
            Entry::Input(now, input) => self.put_input(*now, input, to),
            Entry::Outputs(outputs) => {
                to.push(tag::OUTPUTS);
                to.number(outputs.count);
                to.extend_from_slice(&outputs.hash.to_le_bytes());
            }
            Entry::Unfinished => to.push(tag::UNFINISHED),
            Entry::End(ending) => {
                to.push(tag::END);
                to.number(match ending {
                    Ending::Closed => 0,
                    Ending::Limit => 1,
                    Ending::Slow => 2,
                    Ending::Cut => 3,
                });
            }
        }
    }

    fn put_input(&mut self, now: Instant, input: &Input<'_>, to: &mut Vec<u8>) {
        if now == self.now {
            to.push(input.tag());
        } else {
            to.push(input.tag() | NEW_TIME);
            // Whoever says an earlier time means it: the state machine takes the latest.
            to.number(now.0.wrapping_sub(self.now.0));
            self.now = now;
        }
        input.put(self, to);
    }
}

impl Addresses for EntryWriter {
    fn put_address(&mut self, address: SocketAddr, to: &mut Vec<u8>) {
        let next = self.numbers.len();
        match self.numbers.get(&address) {
            Some(number) => to.count(*number),
            None => {
                to.count(next);
                to.address(address);
                if next < ADDRESSES_MAX {
                    self.numbers.insert(address, next);
                }
            }
        }
    }
}

/// Reads entries.
#[derive(Debug, Default)]
pub(crate) struct EntryReader {
    now: Instant,
    addresses: Vec<SocketAddr>,
}

impl EntryReader {
    /// Gives each entry of a block to `each`, until that breaks.
    pub(crate) fn read<B>(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(Entry<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Malformed> {
        let mut fields = Fields(block);
        while !fields.is_empty() {
            let entry = self.take(&mut fields)?;
            if let broken @ ControlFlow::Break(_) = each(entry) {
                return Ok(broken);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn take<'a>(&mut self, fields: &mut Fields<'a>) -> Result<Entry<'a>, Malformed> {
        let tag = fields.byte()?;
        Ok(match tag {
            tag::REFILL => Entry::Refill,
            tag::BUFFER => Entry::Buffer(fields.bytes()?),
            tag::OUTPUTS => Entry::Outputs(Outputs {
                count: fields.number()?,
                hash: u64::from_le_bytes(fields.array()?),
            }),
            tag::UNFINISHED => Entry::Unfinished,
            tag::END => Entry::End(match fields.number()? {
                0 => Ending::Closed,
                1 => Ending::Limit,
                2 => Ending::Slow,
                3 => Ending::Cut,
                _ => return Err(Malformed),
            }),
            _ => {
                if tag & NEW_TIME != 0 {
                    self.now = Instant(self.now.0.wrapping_add(fields.number()?));
                }
                let addresses = &mut self.addresses;
                let address = |fields: &mut Fields<'_>| take_address(addresses, fields);
                let input = Input::take(tag & !NEW_TIME, fields, address)?;
                Entry::Input(self.now, input)
            }
        })
    }
}

fn take_address(
    known: &mut Vec<SocketAddr>,
    fields: &mut Fields<'_>,
) -> Result<SocketAddr, Malformed> {
    let number: usize = fields.narrow()?;
    if let Some(address) = known.get(number) {
        return Ok(*address);
    }
    if number != known.len() {
        return Err(Malformed);
    }
    let address = fields.address()?;
    if number < ADDRESSES_MAX {
        known.push(address);
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use qsm_proto::FullReaders;
    use qsm_wire::GroupId;
    use qsm_wire::membership::{QueryKind, Role};

    use super::*;

    fn all(block: &[u8]) -> Result<Vec<String>, Malformed> {
        let mut seen = Vec::new();
        let each = |entry: Entry<'_>| {
            seen.push(format!("{entry:?}"));
            ControlFlow::<()>::Continue(())
        };
        let read = EntryReader::default().read(block, each);
        read.map(|_| seen)
    }

    fn patient<'a>() -> Input<'a> {
        Input::Batching {
            batching: qsm_proto::send::Batching::default(),
        }
    }

    fn entries<'a>(from: SocketAddr) -> Vec<Entry<'a>> {
        let at = |time: u64, input: Input<'a>| Entry::Input(Instant(time), input);
        let (role, second) = (Role::Publisher, Some(from));
        let groups = vec!["a", "ä/b"];
        let list = QueryKind::Regions;
        let time = Duration::from_millis(3);
        let outputs = Outputs { count: 3, hash: 9 };
        vec![
            at(5, Input::Backlog { waiting: true }),
            at(7, Input::Datagram { from, bytes: b"x" }),
            at(7, Input::Datagram { from, bytes: b"" }),
            Entry::Outputs(outputs),
            Entry::Refill,
            Entry::Buffer(b"buffer"),
            at(
                6,
                Input::Lent {
                    from,
                    buffer: 0,
                    start: 1,
                    length: 2,
                },
            ),
            at(9, Input::Drops { packets: 300 }),
            at(
                9,
                Input::Enter {
                    role,
                    groups: groups.clone(),
                },
            ),
            at(9, Input::Exit { role, groups }),
            at(9, Input::Event),
            at(
                9,
                Input::Move {
                    address: from,
                    second,
                },
            ),
            at(9, Input::Open { group: GroupId(4) }),
            at(9, Input::Push { payload: b"p" }),
            at(9, Input::Query { list }),
            at(u64::MAX, Input::Service { address: from }),
            at(10, Input::Timeout),
            at(10, Input::Transmit),
            at(10, Input::Sojourn { waited: time }),
            at(10, Input::Foreign { at: from }),
            at(10, Input::Wait { time }),
            at(
                10,
                Input::Readers {
                    full: FullReaders::of(vec![GroupId(3), GroupId(400)]),
                },
            ),
            at(
                10,
                Input::Readers {
                    full: FullReaders::All,
                },
            ),
            at(
                10,
                Input::Readers {
                    full: FullReaders::None,
                },
            ),
            at(10, Input::Close),
            Entry::Unfinished,
            Entry::End(Ending::Limit),
        ]
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut written = entries("10.0.0.1:5".parse().unwrap());
        written.insert(0, Entry::Input(Instant(0), patient()));
        let described = Input::Describe { text: "a desk" };
        written.insert(1, Entry::Input(Instant(0), described));
        let (mut writer, mut block) = (EntryWriter::default(), Vec::new());
        written
            .iter()
            .for_each(|entry| writer.put(entry, &mut block));
        let shown: Vec<_> = written.iter().map(|entry| format!("{entry:?}")).collect();
        assert_eq!(all(&block), Ok(shown));
    }

    #[test]
    fn no_bytes_are_read_without_end_or_panic() {
        let (mut writer, mut block) = (EntryWriter::default(), Vec::new());
        for entry in entries("[::1]:5".parse().unwrap()) {
            writer.put(&entry, &mut block);
        }
        for place in 0..block.len() {
            for change in [1, 0x40, 0x80, 0xff] {
                let mut other = block.clone();
                other[place] ^= change;
                let read = all(&other);
                assert!(read.is_err() || read.is_ok_and(|entries| entries.len() <= block.len()));
            }
            let _cut = all(&block[..place]);
        }
    }

    #[test]
    fn more_addresses_than_have_numbers_are_written_each_time() {
        let (mut writer, mut block, mut written) = (EntryWriter::default(), Vec::new(), Vec::new());
        for host in (0..5000).chain(0..5000) {
            let from = SocketAddr::from(([10, 0, (host >> 8) as u8, host as u8], 9));
            let entry = Entry::Input(Instant(0), Input::Datagram { from, bytes: b"" });
            writer.put(&entry, &mut block);
            written.push(format!("{entry:?}"));
        }
        assert_eq!(all(&block), Ok(written));
    }
}
