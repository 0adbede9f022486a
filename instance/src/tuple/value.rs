//! A field's value whose type is known at run time only.

use egret_dataplane::plan::FieldKind;
use std::fmt;

/// A field's value. There is no null: a field always has a value of its type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'a> {
    Bool(bool),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
    Str(&'a str),
    Bytes(&'a [u8]),
}

/// Strings up to this length stand in the root itself, as in [`rkyv::string::repr`].
pub(super) const INLINE_STR: usize = 8;

impl<'a> Value<'a> {
    /// The type.
    #[must_use]
    pub fn kind(&self) -> FieldKind {
        match self {
            Self::Bool(_) => FieldKind::Bool,
            Self::U8(_) => FieldKind::U8,
            Self::U16(_) => FieldKind::U16,
            Self::U32(_) => FieldKind::U32,
            Self::U64(_) => FieldKind::U64,
            Self::I8(_) => FieldKind::I8,
            Self::I16(_) => FieldKind::I16,
            Self::I32(_) => FieldKind::I32,
            Self::I64(_) => FieldKind::I64,
            Self::F32(_) => FieldKind::F32,
            Self::F64(_) => FieldKind::F64,
            Self::Str(_) => FieldKind::Str,
            Self::Bytes(_) => FieldKind::Bytes,
        }
    }

    /// The text, for a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&'a str> {
        if let Self::Str(text) = *self { Some(text) } else { None }
    }

    /// The bytes, for bytes and for a string.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Str(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The number, for an unsigned integer of any width.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U8(n) => Some(n.into()),
            Self::U16(n) => Some(n.into()),
            Self::U32(n) => Some(n.into()),
            Self::U64(n) => Some(n),
            _ => None,
        }
    }

    /// How many bytes of the archive stand before the root for this value.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn tail_len(&self) -> usize {
        match self {
            Self::Str(text) if text.len() > INLINE_STR => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

/// As text in a file: numbers in decimal, strings as they are, bytes in hexadecimal.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(v) => v.fmt(f),
            Self::U8(v) => v.fmt(f),
            Self::U16(v) => v.fmt(f),
            Self::U32(v) => v.fmt(f),
            Self::U64(v) => v.fmt(f),
            Self::I8(v) => v.fmt(f),
            Self::I16(v) => v.fmt(f),
            Self::I32(v) => v.fmt(f),
            Self::I64(v) => v.fmt(f),
            Self::F32(v) => v.fmt(f),
            Self::F64(v) => v.fmt(f),
            Self::Str(v) => f.write_str(v),
            Self::Bytes(v) => v.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

macro_rules! from_values {
    ($($ty:ty => $kind:ident),*) => {$(
        impl<'a> From<$ty> for Value<'a> {
            #[inline]
            fn from(value: $ty) -> Self {
                Self::$kind(value)
            }
        }
    )*};
}

from_values!(bool => Bool, u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32,
    i64 => I64, f32 => F32, f64 => F64, &'a str => Str, &'a [u8] => Bytes);
