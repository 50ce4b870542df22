//! The equations, a function each.

mod budget;
mod buffers;
mod checks;
mod interrupts;
mod network;
mod packets;
mod repair;

pub use budget::{Part, budget};
pub use buffers::{OVERHEAD, buffer, delay, memory, retention};
pub use interrupts::{DESCRIPTOR, coalescing, ring};
pub use network::{MEDIUM, propagation, queue, serialization};
pub use packets::{HEADERS, PACKET, batching};
pub use repair::{repair, repair_rate, tcp_order};
