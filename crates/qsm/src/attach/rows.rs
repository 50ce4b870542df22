//! Lists of the cluster on their way to an attached process: one record in a memory of its own, as
//! long as the list, which the wire's own codec wrote.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use qsm_net::SharedMemory;
use qsm_wire::membership::{Answer, AnswerRows, FromService, QueryKind};

use super::ring::{Reader, Writer, Written, memory_words, message_bytes_max};

/// A memory that holds these rows, and its capacity in words.
pub(super) fn write(rows: AnswerRows) -> io::Result<(OwnedFd, u64)> {
    let request = 0;
    let result = Ok(rows);
    let answer = FromService::Answer(Answer { request, result });
    let mut bytes = Vec::new();
    answer.encode(&mut bytes);
    let words = bytes.len().div_ceil(size_of::<u64>()) + 1;
    let capacity = words.next_power_of_two();
    let (memory, descriptor) = SharedMemory::create(memory_words(1, capacity))?;
    let mut writer = Writer::<0>::new(Arc::new(memory), 0, capacity);
    match writer.write(0, [], &bytes) {
        Ok(Written::Yes) => Ok((descriptor, capacity as u64)),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

/// The rows in a memory of so many words; `None` if there are none.
pub(super) fn read(descriptors: Vec<OwnedFd>, words: u64) -> Option<AnswerRows> {
    let [descriptor] = <[OwnedFd; 1]>::try_from(descriptors).ok()?;
    let capacity = usize::try_from(words)
        .ok()
        .filter(|words| words.is_power_of_two())?;
    let memory = SharedMemory::open(descriptor, memory_words(1, capacity)).ok()?;
    let mut reader = Reader::<0>::new(Arc::new(memory), 0, capacity);
    let record = reader.next().ok()??;
    debug_assert!(record.bytes.len() <= message_bytes_max(capacity, 0));
    match FromService::decode(record.bytes).ok()? {
        FromService::Answer(answer) => answer.result.ok(),
        _ => None,
    }
}

/// As it travels.
pub(super) fn code(kind: QueryKind) -> u32 {
    match kind {
        QueryKind::Nodes => 0,
        QueryKind::Groups => 1,
        QueryKind::Regions => 2,
    }
}

/// Out of [`code`].
pub(super) fn kind(code: u32) -> Option<QueryKind> {
    let kinds = [QueryKind::Nodes, QueryKind::Groups, QueryKind::Regions];
    kinds.into_iter().find(|kind| self::code(*kind) == code)
}

#[cfg(test)]
mod tests {
    use qsm_wire::GroupId;
    use qsm_wire::membership::GroupRow;

    use super::*;

    #[test]
    fn rows_travel_whole_and_nonsense_is_none() {
        let row = |number| GroupRow {
            group: GroupId(number),
            name: format!("group/{number}"),
            members: 1,
            regions: 2,
            publishers: 3,
        };
        let rows: Vec<GroupRow> = (0..5000).map(row).collect();
        let (descriptor, words) = write(AnswerRows::Groups(rows.clone())).unwrap();
        let again = descriptor.try_clone().unwrap();
        let Some(AnswerRows::Groups(read_back)) = read(vec![descriptor], words) else {
            panic!("other rows");
        };
        assert!(read_back == rows);
        assert!(read(vec![again], words / 2).is_none());
        assert!(read(Vec::new(), words).is_none());
    }
}
