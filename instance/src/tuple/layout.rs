//! Where the fields of a schema stand in an archive.

use egret_dataplane::plan::{FieldKind, Schema};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The root of a schema's archive: C's layout of the archived fields.
#[derive(Clone, Debug)]
pub struct RowLayout {
    /// Tells layouts of this process apart without comparing them; a clone keeps it.
    id: u64,
    schema: Schema,
    offsets: Vec<usize>,
    size: usize,
    align: usize,
}

impl RowLayout {
    /// Lays out a schema.
    #[must_use]
    pub fn new(schema: Schema) -> Self {
        let (mut end, mut align) = (0_usize, 1);
        let mut offsets = Vec::with_capacity(schema.fields.len());
        for field in &schema.fields {
            let (field_size, field_align) = size_and_align(field.kind);
            let offset = end.next_multiple_of(field_align);
            offsets.push(offset);
            end = offset + field_size;
            align = align.max(field_align);
        }
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Relaxed);
        Self { id, schema, offsets, size: end.next_multiple_of(align), align }
    }

    /// The fields.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The type and the offset in the root of a field.
    #[inline]
    pub(super) fn field(&self, index: usize) -> Option<(FieldKind, usize)> {
        Some((self.schema.fields.get(index)?.kind, *self.offsets.get(index)?))
    }

    /// The size of the root in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The alignment of the root, at most 8.
    #[must_use]
    pub fn align(&self) -> usize {
        self.align
    }
}

/// The length of an archive with this much before its root.
#[doc(hidden)]
#[inline]
#[must_use]
pub const fn archive_len(tail: usize, root_size: usize, root_align: usize) -> usize {
    // `root_align` is a power of two.
    ((tail + root_align - 1) & !(root_align - 1)) + root_size
}

fn size_and_align(kind: FieldKind) -> (usize, usize) {
    match kind {
        FieldKind::Bool | FieldKind::U8 | FieldKind::I8 => (1, 1),
        FieldKind::U16 | FieldKind::I16 => (2, 2),
        FieldKind::U32 | FieldKind::I32 | FieldKind::F32 => (4, 4),
        FieldKind::U64 | FieldKind::I64 | FieldKind::F64 => (8, 8),
        FieldKind::Str | FieldKind::Bytes => (8, 4),
    }
}

/// The sizes above are those of the archived types with the features that the workspace chooses for rkyv.
const _: () = {
    use rkyv::{Archived, string::ArchivedString, vec::ArchivedVec};
    assert!(size_of::<ArchivedString>() == 8 && align_of::<ArchivedString>() == 4);
    assert!(size_of::<ArchivedVec<u8>>() == 8 && align_of::<ArchivedVec<u8>>() == 4);
    assert!(size_of::<Archived<u64>>() == 8 && align_of::<Archived<u64>>() == 8);
    assert!(size_of::<Archived<f64>>() == 8 && align_of::<Archived<f64>>() == 8);
    assert!(size_of::<Archived<u32>>() == 4 && align_of::<Archived<u32>>() == 4);
    assert!(size_of::<Archived<u16>>() == 2 && align_of::<Archived<u16>>() == 2);
};
