//! Control messages of what is sent.

use std::ptr;

use crate::sys;

/// Room for control messages, each of which takes 24 bytes on 64-bit machines where its value has 8 bytes at most.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Control<BYTES> {
    pub(crate) const EMPTY: Self = Self([0; BYTES]);

    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr().cast()
    }

    /// Writes a message behind those that take so many bytes. Returns the bytes of all.
    ///
    /// # Panics
    /// There is no room for it, which its user has seen to.
    pub(crate) fn put<T: Copy>(
        &mut self,
        behind: usize,
        level: libc::c_int,
        kind: libc::c_int,
        value: T,
    ) -> usize {
        let bytes = size_of::<T>() as libc::c_uint;
        // SAFETY: these macros compute alone.
        let (space, length) = unsafe { (libc::CMSG_SPACE(bytes), libc::CMSG_LEN(bytes)) };
        let end = behind + space as usize;
        let message = self.0[behind..end].as_mut_ptr().cast::<libc::cmsghdr>();
        // SAFETY: the messages before take whole CMSG_SPACEs of an aligned array, so that this one is aligned; it has
        // CMSG_SPACE bytes, so that header and value are inside.
        unsafe {
            (*message).cmsg_level = level;
            (*message).cmsg_type = kind;
            (*message).cmsg_len = sys::fit(length);
            ptr::write_unaligned(libc::CMSG_DATA(message).cast::<T>(), value);
        }
        end
    }

    /// Writes the length of a train's datagrams likewise, which is below 2^16, as that of all datagrams.
    pub(crate) fn put_segment(&mut self, behind: usize, segment: usize) -> usize {
        self.put(behind, libc::SOL_UDP, libc::UDP_SEGMENT, segment as u16)
    }
}
