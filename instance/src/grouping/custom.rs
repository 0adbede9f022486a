//! `CUSTOM`: a function of the program chooses.

use crate::tuple::{Record, TupleError, Value};
use egret_dataplane::plan::Schema;
use std::sync::Arc;

/// A custom grouping: looks at a tuple and chooses among the reader's tasks.
pub type CustomFn = Arc<dyn Fn(&mut Targets<'_>) + Send + Sync>;

/// The tuple that a custom grouping looks at and the tasks it chooses from.
pub struct Targets<'a> {
    record: &'a dyn Record,
    schema: &'a Schema,
    count: usize,
    chosen: &'a mut Vec<usize>,
}

impl<'a> Targets<'a> {
    /// The tuple's field at a position.
    ///
    /// # Errors
    /// [`TupleError`] when there is no such field.
    pub fn value(&self, index: usize) -> Result<Value<'a>, TupleError> {
        self.record.value(index)
    }

    /// The tuple's field of this name, if there is one.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Value<'a>> {
        self.record.value(self.schema.position(name)?).ok()
    }

    /// How many tasks the reader has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Chooses the task with this index, from 0 and below [`Targets::count`]. Each chosen task gets the tuple once;
    /// when none is chosen, nobody gets it.
    ///
    /// An index out of range makes the emission fail with
    /// [`EmitError::BadChoice`](crate::collector::EmitError::BadChoice).
    pub fn choose(&mut self, index: usize) {
        if !self.chosen.contains(&index) {
            self.chosen.push(index);
        }
    }
}

pub(crate) struct Custom {
    function: CustomFn,
    schema: Schema,
    count: usize,
    chosen: Vec<usize>,
}

impl Custom {
    pub(crate) fn new(function: CustomFn, schema: Schema, count: usize) -> Self {
        Self { function, schema, count, chosen: Vec::new() }
    }

    /// Asks the function; `Err` with the first index that is out of range.
    pub(crate) fn choose(&mut self, record: &dyn Record) -> Result<(), usize> {
        self.chosen.clear();
        let mut targets =
            Targets { record, schema: &self.schema, count: self.count, chosen: &mut self.chosen };
        (self.function)(&mut targets);
        match self.chosen.iter().find(|&&index| index >= self.count) {
            Some(&index) => Err(index),
            None => Ok(()),
        }
    }

    /// What it chose last.
    pub(crate) fn chosen(&self) -> &[usize] {
        &self.chosen
    }

    /// How many tasks there are to choose from.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}
