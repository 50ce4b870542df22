//! The eBPF programs, and the layout of the memory that they share with this process.
//!
//! ```text
//! arena   ┌─────────┬──────────┬──────────┬─ ...
//!         │ control │ record 0 │ record 1 │         records are `stride` bytes apart
//!         └─────────┴──────────┴──────────┴─ ...
//! record  ┌─────────┬────────┬───────────────────────────────┬────────────────┐
//!         │ ifindex │ status │ Ethernet, IP, UDP header,      │ appended bytes │
//!         │ 4 bytes │ 4      │ prepended bytes (`head_bytes`) │                │
//!         └─────────┴────────┴───────────────────────────────┴────────────────┘
//! ```
//!
//! The arena is a map that is mapped into this process: writing a record costs a store, not a
//! system call, which is cheaper than any batch of map updates. For each record the program
//! overwrites the head and the tail of the packet at hand, sends a clone of it to the record's
//! interface, and leaves in `status` what the kernel said. All headers are made in user space,
//! checksums included, so that the program has no arithmetic to get wrong.

use super::asm::{Assembler, Condition, Helper, Register};

/// Bytes of the arena.
pub(super) const ARENA_BYTES: usize = 1 << 20;
/// Where the first record begins.
pub(super) const RECORDS_AT: usize = 64;
/// Bytes of a record before the packet's head.
pub(super) const RECORD_HEAD_AT: usize = 8;
/// Most bytes of headers and prepended bytes: what fits a packet of 1,500 bytes, and more.
pub(super) const HEAD_MAX: usize = 1536;
/// Most appended bytes.
pub(super) const APPEND_MAX: usize = 1536;
/// Most bytes of a record.
pub(super) const RECORD_MAX: usize = RECORD_HEAD_AT + HEAD_MAX + 8 + APPEND_MAX;
/// Most records that one run of the program goes through. The verifier walks through all of them
/// (at four times as many it gives up), which needs no helper newer than Linux 5.5. More would not
/// be faster: clones to veth wait until the program ends, and 256 of them, at 2.3 KB each, still
/// fit the second-level cache (measured: 1.40 µs per clone in blocks of 100, 1.58 in blocks of 500).
pub(super) const RECORDS_MAX: usize = 256;
/// A status that the program never leaves: it did not come to this record.
pub(super) const UNTOUCHED: i32 = i32::MIN;

/// Fields of the control block, 32 bits each: their places.
pub(super) mod control {
    /// Records to go through.
    pub(in super::super) const COUNT: usize = 0;
    /// Bytes from one record to the next.
    pub(in super::super) const STRIDE: usize = 4;
    /// Bytes of headers and prepended bytes.
    pub(in super::super) const HEAD_BYTES: usize = 8;
    /// Where in the packet the appended bytes go.
    pub(in super::super) const APPEND_AT: usize = 12;
    /// How many there are.
    pub(in super::super) const APPEND_BYTES: usize = 16;
    /// Where in a record they are.
    pub(in super::super) const APPEND_FROM: usize = 20;
    /// The socket's mark.
    pub(in super::super) const MARK: usize = 24;
    /// The socket's priority.
    pub(in super::super) const PRIORITY: usize = 28;
    /// How often the program ran; it counts itself.
    pub(in super::super) const RUNS: usize = 32;
}

/// Places in the kernel's `struct __sk_buff`.
const SKB_LEN: i16 = 0;
pub(super) const SKB_MARK: i16 = 8;
pub(super) const SKB_PRIORITY: i16 = 32;
/// The packet is for this host.
const PACKET_HOST: i32 = 0;
/// Ends the packet, which was only the stamp that the clones were made with.
const TC_ACT_SHOT: i32 = 2;
/// Ends a packet and calls that a success.
pub(super) const TC_ACT_STOLEN: i32 = 4;

/// The program that clones, for an arena that is the only value of this map.
pub(super) fn clone_program(map: i32) -> Vec<u64> {
    use Register::{R0, R1, R6, R7, R8, R9};
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.map_value(R7, map);
    asm.load(R0, R7, control::RUNS as i16);
    asm.add(R0, 1);
    asm.store(R7, control::RUNS as i16, R0);
    asm.load(R1, R7, control::MARK as i16);
    asm.store(R6, SKB_MARK, R1);
    asm.load(R1, R7, control::PRIORITY as i16);
    asm.store(R6, SKB_PRIORITY, R1);
    // It arrived for another Ethernet address; on loopback its clones would be taken for strays.
    asm.copy(R1, R6);
    asm.set(Register::R2, PACKET_HOST);
    asm.call(Helper::SkbChangeType);
    // R8 counts records, R9 is where the present one begins.
    asm.set(R8, 0);
    asm.set(R9, RECORDS_AT as i32);

    asm.label("next");
    asm.jump_if(R8, Condition::AtLeast, RECORDS_MAX as i32, "out");
    asm.load(R1, R7, control::COUNT as i16);
    asm.jump_if_register(R8, Condition::AtLeast, R1, "out");
    asm.jump_if(
        R9,
        Condition::Above,
        (ARENA_BYTES - RECORD_MAX) as i32,
        "out",
    );
    write_head(&mut asm);
    write_appended(&mut asm);

    asm.label("clone");
    asm.copy(R1, R7);
    asm.add_register(R1, R9);
    asm.load(Register::R2, R1, 0);
    asm.copy(R1, R6);
    asm.set(Register::R3, 0);
    asm.call(Helper::CloneRedirect);

    asm.label("status");
    asm.copy(R1, R7);
    asm.add_register(R1, R9);
    asm.store(R1, 4, R0);
    asm.load(R1, R7, control::STRIDE as i16);
    asm.add_register(R9, R1);
    asm.add(R8, 1);
    asm.jump("next");

    asm.label("out");
    asm.set(R0, TC_ACT_SHOT);
    asm.exit();
    asm.finish()
}

/// Headers and prepended bytes, from the record to the packet's beginning.
fn write_head(asm: &mut Assembler) {
    use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R9};
    asm.load(R4, R7, control::HEAD_BYTES as i16);
    asm.jump_if(R4, Condition::Equal, 0, "out");
    asm.jump_if(R4, Condition::Above, HEAD_MAX as i32, "out");
    asm.copy(R3, R7);
    asm.add_register(R3, R9);
    asm.add(R3, RECORD_HEAD_AT as i32);
    asm.copy(R1, R6);
    asm.set(R2, 0);
    asm.set(R5, 0);
    asm.call(Helper::SkbStoreBytes);
    asm.jump_if(R0, Condition::NotEqual, 0, "status");
}

/// Appended bytes, from the record to the packet's end.
fn write_appended(asm: &mut Assembler) {
    use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R9};
    asm.load(R4, R7, control::APPEND_BYTES as i16);
    asm.jump_if(R4, Condition::Equal, 0, "clone");
    asm.jump_if(R4, Condition::Above, APPEND_MAX as i32, "out");
    asm.load(R1, R7, control::APPEND_FROM as i16);
    let from_max = RECORD_MAX - APPEND_MAX;
    asm.jump_if(R1, Condition::Above, from_max as i32, "out");
    asm.copy(R3, R7);
    asm.add_register(R3, R9);
    asm.add_register(R3, R1);
    asm.load(R2, R7, control::APPEND_AT as i16);
    asm.copy(R1, R6);
    asm.set(R5, 0);
    asm.call(Helper::SkbStoreBytes);
    asm.jump_if(R0, Condition::NotEqual, 0, "status");
}

/// A program that ends every packet and counts packets and bytes: a wire without an other end.
pub(super) fn discard_program(map: i32) -> Vec<u64> {
    use Register::{R0, R1, R2, R7};
    let mut asm = Assembler::default();
    asm.map_value(R7, map);
    asm.load(R2, R1, SKB_LEN);
    asm.add_in_memory(R7, 8, R2);
    asm.set(R2, 1);
    asm.add_in_memory(R7, 0, R2);
    asm.set(R0, TC_ACT_STOLEN);
    asm.exit();
    asm.finish()
}
