//! A declared stream, and the tuple types that were found to fit it.

use super::EmitError;
use crate::tuple::{RowLayout, Tuple, TupleError, Value, describe, fits};
use egret_dataplane::plan::{Field, FieldKind, Schema, Stream};
use std::cell::Cell;

type TypeFields = &'static [(&'static str, FieldKind)];

/// A stream as a task knows it: who emits it and its fields.
pub struct StreamInfo {
    component: String,
    name: String,
    layout: RowLayout,
    /// The fields of the type that was used last: comparing addresses is enough for the next tuple.
    seen_type: Cell<Option<TypeFields>>,
    seen_layout: Cell<Option<u64>>,
}

impl StreamInfo {
    pub(super) fn new(component: &str, stream: &Stream) -> Self {
        Self {
            component: component.to_owned(),
            name: stream.name.clone(),
            layout: RowLayout::new(stream.schema.clone()),
            seen_type: Cell::new(None),
            seen_layout: Cell::new(None),
        }
    }

    /// The component that emits.
    #[must_use]
    pub fn component(&self) -> &str {
        &self.component
    }

    /// The stream's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its fields stand in an archive.
    #[must_use]
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    #[inline]
    fn knows<T: Tuple>(&self) -> bool {
        self.seen_type.get().is_some_and(|seen| std::ptr::eq(seen, T::FIELDS)) || self.learn::<T>()
    }

    #[cold]
    fn learn<T: Tuple>(&self) -> bool {
        let fits = fits::<T>(self.layout.schema());
        if fits {
            self.seen_type.set(Some(T::FIELDS));
        }
        fits
    }

    /// Checks that a `T` may be emitted.
    #[inline]
    pub(super) fn check_type<T: Tuple>(&self) -> Result<(), EmitError> {
        if self.knows::<T>() { Ok(()) } else { Err(self.wrong_fields(&T::schema())) }
    }

    /// Checks that a `T` may be read.
    #[inline]
    pub(super) fn check_read<T: Tuple>(&self) -> Result<(), TupleError> {
        if self.knows::<T>() { Ok(()) } else { Err(self.wrong_type(&T::schema())) }
    }

    /// Checks that a row of `layout` may be emitted.
    #[inline]
    pub(super) fn check_layout(&self, layout: &RowLayout) -> Result<(), EmitError> {
        if self.seen_layout.get() == Some(layout.id()) {
            return Ok(());
        }
        if layout.schema() != self.layout.schema() {
            return Err(self.wrong_fields(layout.schema()));
        }
        self.seen_layout.set(Some(layout.id()));
        Ok(())
    }

    #[cold]
    pub(super) fn wrong_values(&self, values: &[Value<'_>]) -> EmitError {
        let name = |i: usize| self.layout.schema().fields.get(i).map_or("?", |f| &f.name).to_owned();
        let fields = values.iter().enumerate().map(|(i, v)| Field { name: name(i), kind: v.kind() });
        self.wrong_fields(&Schema { fields: fields.collect() })
    }

    #[cold]
    fn wrong_fields(&self, given: &Schema) -> EmitError {
        EmitError::WrongFields {
            component: self.component.clone(),
            stream: self.name.clone(),
            declared: describe(self.layout.schema()),
            given: describe(given),
        }
    }

    #[cold]
    fn wrong_type(&self, asked: &Schema) -> TupleError {
        TupleError::WrongType {
            component: self.component.clone(),
            stream: self.name.clone(),
            declared: describe(self.layout.schema()),
            asked: describe(asked),
        }
    }
}
