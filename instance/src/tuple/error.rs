//! Why a tuple cannot be read.

use egret_dataplane::plan::Schema;

/// Why a tuple, or a field of it, cannot be read.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum TupleError {
    /// The bytes are not a valid archive of the fields they should have.
    #[error("a tuple of {bytes} bytes is damaged: {reason}")]
    Corrupt {
        /// The length of the archive.
        bytes: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no field at this position.
    #[error("a tuple has no field number {0}; the first is number 0")]
    NoSuchField(usize),
    /// There is no field of this name.
    #[error("a tuple has no field `{name}`; its stream declares {declared}")]
    NoFieldCalled {
        /// The name.
        name: String,
        /// What there is.
        declared: String,
    },
    /// The type that was asked for is not the type of the stream.
    #[error("stream `{stream}` of `{component}` carries {declared}, not {asked}")]
    WrongType {
        /// The component that emits.
        component: String,
        /// The stream.
        stream: String,
        /// The fields of the stream.
        declared: String,
        /// The fields of the type.
        asked: String,
    },
}

/// A schema for a person: ``(`word`: str, `count`: u64)``.
pub(crate) fn describe(schema: &Schema) -> String {
    let field = |f: &egret_dataplane::plan::Field| {
        format!("`{}`: {}", f.name, format!("{:?}", f.kind).to_ascii_lowercase())
    };
    let fields: Vec<_> = schema.fields.iter().map(field).collect();
    if fields.is_empty() { "no fields".to_owned() } else { format!("({})", fields.join(", ")) }
}
