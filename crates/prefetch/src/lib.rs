//! The prefetch instruction, as a safe function.
//!
//! A load occupies a place of the processor's window until its value is there, also if nobody uses
//! it. A prefetch does not: many of them fetch many places in the time of one.

/// Length of a line of the caches, bytes.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const LINE: usize = 64;

/// Fetches a value into the caches, without waiting for it. Does nothing on processors other than
/// x86-64 and ARM64.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let first = std::ptr::from_ref(value).cast::<i8>();
        for offset in (0..size_of::<T>()).step_by(LINE) {
            line(first.wrapping_add(offset));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = value;
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
fn line(at: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch of any address reads nothing that a program could see and never faults
    // (Intel SDM volume 2, PREFETCHh). SSE is a part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[allow(unsafe_code)]
fn line(at: *const i8) {
    // SAFETY: a prefetch of any address reads nothing that a program could see and never faults
    // (Arm ARM, PRFM).
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_sizes_stay_as_they_are() {
        let (nothing, byte, lines) = ((), 7_u8, [3_u64; 40]);
        prefetch(&nothing);
        prefetch(&byte);
        prefetch(&lines);
        assert_eq!((byte, lines), (7, [3; 40]));
    }
}
