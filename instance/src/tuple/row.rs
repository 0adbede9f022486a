//! Rows: tuples whose fields are known at run time only.

use super::access::{Checked, access_at, too_short};
use super::error::describe;
use super::{ArchiveWriter, Record, RowLayout, TupleError, Value, archive_len};
use egret_dataplane::plan::FieldKind;
use rkyv::Archived;
use rkyv::string::ArchivedString;
use rkyv::vec::ArchivedVec;

/// A tuple in a block, read field by field by its stream's schema.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    layout: &'a RowLayout,
    bytes: &'a [u8],
    root: usize,
}

impl<'a> Row<'a> {
    /// The row in an archive. Each field is checked when it is read.
    ///
    /// # Errors
    /// [`TupleError::Corrupt`] when the archive is too short for its fields.
    #[inline]
    pub fn new(layout: &'a RowLayout, bytes: &'a [u8]) -> Result<Self, TupleError> {
        match bytes.len().checked_sub(layout.size()) {
            Some(root) => Ok(Self { layout, bytes, root }),
            None => Err(too_short(bytes.len(), layout.size())),
        }
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.schema().fields.len()
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The field at a position, from 0.
    ///
    /// # Errors
    /// [`TupleError`] when there is no such field or it does not validate.
    #[inline]
    pub fn get(&self, index: usize) -> Result<Value<'a>, TupleError> {
        let Some((kind, offset)) = self.layout.field(index) else {
            return Err(TupleError::NoSuchField(index));
        };
        let at = self.root + offset;
        Ok(match kind {
            FieldKind::Bool => Value::Bool(*self.at::<bool>(at)?),
            FieldKind::U8 => Value::U8(*self.at::<u8>(at)?),
            FieldKind::U16 => Value::U16(self.at::<Archived<u16>>(at)?.to_native()),
            FieldKind::U32 => Value::U32(self.at::<Archived<u32>>(at)?.to_native()),
            FieldKind::U64 => Value::U64(self.at::<Archived<u64>>(at)?.to_native()),
            FieldKind::I8 => Value::I8(*self.at::<i8>(at)?),
            FieldKind::I16 => Value::I16(self.at::<Archived<i16>>(at)?.to_native()),
            FieldKind::I32 => Value::I32(self.at::<Archived<i32>>(at)?.to_native()),
            FieldKind::I64 => Value::I64(self.at::<Archived<i64>>(at)?.to_native()),
            FieldKind::F32 => Value::F32(self.at::<Archived<f32>>(at)?.to_native()),
            FieldKind::F64 => Value::F64(self.at::<Archived<f64>>(at)?.to_native()),
            FieldKind::Str => Value::Str(self.at::<ArchivedString>(at)?.as_str()),
            FieldKind::Bytes => Value::Bytes(self.at::<ArchivedVec<u8>>(at)?.as_slice()),
        })
    }

    #[inline]
    fn at<T: Checked>(&self, position: usize) -> Result<&'a T, TupleError> {
        access_at(self.bytes, position)
    }

    /// The field of this name.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn field(&self, name: &str) -> Result<Value<'a>, TupleError> {
        match self.layout.schema().position(name) {
            Some(index) => self.get(index),
            None => {
                let declared = describe(self.layout.schema());
                Err(TupleError::NoFieldCalled { name: name.to_owned(), declared })
            }
        }
    }

    /// Name and value of each field, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, Result<Value<'a>, TupleError>)> + use<'a> {
        let row = *self;
        let names = row.layout.schema().fields.iter().enumerate();
        names.map(move |(i, field)| (field.name.as_str(), row.get(i)))
    }

    /// The archive itself.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The layout it is read by.
    #[must_use]
    pub fn layout(&self) -> &'a RowLayout {
        self.layout
    }
}

impl Record for Row<'_> {
    #[inline]
    fn value(&self, index: usize) -> Result<Value<'_>, TupleError> {
        self.get(index)
    }

    #[inline]
    fn encoded_len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn write(&self, space: &mut [u8]) {
        // Small archives are copied word by word: a call costs more than the copy.
        match (space.as_chunks_mut::<8>(), self.bytes.as_chunks::<8>()) {
            (([to], []), ([from], [])) => *to = *from,
            (([to, to2], []), ([from, from2], [])) => (*to, *to2) = (*from, *from2),
            (([to, to2, to3], []), ([from, from2, from3], [])) => (*to, *to2, *to3) = (*from, *from2, *from3),
            _ => space.copy_from_slice(self.bytes),
        }
    }
}

/// A new row: one value for each field of a layout.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    layout: &'a RowLayout,
    values: &'a [Value<'a>],
}

impl<'a> Values<'a> {
    /// A row of these values; `None` when they are not as many as the fields, or not of their types.
    #[must_use]
    pub fn new(layout: &'a RowLayout, values: &'a [Value<'a>]) -> Option<Self> {
        Self::fit(layout, values).then_some(Self { layout, values })
    }

    /// Whether values are as many as the fields, and of their types.
    pub(crate) fn fit(layout: &RowLayout, values: &[Value<'_>]) -> bool {
        let fields = &layout.schema().fields;
        fields.len() == values.len() && fields.iter().zip(values).all(|(f, v)| f.kind == v.kind())
    }

    /// A row of values that fit.
    pub(crate) fn of(layout: &'a RowLayout, values: &'a [Value<'a>]) -> Self {
        Self { layout, values }
    }
}

impl Record for Values<'_> {
    #[inline]
    fn value(&self, index: usize) -> Result<Value<'_>, TupleError> {
        self.values.get(index).copied().ok_or(TupleError::NoSuchField(index))
    }

    #[inline]
    fn encoded_len(&self) -> usize {
        let tail = self.values.iter().map(Value::tail_len).sum();
        archive_len(tail, self.layout.size(), self.layout.align())
    }

    fn write(&self, space: &mut [u8]) {
        let mut archive = ArchiveWriter::with_root(space, self.layout.size());
        for (index, value) in self.values.iter().enumerate() {
            // There are as many fields as values.
            if let Some((_, offset)) = self.layout.field(index) {
                archive.put(offset, *value);
            }
        }
    }
}
