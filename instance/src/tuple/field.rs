//! The Rust types that a field of a tuple can have.

use super::Value;
use super::access::Checked;
use egret_dataplane::plan::FieldKind;
use rkyv::string::ArchivedString;
use rkyv::vec::ArchivedVec;

/// A type that a field of a tuple can have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a tuple",
    note = "fields are bool, u8 to u64, i8 to i64, f32, f64, &'a str, String, &'a [u8] and Vec<u8>"
)]
pub trait Field {
    /// The type as the topology knows it.
    const KIND: FieldKind;

    /// Its archived form.
    type Archived: Checked;

    /// The field's value.
    fn value(&self) -> Value<'_>;
}

/// A field that can be read out of an archive which lives for `'a`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a block",
    note = "a borrowed field must have the lifetime of its struct"
)]
pub trait FieldView<'a>: Field + Sized {
    /// The field in an archive: borrowed where the type borrows, copied otherwise.
    fn view(archived: &'a Self::Archived) -> Self;
}

macro_rules! number_fields {
    ($($ty:ty => $kind:ident, |$archived:ident| $view:expr;)*) => {$(
        impl Field for $ty {
            const KIND: FieldKind = FieldKind::$kind;
            type Archived = rkyv::Archived<$ty>;

            #[inline]
            fn value(&self) -> Value<'_> {
                Value::$kind(*self)
            }
        }

        impl<'a> FieldView<'a> for $ty {
            #[inline]
            fn view($archived: &'a Self::Archived) -> Self {
                $view
            }
        }
    )*};
}

number_fields! {
    bool => Bool, |archived| *archived;
    u8 => U8, |archived| *archived;
    u16 => U16, |archived| archived.to_native();
    u32 => U32, |archived| archived.to_native();
    u64 => U64, |archived| archived.to_native();
    i8 => I8, |archived| *archived;
    i16 => I16, |archived| archived.to_native();
    i32 => I32, |archived| archived.to_native();
    i64 => I64, |archived| archived.to_native();
    f32 => F32, |archived| archived.to_native();
    f64 => F64, |archived| archived.to_native();
}

macro_rules! sized_fields {
    ($($ty:ty => $kind:ident, $archived:ty, |$from:ident| $read:expr;)*) => {$(
        impl<'a> Field for $ty {
            const KIND: FieldKind = FieldKind::$kind;
            type Archived = $archived;

            #[inline]
            fn value(&self) -> Value<'_> {
                Value::$kind(self)
            }
        }

        impl<'a> FieldView<'a> for $ty {
            #[inline]
            fn view($from: &'a Self::Archived) -> Self {
                $read
            }
        }
    )*};
}

sized_fields! {
    &'a str => Str, ArchivedString, |archived| archived.as_str();
    String => Str, ArchivedString, |archived| archived.as_str().to_owned();
    &'a [u8] => Bytes, ArchivedVec<u8>, |archived| archived.as_slice();
    Vec<u8> => Bytes, ArchivedVec<u8>, |archived| archived.as_slice().to_vec();
}
