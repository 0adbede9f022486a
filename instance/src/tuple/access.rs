//! Validated access to archives in place.

use super::TupleError;
use rkyv::Portable;
use rkyv::api::access_pos_with_context;
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::{self, Failure, Strategy};
use rkyv::validation::archive::ArchiveValidator;

/// An archived type that can be checked: first quickly, and once more in words when that fails.
pub trait Checked:
    Portable
    + for<'v> CheckBytes<Strategy<ArchiveValidator<'v>, Failure>>
    + for<'v> CheckBytes<Strategy<ArchiveValidator<'v>, rancor::Error>>
{
}

impl<T> Checked for T where
    T: Portable
        + for<'v> CheckBytes<Strategy<ArchiveValidator<'v>, Failure>>
        + for<'v> CheckBytes<Strategy<ArchiveValidator<'v>, rancor::Error>>
{
}

/// Checks an archive whose root is a `T` and gives it.
///
/// # Errors
/// [`TupleError::Corrupt`] when the bytes are too few, not aligned, or not valid.
#[inline]
pub fn access<T: Checked>(bytes: &[u8]) -> Result<&T, TupleError> {
    match bytes.len().checked_sub(size_of::<T>()) {
        Some(root) => access_at(bytes, root),
        None => Err(too_short(bytes.len(), size_of::<T>())),
    }
}

/// Checks the `T` at a position of an archive and what it points to, and gives it.
#[inline]
pub(super) fn access_at<T: Checked>(bytes: &[u8], position: usize) -> Result<&T, TupleError> {
    let mut validator = ArchiveValidator::new(bytes);
    let checked = access_pos_with_context::<T, _, Failure>(bytes, position, &mut validator);
    checked.map_err(|Failure| explain::<T>(bytes, position))
}

/// What is wrong with an archive; out of the way of the fast check, which keeps no reasons.
#[cold]
fn explain<T: Checked>(bytes: &[u8], position: usize) -> TupleError {
    let mut validator = ArchiveValidator::new(bytes);
    let reason = match access_pos_with_context::<T, _, rancor::Error>(bytes, position, &mut validator) {
        Ok(_) => "it changed while it was read".to_owned(),
        Err(error) => error.to_string(),
    };
    TupleError::Corrupt { bytes: bytes.len(), reason }
}

#[cold]
pub(super) fn too_short(bytes: usize, needed: usize) -> TupleError {
    TupleError::Corrupt { bytes, reason: format!("its fields take at least {needed}") }
}
