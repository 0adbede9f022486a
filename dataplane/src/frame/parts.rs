//! The parts of a tuple in a [batch](super::batch), for all who read it.

use super::header::ALIGN;
use super::root::{ROOT_BYTES, RootMark};

/// Bytes before a tuple's roots.
pub(super) const TUPLE_HEADER_BYTES: usize = 8;

/// A tuple as it lies.
pub(super) struct Parts<'a> {
    pub(super) mark: RootMark,
    pub(super) listed: &'a [u8],
    pub(super) archive: &'a [u8],
}

/// The tuple at the beginning of these bytes, and those behind it; `None` when it is malformed, or has roots where it may not.
#[inline(always)]
pub(super) fn split_first(bytes: &[u8], accepts_roots: bool) -> Option<(Parts<'_>, &[u8])> {
    let (head, mut rest) = bytes.split_first_chunk::<TUPLE_HEADER_BYTES>()?;
    let head = u64::from_le_bytes(*head);
    let (len, mark) = (head as u32 as usize, RootMark((head >> 32) as u32));
    let mut listed: &[u8] = &[];
    if head > u64::from(u32::MAX) {
        if !accepts_roots {
            return None;
        }
        if mark.is_count() {
            (listed, rest) = rest.split_at_checked(mark.0 as usize * ROOT_BYTES)?;
        }
    }
    let (tuple, rest) = rest.split_at_checked(len.next_multiple_of(ALIGN))?;
    Some((Parts { mark, listed, archive: &tuple[..len] }, rest))
}
