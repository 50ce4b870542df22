//! Parity for blocks of packets: of k packets and r parities any k are enough to have all packets.
//!
//! ```text
//!  packets  p0 p1 p2 ... p15        k ≤ 16, of different lengths: shorter ones end in zeros
//!  parity   row 0 = p0 ^ p1 ^ ...   r ≤ 8, as long as the longest packet
//!           row 1 = c₁₀·p0 ^ c₁₁·p1 ^ ...
//! ```
//!
//! The code is Reed-Solomon's over GF(256), with a Cauchy matrix whose columns are scaled so that
//! row 0 is a plain exclusive or: most blocks lack one packet. Every square part of the matrix can
//! be inverted, which is what makes any k of the k + r enough. (Blömer et al., *An XOR-Based
//! Erasure-Resilient Coding Scheme*, 1995.)
//!
//! This crate knows bytes, and no packets: who calls it carries the lengths, and owns all memory.
//! Nothing is allocated. Results do not depend on the processor; its vector instructions only make
//! them faster.
//!
//! ```
//! use qsm_parity::{Restorer, add_row, subtract_row};
//!
//! let packets: [&[u8]; 3] = [b"one", b"two", b"three"];
//! let mut parity = [[0; 5]; 2];
//! for (row, parity) in parity.iter_mut().enumerate() {
//!     for (index, packet) in packets.iter().enumerate() {
//!         add_row(row, index, packet, parity);
//!     }
//! }
//! // Packets 0 and 2 are lost. What has come is taken out of both parities, and the rest solved for.
//! parity.iter_mut().enumerate().for_each(|(row, sum)| subtract_row(row, 1, packets[1], sum));
//! let restorer = Restorer::new(&[0, 1], &[0, 2]).unwrap();
//! let mut restored = [[0; 5]; 2];
//! for (at, into) in restored.iter_mut().enumerate() {
//!     restorer.restore(at, parity.iter().map(|sum| &sum[..]), into);
//! }
//! assert_eq!(restored, [*b"one\0\0", *b"three"]);
//! ```

mod field;
mod restore;
mod scale;

pub use field::{PACKETS_MAX, ROWS_MAX};
pub use restore::Restorer;
pub use scale::add_scaled;

/// Factor of a packet in a parity, never 0. The parity is the sum of all packets, each times its
/// factor; in row 0 all factors are 1.
///
/// # Panics
/// If there is no such row ([`ROWS_MAX`]) or packet ([`PACKETS_MAX`]).
#[must_use]
pub fn factor(row: usize, index: usize) -> u8 {
    field::FACTORS[row][index]
}

/// Adds a packet to a parity, which begins as zeros. What of the packet is beyond the parity's end
/// is left out: a parity is as long as the longest packet.
///
/// # Panics
/// As [`factor`].
pub fn add_row(row: usize, index: usize, packet: &[u8], parity: &mut [u8]) {
    add_scaled(factor(row, index), packet, parity);
}

/// Takes a packet out of a parity. In this field it is the same as adding it.
///
/// # Panics
/// As [`factor`].
pub fn subtract_row(row: usize, index: usize, packet: &[u8], parity: &mut [u8]) {
    add_row(row, index, packet, parity);
}
