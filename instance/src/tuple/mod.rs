//! Tuple types: what a struct needs to travel between tasks, and rows for components that take whatever they get.
//!
//! A tuple travels as an rkyv archive that is written in place and read in place:
//!
//! ```text
//! | strings over 8 bytes and byte fields, in field order | zeros | root: the fields, laid out as C does |
//! 0                                                              ^ aligned as the root       the end ^
//! ```
//!
//! Numbers are little-endian; a string is an [`ArchivedString`](rkyv::string::ArchivedString), bytes are an
//! [`ArchivedVec<u8>`](rkyv::vec::ArchivedVec). So a stream's schema alone says where each field stands, and a [`Row`]
//! reads what a derived type wrote.

mod access;
mod error;
mod field;
mod hash;
mod layout;
mod row;
mod value;
mod writer;

pub use access::access;
pub use error::TupleError;
pub(crate) use error::describe;
pub use field::{Field, FieldView};
pub use hash::{KeyHasher, task_index};
pub use layout::{RowLayout, archive_len};
pub use row::{Row, Values};
pub use value::Value;
pub use writer::ArchiveWriter;

use egret_dataplane::plan::{self, FieldKind, Schema};

/// What can be read field by field and written as an archive.
///
/// `#[derive(Tuple)]` implements it; [`Row`] and [`Values`] are the dynamic ones.
pub trait Record {
    /// The field at a position.
    ///
    /// # Errors
    /// [`TupleError`] when there is no such field, or it does not validate.
    fn value(&self, index: usize) -> Result<Value<'_>, TupleError>;

    /// How many bytes the archive takes. This is what `egret.tuple.max.bytes` limits.
    fn encoded_len(&self) -> usize;

    /// Writes the archive to `space`, which is aligned to 8 bytes and as long as [`encoded_len`](Self::encoded_len) says:
    /// every byte of it, since it holds what was there before.
    ///
    /// # Panics
    /// May panic when it is not so long.
    fn write(&self, space: &mut [u8]);
}

impl<R: Record + ?Sized> Record for &R {
    #[inline]
    fn value(&self, index: usize) -> Result<Value<'_>, TupleError> {
        (**self).value(index)
    }

    #[inline]
    fn encoded_len(&self) -> usize {
        (**self).encoded_len()
    }

    #[inline]
    fn write(&self, space: &mut [u8]) {
        (**self).write(space);
    }
}

/// A type of tuples; use `#[derive(Tuple)]`.
///
/// ```
/// use egret::{Record, Tuple};
///
/// #[derive(Tuple, Debug, PartialEq)]
/// struct Word<'a> {
///     word: &'a str,
///     count: u64,
/// }
///
/// #[repr(align(8))]
/// struct Space([u8; 64]);
/// let mut space = Space([0; 64]);
/// let word = Word { word: "heron", count: 7 };
/// let archive = &mut space.0[..word.encoded_len()];
/// word.write(archive);
/// assert_eq!(Word::read(archive)?, word);
/// # Ok::<(), egret::TupleError>(())
/// ```
///
/// A tuple is read from a block, so it cannot borrow for longer than its own lifetime:
///
/// ```compile_fail
/// #[derive(egret::Tuple)]
/// struct Word {
///     word: &'static str,
/// }
/// ```
///
/// and its fields are fixed:
///
/// ```compile_fail
/// #[derive(egret::Tuple)]
/// struct Pair<T> {
///     first: T,
/// }
/// ```
pub trait Tuple: Record {
    /// What reading gives: the same struct, borrowing from the block it is read from.
    type View<'a>;

    /// The fields' names and types, in order.
    const FIELDS: &'static [(&'static str, FieldKind)];

    /// Reads an archive in place, after checking all of it.
    ///
    /// # Errors
    /// [`TupleError::Corrupt`] when the bytes are no valid archive of this type.
    fn read(bytes: &[u8]) -> Result<Self::View<'_>, TupleError>;

    /// The fields as a stream declares them.
    #[must_use]
    fn schema() -> Schema {
        let field = |(name, kind): &(&str, FieldKind)| plan::Field { name: (*name).to_owned(), kind: *kind };
        Schema { fields: Self::FIELDS.iter().map(field).collect() }
    }
}

/// Whether the fields of `T` are the ones of `schema`: names, types and order.
pub(crate) fn fits<T: Tuple>(schema: &Schema) -> bool {
    let same = |(field, (name, kind)): (&plan::Field, &(&str, FieldKind))| {
        field.name == *name && field.kind == *kind
    };
    schema.fields.len() == T::FIELDS.len() && schema.fields.iter().zip(T::FIELDS).all(same)
}

/// For derived code: the error for a position past the last field.
#[doc(hidden)]
#[cold]
#[must_use]
pub fn no_such_field(index: usize) -> TupleError {
    TupleError::NoSuchField(index)
}
