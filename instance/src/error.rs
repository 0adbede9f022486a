//! The error of user code.

use crate::collector::EmitError;
use std::fmt;

/// What [`Spout`](crate::Spout) and [`Bolt`](crate::Bolt) methods give.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error, made by `?` from whatever the component's own code failed with.
///
/// ```
/// fn parse(text: &str) -> egret::Result<u64> {
///     Ok(text.parse()?)
/// }
/// assert!(parse("seven").is_err());
/// ```
///
/// Like `anyhow::Error` it is not a [`std::error::Error`] itself, so that all of those convert.
pub struct Error(Box<dyn std::error::Error + Send + Sync>);

impl Error {
    /// An error that says `message`.
    pub fn msg(message: impl fmt::Display) -> Self {
        Self(message.to_string().into())
    }

    /// The error that it was made from, if that is an `E`.
    #[must_use]
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }

    /// Whether it only says that the instance is ending, see [`EmitError::Stopped`].
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(self.downcast_ref(), Some(EmitError::Stopped))
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    #[cold]
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

/// The message, and after colons the messages of its causes.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
