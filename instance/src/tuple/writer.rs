//! Writes an rkyv archive straight into the place where it will be read.
//!
//! Safe code over byte slices, not rkyv's serializer: that costs several times as much for a small tuple because it
//! does not know the root's place beforehand. What is written is the same, byte for byte; `tests/api/tuples.rs` compares.
//!
//! ```text
//! string to 8 bytes   | the bytes, then 0xff to the end                               |
//! longer string       | len u32: low 6 bits, 0b10, then the rest | offset i32 from here |
//! bytes               | offset i32 from here                     | len u32             |
//! ```

use super::Value;
use super::value::INLINE_STR;

/// An archive being written: the part before the root is filled from its beginning, in field order.
#[derive(Debug)]
pub struct ArchiveWriter<'a> {
    before: &'a mut [u8],
    root: &'a mut [u8],
    /// How much of `before` is written.
    tail: usize,
}

impl<'a> ArchiveWriter<'a> {
    /// Begins an archive that fills `space`, with a root of `ROOT` bytes.
    ///
    /// # Panics
    /// When the root is longer than `space`.
    #[inline]
    pub fn new<const ROOT: usize>(space: &'a mut [u8]) -> Self {
        let (before, root) = space.split_at_mut(space.len() - ROOT);
        if let Some(root) = root.first_chunk_mut::<ROOT>() {
            // Padding must not carry what an earlier tuple left in the block.
            *root = [0; ROOT];
        }
        Self::over(before, root)
    }

    /// As [`ArchiveWriter::new`], for a root whose size is known at run time only.
    pub(super) fn with_root(space: &'a mut [u8], root_size: usize) -> Self {
        let (before, root) = space.split_at_mut(space.len() - root_size);
        root.fill(0);
        Self::over(before, root)
    }

    /// Begins by clearing the gap between fields and root, which is shorter than the root's alignment. What is before the root
    /// is a multiple of that, so it is 8 at least where 8 is the alignment, and 4 where 4 is.
    #[inline]
    fn over(before: &'a mut [u8], root: &'a mut [u8]) -> Self {
        if let Some(gap) = before.last_chunk_mut::<8>() {
            *gap = [0; 8];
        } else if let Some(gap) = before.last_chunk_mut::<4>() {
            *gap = [0; 4];
        } else if let Some(gap) = before.last_mut() {
            *gap = 0;
        }
        Self { before, root, tail: 0 }
    }

    /// Writes the next field, whose archived form stands at `offset` in the root.
    ///
    /// # Panics
    /// When the field does not fit: the length of the space must come from the same values in the same order.
    // Always, so that the match is decided when derived code is compiled: it halves the cost of a small tuple.
    #[inline(always)]
    pub fn put(&mut self, offset: usize, value: Value<'_>) {
        match value {
            Value::Bool(v) => self.set(offset, [v.into()]),
            Value::U8(v) => self.set(offset, [v]),
            Value::U16(v) => self.set(offset, v.to_le_bytes()),
            Value::U32(v) => self.set(offset, v.to_le_bytes()),
            Value::U64(v) => self.set(offset, v.to_le_bytes()),
            Value::I8(v) => self.set(offset, v.to_le_bytes()),
            Value::I16(v) => self.set(offset, v.to_le_bytes()),
            Value::I32(v) => self.set(offset, v.to_le_bytes()),
            Value::I64(v) => self.set(offset, v.to_le_bytes()),
            Value::F32(v) => self.set(offset, v.to_le_bytes()),
            Value::F64(v) => self.set(offset, v.to_le_bytes()),
            Value::Str(text) => self.put_str(offset, text.as_bytes()),
            Value::Bytes(bytes) => self.put_bytes(offset, bytes),
        }
    }

    #[inline]
    fn set<const N: usize>(&mut self, offset: usize, bytes: [u8; N]) {
        self.root[offset..offset + N].copy_from_slice(&bytes);
    }

    #[inline]
    fn put_str(&mut self, offset: usize, text: &[u8]) {
        if text.len() <= INLINE_STR {
            self.set(offset, inline(text));
            return;
        }
        let len = text.len() as u32;
        let tagged = (len & 0x3f) | 0x80 | ((len & !0x3f) << 2);
        let distance = self.append(offset, text);
        self.set(offset, tagged.to_le_bytes());
        self.set(offset + 4, distance.to_le_bytes());
    }

    #[inline]
    fn put_bytes(&mut self, offset: usize, bytes: &[u8]) {
        let distance = self.append(offset, bytes);
        self.set(offset, distance.to_le_bytes());
        self.set(offset + 4, (bytes.len() as u32).to_le_bytes());
    }

    /// Copies `bytes` before the root and says how far that is from the field at `offset`. Tuples are far smaller
    /// than the 2 GiB that the distance can express.
    #[inline]
    fn append(&mut self, offset: usize, bytes: &[u8]) -> i32 {
        let start = self.tail;
        self.tail += bytes.len();
        copy(&mut self.before[start..self.tail], bytes);
        (start as i64 - (self.before.len() + offset) as i64) as i32
    }
}

/// Copies all of `from`. A few bytes are copied in two parts that overlap: a call of `memcpy` costs several times as much.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    if !copy_ends::<8>(to, from) && !copy_ends::<4>(to, from) {
        to.copy_from_slice(from);
    }
}

/// Copies the first and the last `N` bytes; `false` when there are fewer, or more between them.
#[inline]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
    let (Some(&first), Some(&last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else { return false };
    if from.len() > 2 * N {
        return false;
    }
    to.first_chunk_mut().is_some_and(|to| {
        *to = first;
        true
    }) && to.last_chunk_mut().is_some_and(|to| {
        *to = last;
        true
    })
}

/// A short string in its archived form, with loads of fixed size instead of a copy of variable length.
#[inline]
fn inline(text: &[u8]) -> [u8; 8] {
    let word = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
    let bits = match (text.len(), text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (8, Some(low), Some(high)) => word(low) | word(high) << 32,
        (len @ 4..8, Some(low), Some(high)) => {
            word(low) | word(high) << ((len - 4) * 8) | u64::MAX << (len * 8)
        }
        _ => {
            let byte = |i: usize| text.get(i).copied().unwrap_or(0xff);
            return [byte(0), byte(1), byte(2), 0xff, 0xff, 0xff, 0xff, 0xff];
        }
    };
    bits.to_le_bytes()
}
