//! The one operation that takes time: a run of bytes times a factor, added to another run.

use crate::field::{PRODUCTS, Products};

/// Adds `source` times `factor` to `target`, as far as both go.
pub fn add_scaled(factor: u8, source: &[u8], target: &mut [u8]) {
    let length = source.len().min(target.len());
    let (source, target) = (&source[..length], &mut target[..length]);
    match factor {
        0 => {}
        1 => add(source, target),
        _ => add_products(&PRODUCTS[usize::from(factor)], source, target),
    }
}

/// The compiler makes vector instructions of this.
fn add(source: &[u8], target: &mut [u8]) {
    for (to, from) in target.iter_mut().zip(source) {
        *to ^= from;
    }
}

fn add_products(products: &Products, source: &[u8], target: &mut [u8]) {
    let done = vector::add_products(products, source, target);
    add_products_one_by_one(products, &source[done..], &mut target[done..]);
}

fn add_products_one_by_one(products: &Products, source: &[u8], target: &mut [u8]) {
    for (to, from) in target.iter_mut().zip(source) {
        *to ^= products.low[usize::from(from & 15)] ^ products.high[usize::from(from >> 4)];
    }
}

/// Sixteen or thirty-two products at once, where the processor can: both halves of each byte look
/// up their products in a register. Each function returns how many bytes it has done.
#[cfg(target_arch = "x86_64")]
mod vector {
    use core::arch::x86_64::{
        __m128i, __m256i, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_shuffle_epi8,
        _mm_srli_epi64, _mm_storeu_si128, _mm_xor_si128, _mm256_and_si256,
        _mm256_broadcastsi128_si256, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_shuffle_epi8,
        _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
    };

    use super::Products;

    pub(super) fn add_products(products: &Products, source: &[u8], target: &mut [u8]) -> usize {
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            unsafe { add_by_32(products, source, target) }
        } else if is_x86_feature_detected!("ssse3") {
            // SAFETY: the processor has SSSE3.
            unsafe { add_by_16(products, source, target) }
        } else {
            0
        }
    }

    #[target_feature(enable = "avx2")]
    fn add_by_32(products: &Products, source: &[u8], target: &mut [u8]) -> usize {
        // SAFETY: each table has sixteen bytes.
        let (low, high) = unsafe {
            let load = |table: &[u8; 16]| _mm_loadu_si128(table.as_ptr().cast());
            (load(&products.low), load(&products.high))
        };
        let (low, high) = (
            _mm256_broadcastsi128_si256(low),
            _mm256_broadcastsi128_si256(high),
        );
        let half = _mm256_set1_epi8(15);
        let mut done = 0;
        for (from, to) in source.chunks_exact(32).zip(target.chunks_exact_mut(32)) {
            let to = to.as_mut_ptr().cast::<__m256i>();
            // SAFETY: both chunks have 32 bytes, and need not be aligned.
            let (bytes, sum) = unsafe {
                (
                    _mm256_loadu_si256(from.as_ptr().cast()),
                    _mm256_loadu_si256(to),
                )
            };
            let lower = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, half));
            let upper = _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), half);
            let product = _mm256_xor_si256(lower, _mm256_shuffle_epi8(high, upper));
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(to, _mm256_xor_si256(sum, product)) };
            done += 32;
        }
        done
    }

    #[target_feature(enable = "ssse3")]
    fn add_by_16(products: &Products, source: &[u8], target: &mut [u8]) -> usize {
        // SAFETY: each table has sixteen bytes.
        let (low, high) = unsafe {
            let load = |table: &[u8; 16]| _mm_loadu_si128(table.as_ptr().cast());
            (load(&products.low), load(&products.high))
        };
        let half = _mm_set1_epi8(15);
        let mut done = 0;
        for (from, to) in source.chunks_exact(16).zip(target.chunks_exact_mut(16)) {
            let to = to.as_mut_ptr().cast::<__m128i>();
            // SAFETY: both chunks have 16 bytes, and need not be aligned.
            let (bytes, sum) =
                unsafe { (_mm_loadu_si128(from.as_ptr().cast()), _mm_loadu_si128(to)) };
            let lower = _mm_shuffle_epi8(low, _mm_and_si128(bytes, half));
            let upper = _mm_and_si128(_mm_srli_epi64::<4>(bytes), half);
            let product = _mm_xor_si128(lower, _mm_shuffle_epi8(high, upper));
            // SAFETY: as above.
            unsafe { _mm_storeu_si128(to, _mm_xor_si128(sum, product)) };
            done += 16;
        }
        done
    }

    #[cfg(test)]
    pub(super) fn add_by_sixteen(
        products: &Products,
        source: &[u8],
        target: &mut [u8],
    ) -> Option<usize> {
        // SAFETY: the processor has SSSE3.
        is_x86_feature_detected!("ssse3").then(|| unsafe { add_by_16(products, source, target) })
    }
}

/// Sixteen products at once: every 64-bit ARM has the instructions.
#[cfg(target_arch = "aarch64")]
mod vector {
    use core::arch::aarch64::{
        vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
    };

    use super::Products;

    pub(super) fn add_products(products: &Products, source: &[u8], target: &mut [u8]) -> usize {
        let mut done = 0;
        for (from, to) in source.chunks_exact(16).zip(target.chunks_exact_mut(16)) {
            // SAFETY: the tables and both chunks have 16 bytes, and need not be aligned.
            unsafe {
                let (low, high) = (
                    vld1q_u8(products.low.as_ptr()),
                    vld1q_u8(products.high.as_ptr()),
                );
                let (bytes, sum) = (vld1q_u8(from.as_ptr()), vld1q_u8(to.as_ptr()));
                let lower = vqtbl1q_u8(low, vandq_u8(bytes, vdupq_n_u8(15)));
                let upper = vqtbl1q_u8(high, vshrq_n_u8::<4>(bytes));
                vst1q_u8(to.as_mut_ptr(), veorq_u8(sum, veorq_u8(lower, upper)));
            }
            done += 16;
        }
        done
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod vector {
    pub(super) fn add_products(_: &super::Products, _: &[u8], _: &mut [u8]) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::times;

    fn bytes(count: usize, seed: u8) -> Vec<u8> {
        (0..count)
            .map(|at| (at as u8).wrapping_mul(97).wrapping_add(seed))
            .collect()
    }

    #[test]
    fn all_ways_to_multiply_give_the_same_at_every_length() {
        for length in 0..130 {
            let (source, before) = (bytes(length, 5), bytes(length, 200));
            for factor in [0, 1, 2, 0x1d, 0x8e, 255] {
                let expected: Vec<u8> = before
                    .iter()
                    .zip(&source)
                    .map(|(to, from)| to ^ times(factor, *from))
                    .collect();
                let mut target = before.clone();
                add_scaled(factor, &source, &mut target);
                assert_eq!(target, expected, "{length} bytes times {factor}");
                let products = &PRODUCTS[usize::from(factor)];
                let mut target = before.clone();
                add_products_one_by_one(products, &source, &mut target);
                assert_eq!(
                    target, expected,
                    "{length} bytes times {factor}, one by one"
                );
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn sixteen_at_once_are_as_right_as_thirty_two() {
        let (source, mut target) = (bytes(77, 1), bytes(77, 9));
        let mut expected = target.clone();
        let products = &PRODUCTS[0x53];
        add_products_one_by_one(products, &source[..64], &mut expected[..64]);
        if let Some(done) = vector::add_by_sixteen(products, &source, &mut target) {
            assert_eq!((done, target), (64, expected));
        }
    }

    #[test]
    fn what_one_is_longer_than_the_other_is_left_alone() {
        let mut target = [7; 3];
        add_scaled(1, &[1, 2, 3, 4, 5], &mut target);
        assert_eq!(target, [6, 5, 4]);
        add_scaled(1, &[1], &mut target);
        assert_eq!(target, [7, 5, 4]);
    }
}
