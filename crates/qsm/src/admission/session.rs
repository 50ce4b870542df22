//! One end of a session: what is sealed for the other end alone, and the words by it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use qsm_net::{OwnDatagram, Refusal};
use qsm_seal::{Cipher, ClusterKey, KeyId, Opener, Sealer};
use qsm_wire::{AdmissionStage, Header};

use super::packet::{admission, refusal};
use super::words::Words;

/// A session with the other end at this address.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) address: SocketAddr,
    pub(super) words: Words,
    /// When something was opened last.
    pub(super) heard_at: Instant,
    sealer: Sealer,
    opener: Opener,
}

impl Session {
    /// With the secrets of a handshake that ended now.
    pub(super) fn new(
        now: Instant,
        address: SocketAddr,
        says: &[u8; 32],
        hears: &[u8; 32],
    ) -> Self {
        let key = |secret: &[u8; 32]| ClusterKey::from_secret(Cipher::default(), *secret);
        Self {
            address,
            words: Words::default(),
            heard_at: now,
            sealer: Sealer::new(&key(says)),
            opener: Opener::new(&key(hears)),
        }
    }

    /// Number of the key that opens what comes.
    pub(super) fn key(&self) -> KeyId {
        self.opener.key()
    }

    /// Appends a packet of this end's, sealed.
    pub(super) fn seal(&mut self, datagram: &[u8], out: &mut Vec<u8>) -> bool {
        self.sealer.seal(datagram, out).is_ok()
    }

    /// Opens a packet of the other end's.
    pub(super) fn open(&mut self, now: Instant, datagram: &mut [u8]) -> Result<usize, Refusal> {
        let length = self.opener.open(datagram).map_err(refusal)?;
        self.heard_at = now;
        Ok(length)
    }

    /// Sends the words that are due.
    pub(super) fn speak(&mut self, now: Instant, header: &Header, own: &mut VecDeque<OwnDatagram>) {
        while let Some(content) = self.words.poll(now) {
            let packet = admission(header, AdmissionStage::Word, &content);
            self.send(&packet, own);
        }
    }

    /// Sends a packet of the guard's own.
    pub(super) fn send(&mut self, packet: &[u8], own: &mut VecDeque<OwnDatagram>) {
        let mut bytes = Vec::new();
        if self.seal(packet, &mut bytes) {
            let to = self.address;
            own.push_back(OwnDatagram { to, bytes });
        }
    }
}
