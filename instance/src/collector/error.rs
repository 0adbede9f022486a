//! Why a tuple was not emitted.

use crate::tuple::TupleError;
use egret_dataplane::ids::TaskId;

/// Why a tuple was not emitted.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// Its archive is longer than a tuple may be.
    #[error(
        "a tuple of {bytes} bytes is larger than `egret.tuple.max.bytes`, which is {limit}; split it, or raise the limit"
    )]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The component has not declared the stream.
    #[error("component `{component}` emits on stream `{stream}`, but declares {declared}")]
    UnknownStream {
        /// The component.
        component: String,
        /// The stream.
        stream: String,
        /// What it declares.
        declared: String,
    },
    /// The tuple's fields are not the stream's.
    #[error("component `{component}` emits {given} on stream `{stream}`, which is declared with {declared}")]
    WrongFields {
        /// The component.
        component: String,
        /// The stream.
        stream: String,
        /// The stream's fields.
        declared: String,
        /// The tuple's.
        given: String,
    },
    /// The named task does not read the stream by direct grouping.
    #[error("task {task} does not read stream `{stream}` of `{component}` by direct grouping; {readers}")]
    NotAReader {
        /// The task.
        task: TaskId,
        /// The component that emits.
        component: String,
        /// The stream.
        stream: String,
        /// The tasks that do, in words.
        readers: String,
    },
    /// The stream is read by direct grouping and no task was named.
    #[error(
        "stream `{stream}` of `{component}` is read by direct grouping; name the task with `.direct(task)`"
    )]
    DirectNeeded {
        /// The component that emits.
        component: String,
        /// The stream.
        stream: String,
    },
    /// A custom grouping chose a task that is not there.
    #[error(
        "a custom grouping on stream `{stream}` of `{component}` chose task number {index} of {count}; the first is number 0"
    )]
    BadChoice {
        /// The component that emits.
        component: String,
        /// The stream.
        stream: String,
        /// What it chose.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The tuple that is passed on cannot be read.
    #[error(transparent)]
    Tuple(#[from] TupleError),
    /// There is nobody to emit to: the instance is ending, or its stmgr has gone and it goes on with the next one. Pass it on
    /// with `?`. A spout that may go on emits the same tuple again in its next call: it was not emitted, so its id does
    /// not come back.
    #[error("the instance is stopping")]
    Stopped,
}
