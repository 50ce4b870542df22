//! A small assembler for eBPF.
//!
//! The program of this crate has some forty instructions. Assembling them here needs no clang and no
//! object file that could differ from its source: what is below is what the kernel's verifier reads.

use std::collections::HashMap;

/// A register. `R0` holds results, `R1` to `R5` arguments (lost in calls), `R6` to `R9` stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
}

/// Conditions of jumps, unsigned.
#[derive(Debug, Clone, Copy)]
pub(super) enum Condition {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    NotEqual = 0x50,
}

/// Functions of the kernel, with their numbers in `linux/bpf.h`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Helper {
    SkbStoreBytes = 9,
    CloneRedirect = 13,
    SkbChangeType = 32,
}

/// A program in the making.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
    labels: HashMap<&'static str, usize>,
    /// Jumps whose targets are not known yet.
    jumps: Vec<(usize, &'static str)>,
}

impl Assembler {
    fn push(&mut self, opcode: u8, target: Register, source: u8, offset: i16, value: i32) {
        let registers = target as u8 | (source << 4);
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = value.to_le_bytes();
        self.code.push(u64::from_le_bytes([
            opcode, registers, low, high, a, b, c, d,
        ]));
    }

    /// Names the next instruction.
    pub(super) fn label(&mut self, name: &'static str) {
        self.labels.insert(name, self.code.len());
    }

    /// `target = value`
    pub(super) fn set(&mut self, target: Register, value: i32) {
        self.push(0xb7, target, 0, 0, value);
    }

    /// `target = source`
    pub(super) fn copy(&mut self, target: Register, source: Register) {
        self.push(0xbf, target, source as u8, 0, 0);
    }

    /// `target += value`
    pub(super) fn add(&mut self, target: Register, value: i32) {
        self.push(0x07, target, 0, 0, value);
    }

    /// `target += source`
    pub(super) fn add_register(&mut self, target: Register, source: Register) {
        self.push(0x0f, target, source as u8, 0, 0);
    }

    /// `target = *(u32 *)(base + offset)`
    pub(super) fn load(&mut self, target: Register, base: Register, offset: i16) {
        self.push(0x61, target, base as u8, offset, 0);
    }

    /// `*(u32 *)(base + offset) = source`
    pub(super) fn store(&mut self, base: Register, offset: i16, source: Register) {
        self.push(0x63, base, source as u8, offset, 0);
    }

    /// `*(u64 *)(base + offset) += source`, in one step
    pub(super) fn add_in_memory(&mut self, base: Register, offset: i16, source: Register) {
        self.push(0xdb, base, source as u8, offset, 0);
    }

    /// `target =` address of the first value of a map
    pub(super) fn map_value(&mut self, target: Register, map: i32) {
        const PSEUDO_MAP_VALUE: u8 = 2;
        self.push(0x18, target, PSEUDO_MAP_VALUE, 0, map);
        self.push(0, Register::R0, 0, 0, 0);
    }

    /// Goes to a label.
    pub(super) fn jump(&mut self, to: &'static str) {
        self.jumps.push((self.code.len(), to));
        self.push(0x05, Register::R0, 0, 0, 0);
    }

    /// Goes to a label if the condition holds between a register and a number.
    pub(super) fn jump_if(
        &mut self,
        left: Register,
        condition: Condition,
        right: i32,
        to: &'static str,
    ) {
        self.jumps.push((self.code.len(), to));
        self.push(0x05 | condition as u8, left, 0, 0, right);
    }

    /// The same between two registers.
    pub(super) fn jump_if_register(
        &mut self,
        left: Register,
        condition: Condition,
        right: Register,
        to: &'static str,
    ) {
        self.jumps.push((self.code.len(), to));
        self.push(0x0d | condition as u8, left, right as u8, 0, 0);
    }

    /// Calls the kernel.
    pub(super) fn call(&mut self, helper: Helper) {
        self.push(0x85, Register::R0, 0, 0, helper as i32);
    }

    /// Ends the program with the result in `R0`.
    pub(super) fn exit(&mut self) {
        self.push(0x95, Register::R0, 0, 0, 0);
    }

    /// The finished program.
    ///
    /// # Panics
    /// If a label is missing, or too far away: the programs are constants, so a test would see it.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for (at, to) in self.jumps {
            let target = self.labels[to] as i64;
            let distance = target - at as i64 - 1;
            let offset = i16::try_from(distance).expect("programs here are short");
            self.code[at] |= u64::from(offset as u16) << 16;
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_kernels_headers_say() {
        let mut asm = Assembler::default();
        asm.label("start");
        asm.set(Register::R0, 2);
        asm.load(Register::R4, Register::R7, 8);
        asm.jump_if(Register::R4, Condition::Above, 1536, "out");
        asm.call(Helper::CloneRedirect);
        asm.jump("start");
        asm.label("out");
        asm.exit();
        let bytes: Vec<[u8; 8]> = asm.finish().into_iter().map(u64::to_le_bytes).collect();
        assert_eq!(bytes[0], [0xb7, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[1], [0x61, 0x74, 8, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[2], [0x25, 4, 2, 0, 0, 6, 0, 0]);
        assert_eq!(bytes[3], [0x85, 0, 0, 0, 13, 0, 0, 0]);
        assert_eq!(bytes[4], [0x05, 0, 0xfb, 0xff, 0, 0, 0, 0]);
        assert_eq!(bytes[5], [0x95, 0, 0, 0, 0, 0, 0, 0]);
    }
}
