//! From sums of what is lost to what is lost.

use crate::field::{FACTORS, ROWS_MAX, inverse, times};
use crate::scale::add_scaled;

/// Restores the packets that are lost of one block, out of as many parities.
///
/// A parity from which all packets that have come are taken out
/// ([`subtract_row`](crate::subtract_row)) is a sum of those that are lost; so many sums are so many
/// equations.
#[derive(Debug, Clone, Copy)]
pub struct Restorer {
    /// The inverse of the factors of what is lost.
    solution: [[u8; ROWS_MAX]; ROWS_MAX],
    count: usize,
}

impl Restorer {
    /// Solves for the packets of these indexes by parities of these rows. `None` unless there are
    /// as many rows as packets, all different, and both exist.
    #[must_use]
    pub fn new(rows: &[usize], lost: &[usize]) -> Option<Self> {
        let count = lost.len();
        if rows.len() != count || count > ROWS_MAX || repeats(rows) || repeats(lost) {
            return None;
        }
        let mut factors = [[0; ROWS_MAX]; ROWS_MAX];
        for (line, row) in factors.iter_mut().zip(rows) {
            for (factor, index) in line.iter_mut().zip(lost) {
                *factor = *FACTORS.get(*row)?.get(*index)?;
            }
        }
        let solution = inverted(factors, count)?;
        Some(Self { solution, count })
    }

    /// Adds the lost packet at this place of the list to `into`, which is zeros and as long as a
    /// parity. `sums`: what is left of the parities, in the order of their rows.
    ///
    /// # Panics
    /// If fewer packets are lost.
    pub fn restore<'s>(&self, at: usize, sums: impl Iterator<Item = &'s [u8]>, into: &mut [u8]) {
        let line = &self.solution[..self.count][at];
        for (factor, sum) in line.iter().zip(sums) {
            add_scaled(*factor, sum, into);
        }
    }
}

fn repeats(numbers: &[usize]) -> bool {
    let mut rest = numbers;
    while let Some((first, others)) = rest.split_first() {
        if others.contains(first) {
            return true;
        }
        rest = others;
    }
    false
}

/// Gauss and Jordan's way, without a choice of pivots for size: the field has no rounding.
fn inverted(
    mut matrix: [[u8; ROWS_MAX]; ROWS_MAX],
    count: usize,
) -> Option<[[u8; ROWS_MAX]; ROWS_MAX]> {
    let mut result = [[0; ROWS_MAX]; ROWS_MAX];
    (0..count).for_each(|at| result[at][at] = 1);
    for at in 0..count {
        let pivot = (at..count).find(|line| matrix[*line][at] != 0)?;
        matrix.swap(at, pivot);
        result.swap(at, pivot);
        let scale = inverse(matrix[at][at]);
        scale_line(&mut matrix[at], scale);
        scale_line(&mut result[at], scale);
        let (line, solved) = (matrix[at], result[at]);
        for other in (0..count).filter(|other| *other != at) {
            let factor = matrix[other][at];
            add_scaled(factor, &line, &mut matrix[other]);
            add_scaled(factor, &solved, &mut result[other]);
        }
    }
    Some(result)
}

fn scale_line(line: &mut [u8; ROWS_MAX], factor: u8) {
    line.iter_mut().for_each(|one| *one = times(*one, factor));
}
