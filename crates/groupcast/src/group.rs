//! Who receives: membership that lives in user space alone.
//!
//! Adding and removing touch no kernel state and cost no system call (requirement R183: the paper
//! took the group out of the socket for that reason). Members lie in one dense array, since a send
//! walks over all of them; a removed member's place is taken by the last one. An index by address
//! makes `add` and `remove` take constant time and finds members that would be there twice.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;

use crate::recipient::{RECIPIENTS_MAX, Recipient, Via};

/// A set of recipients, each with bytes of its own.
#[derive(Debug, Default, Clone)]
pub struct Group {
    members: Vec<Member>,
    /// Place in `members` by address and socket.
    places: HashMap<(SocketAddr, Via), u32>,
}

/// One member: where it is, and what only it receives.
#[derive(Debug, Clone, Default)]
struct Own {
    /// Prepended bytes, then appended ones.
    bytes: Vec<u8>,
    prepended: usize,
}

#[derive(Debug, Clone)]
struct Member {
    to: SocketAddr,
    via: Via,
    own: Own,
}

impl Group {
    /// A group of nobody.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Adds a member; its bytes are copied.
    ///
    /// # Errors
    /// [`GroupError::AlreadyMember`] if the address is in the group by the same socket, and
    /// [`GroupError::Full`] at [`RECIPIENTS_MAX`] members.
    pub fn add(&mut self, recipient: &Recipient<'_>) -> Result<(), GroupError> {
        let key = (recipient.to, recipient.via);
        if self.places.contains_key(&key) {
            return Err(GroupError::AlreadyMember { to: recipient.to });
        }
        if self.members.len() >= RECIPIENTS_MAX {
            return Err(GroupError::Full {
                max: RECIPIENTS_MAX,
            });
        }
        self.places
            .insert(key, u32::try_from(self.members.len()).unwrap_or(u32::MAX));
        let mut member = Member {
            to: recipient.to,
            via: recipient.via,
            own: Own::default(),
        };
        member.own.set(recipient.prepend, recipient.append);
        self.members.push(member);
        Ok(())
    }

    /// Takes a member out; `false` if it was not in.
    pub fn remove(&mut self, to: SocketAddr, via: Via) -> bool {
        let Some(place) = self.places.remove(&(to, via)) else {
            return false;
        };
        self.members.swap_remove(place as usize);
        if let Some(moved) = self.members.get(place as usize) {
            self.places.insert((moved.to, moved.via), place);
        }
        true
    }

    /// Replaces a member's own bytes; `false` if it is not in.
    pub fn set_own(&mut self, to: SocketAddr, via: Via, prepend: &[u8], append: &[u8]) -> bool {
        let Some(place) = self.places.get(&(to, via)) else {
            return false;
        };
        self.members[*place as usize].own.set(prepend, append);
        true
    }

    /// Whether an address is in by this socket.
    #[must_use]
    pub fn contains(&self, to: SocketAddr, via: Via) -> bool {
        self.places.contains_key(&(to, via))
    }

    /// The members, in the order in which errors are reported. Removing changes that order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Recipient<'_>> {
        (0..self.members.len()).map(|index| self.at(index))
    }

    /// Lets the caller write every member's prepended bytes, in the order of [`Group::iter`]:
    /// sequence numbers change with every packet, and looking members up would cost more.
    pub fn prepended_mut(&mut self) -> impl ExactSizeIterator<Item = (SocketAddr, &mut [u8])> {
        self.members.iter_mut().map(|member| {
            let prepended = member.own.prepended;
            (member.to, &mut member.own.bytes[..prepended])
        })
    }

    pub(crate) fn at(&self, index: usize) -> Recipient<'_> {
        let member = &self.members[index];
        let (prepend, append) = member.own.bytes.split_at(member.own.prepended);
        Recipient {
            to: member.to,
            via: member.via,
            prepend,
            append,
        }
    }
}

impl Own {
    fn set(&mut self, prepend: &[u8], append: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(prepend);
        self.bytes.extend_from_slice(append);
        self.prepended = prepend.len();
    }
}

/// Why somebody cannot become a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// The same address by the same socket.
    AlreadyMember {
        /// The address.
        to: SocketAddr,
    },
    /// The group has as many members as one may have.
    Full {
        /// The limit.
        max: usize,
    },
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyMember { to } => write!(f, "{to} is a member already"),
            Self::Full { max } => write!(f, "the group has {max} members, the most there may be"),
        }
    }
}

impl std::error::Error for GroupError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> SocketAddr {
        SocketAddr::new(std::net::Ipv4Addr::from(0x0a00_0000 + n).into(), 9000)
    }

    #[test]
    fn a_member_is_in_once() {
        let mut group = Group::new();
        let recipient = Recipient::new(address(1)).prepend(b"a");
        group.add(&recipient).unwrap();
        let again = group.add(&Recipient::new(address(1)));
        assert_eq!(again, Err(GroupError::AlreadyMember { to: address(1) }));
        group.add(&recipient.via(Via::Socket(1))).unwrap();
        assert_eq!(group.len(), 2);
    }

    #[test]
    fn the_last_member_takes_the_place_of_one_that_leaves() {
        let mut group = Group::new();
        for n in 0..4 {
            group.add(&Recipient::new(address(n))).unwrap();
        }
        assert!(group.remove(address(1), Via::Family));
        assert!(!group.remove(address(1), Via::Family));
        let left: Vec<_> = group.iter().map(|r| r.to).collect();
        assert_eq!(left, [address(0), address(3), address(2)]);
        assert!(group.set_own(address(3), Via::Family, b"xy", b"z"));
        assert_eq!(group.at(1).prepend, b"xy");
        assert_eq!(group.at(1).append, b"z");
        for (_, bytes) in group.prepended_mut() {
            bytes.fill(b'-');
        }
        assert_eq!(group.at(1).prepend, b"--");
        assert!(group.remove(address(2), Via::Family));
        assert!(group.remove(address(3), Via::Family));
        assert!(group.contains(address(0), Via::Family));
        assert_eq!(group.len(), 1);
    }

    #[test]
    fn a_full_group_takes_nobody_else() {
        let mut group = Group::new();
        for n in 0..RECIPIENTS_MAX {
            group
                .add(&Recipient::new(address(u32::try_from(n).unwrap())))
                .unwrap();
        }
        let one_more = group.add(&Recipient::new(address(u32::MAX >> 8)));
        assert_eq!(
            one_more,
            Err(GroupError::Full {
                max: RECIPIENTS_MAX
            })
        );
    }
}
