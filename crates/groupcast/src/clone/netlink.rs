//! Questions to the kernel's routing tables, and news about them.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::sockopt::check;

/// Longest answer to one question, and room for a burst of news.
const BUFFER_BYTES: usize = 64 * 1024;
/// Bytes of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;

/// A netlink socket of the family for routing.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// A message: its type and what follows its header.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) kind: u16,
    pub(crate) body: Vec<u8>,
}

/// A question in the making: a fixed part, then attributes.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// With the fixed part that this type of message has.
    pub(crate) fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (flags | libc::NLM_F_REQUEST) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Self { bytes }
    }

    /// The same with flags besides those it has.
    fn flags(mut self, flags: i32) -> Self {
        let [low, high] = (flags as u16).to_ne_bytes();
        self.bytes[6] |= low;
        self.bytes[7] |= high;
        self
    }

    /// The same with one more attribute.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let len = (4 + value.len()) as u16;
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        let padding = self.bytes.len().next_multiple_of(4) - self.bytes.len();
        self.bytes.extend_from_slice(&[0; 3][..padding]);
        self
    }

    /// The attributes alone, to be the value of another attribute.
    pub(crate) fn nested(self) -> Vec<u8> {
        self.bytes[HEADER_BYTES..].to_vec()
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

impl Netlink {
    /// Opens a socket that hears of changes in these groups (bits of `RTMGRP_*`).
    pub(crate) fn new(groups: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes integers only.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        check(fd)?;
        // SAFETY: the call has just made this descriptor for us alone.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: plain data for which zeroes are valid.
        let mut name: libc::sockaddr_nl = unsafe { mem::zeroed() };
        name.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        name.nl_groups = groups;
        let len = size_of_val(&name) as libc::socklen_t;
        // SAFETY: `name` is an address of the length given.
        check(unsafe { libc::bind(fd, (&raw const name).cast(), len) })?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    pub(crate) fn fd(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Asks, and returns the first message of the answer.
    ///
    /// # Errors
    /// The error that the kernel answers with: for a route, what a send would meet.
    pub(crate) fn ask(&mut self, request: Request) -> io::Result<Reply> {
        self.send(request)?;
        loop {
            let received = self.receive(0)?;
            let mut at = 0;
            while let Some((kind, sequence, body)) = message(&self.buffer[..received], &mut at) {
                if sequence == self.sequence {
                    return answer(kind, body);
                }
            }
        }
    }

    /// Asks for all there are of a kind.
    ///
    /// # Errors
    /// The error that the kernel answers with.
    pub(crate) fn list(&mut self, request: Request) -> io::Result<Vec<Reply>> {
        self.send(request.flags(libc::NLM_F_DUMP))?;
        let mut all = Vec::new();
        loop {
            let received = self.receive(0)?;
            let mut at = 0;
            while let Some((kind, sequence, body)) = message(&self.buffer[..received], &mut at) {
                if sequence != self.sequence {
                    continue;
                }
                if kind == libc::NLMSG_DONE as u16 {
                    return Ok(all);
                }
                all.push(answer(kind, body)?);
            }
        }
    }

    /// Tells the kernel to do something, and waits for its consent.
    pub(crate) fn order(&mut self, request: Request) -> io::Result<()> {
        self.ask(request).map(drop)
    }

    /// News that have come. `None` if some were lost, so that nothing known can be trusted.
    pub(crate) fn news(&mut self) -> Option<Vec<Reply>> {
        let mut news = Vec::new();
        loop {
            match self.receive(libc::MSG_DONTWAIT) {
                Ok(received) => {
                    let mut at = 0;
                    while let Some((kind, _, body)) = message(&self.buffer[..received], &mut at) {
                        news.push(Reply {
                            kind,
                            body: body.to_vec(),
                        });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(news),
                Err(_) => return None,
            }
        }
    }

    fn send(&mut self, request: Request) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.finish(self.sequence);
        // SAFETY: the buffer is live and of the length given.
        let sent = unsafe { libc::send(self.fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn receive(&mut self, flags: i32) -> io::Result<usize> {
        loop {
            let room = self.buffer.len();
            // SAFETY: the buffer is live, writable and of the length given.
            let received =
                unsafe { libc::recv(self.fd(), self.buffer.as_mut_ptr().cast(), room, flags) };
            if let Ok(received) = usize::try_from(received) {
                return Ok(received);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

/// An answer, unless it is that the kernel refuses.
fn answer(kind: u16, body: &[u8]) -> io::Result<Reply> {
    let code = word(body, 0).unwrap_or(0) as i32;
    if kind == libc::NLMSG_ERROR as u16 && code != 0 {
        return Err(io::Error::from_raw_os_error(-code));
    }
    Ok(Reply {
        kind,
        body: body.to_vec(),
    })
}

/// The message at this place: type, sequence number, body. Moves on to the next.
fn message<'a>(bytes: &'a [u8], at: &mut usize) -> Option<(u16, u32, &'a [u8])> {
    let rest = bytes.get(*at..)?;
    let len = word(rest, 0)? as usize;
    let whole = rest
        .get(..len)
        .filter(|whole| whole.len() >= HEADER_BYTES)?;
    let kind = u16::from_ne_bytes([whole[4], whole[5]]);
    let sequence = word(whole, 8)?;
    *at += len.next_multiple_of(4);
    Some((kind, sequence, &whole[HEADER_BYTES..]))
}

impl Reply {
    /// A byte of the fixed part.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.body.get(at).copied().unwrap_or(0)
    }

    /// 32 bits of the fixed part.
    pub(crate) fn word(&self, at: usize) -> u32 {
        word(&self.body, at).unwrap_or(0)
    }

    /// The value of an attribute behind a fixed part of this length.
    pub(crate) fn attribute(&self, fixed: usize, kind: u16) -> Option<&[u8]> {
        find(self.body.get(fixed..)?, kind)
    }

    /// The same as a number of 32 bits.
    pub(crate) fn attribute_word(&self, fixed: usize, kind: u16) -> Option<u32> {
        word(self.attribute(fixed, kind)?, 0)
    }
}

/// An attribute within a list of them.
pub(crate) fn find(list: &[u8], kind: u16) -> Option<&[u8]> {
    /// The two upper bits say how the value is to be read, not what it is.
    const KIND_MASK: u16 = 0x3fff;
    let mut rest = list;
    loop {
        let len = usize::from(u16::from_ne_bytes([*rest.first()?, *rest.get(1)?]));
        let found = u16::from_ne_bytes([*rest.get(2)?, *rest.get(3)?]) & KIND_MASK;
        let value = rest.get(4..len)?;
        if found == kind {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes([four[0], four[1], four[2], four[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_found_again() {
        let request = Request::new(26, 0, &[2, 32, 0, 0]).attribute(1, &[10, 0, 0, 1]);
        let bytes = request.attribute(4, &[7]).attribute(9, &[1, 2]).finish(5);
        assert_eq!(bytes.len() % 4, 0);
        let mut at = 0;
        let (kind, sequence, body) = message(&bytes, &mut at).unwrap();
        assert_eq!((kind, sequence, at), (26, 5, bytes.len()));
        let reply = Reply {
            kind,
            body: body.to_vec(),
        };
        assert_eq!(reply.attribute(4, 4), Some(&[7][..]));
        assert_eq!(reply.attribute(4, 9), Some(&[1, 2][..]));
        assert_eq!(reply.attribute(4, 3), None);
        assert!(message(&bytes, &mut at).is_none());
    }
}
