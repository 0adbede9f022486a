//! Calls into user code: a panic there becomes an error with its place and message.

use crate::{Error, Result};
use egret_dataplane::host::{self, Killed};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind};
use std::sync::Once;

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Panics on a virtual host that are kept: the first ones tell.
const PANICS_KEPT: usize = 10;

static HOOK: Once = Once::new();

/// Calls user code. After a panic the component is used again only if the configuration says so, and its own state is
/// then its own affair, as in any language with exceptions.
pub(crate) fn guard<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result,
        Err(payload) if payload.is::<Killed>() => resume_unwind(payload),
        Err(_) => {
            let place = LAST_PANIC.with_borrow_mut(Option::take);
            Err(Error::msg(place.unwrap_or_else(|| "panicked".to_owned())))
        }
    }
}

/// Makes panics say where they were in one line, for the report and the log. Once per process.
pub(crate) fn install_hook() {
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let text = text_of(info);
            tracing::error!("{text}");
            LAST_PANIC.with_borrow_mut(|last| *last = Some(text));
        }));
    });
}

/// The same for a process in which tasks run on a virtual host, and whose own panics stay what they are.
pub(crate) fn install_virtual_hook() {
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if host::is_virtual() {
                let text = text_of(info);
                PANICS.with_borrow_mut(|panics| {
                    if panics.len() < PANICS_KEPT {
                        panics.push(text.clone());
                    }
                });
                LAST_PANIC.with_borrow_mut(|last| *last = Some(text));
            }
            previous(info);
        }));
    });
}

/// What has panicked on virtual hosts of this thread since this was asked last, also where somebody caught it.
pub(crate) fn take_virtual_panics() -> Vec<String> {
    PANICS.take()
}

fn text_of(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let message = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
    format!("panicked{place}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_place() {
        install_hook();
        let error = guard::<()>(|| panic!("{} went wrong", "it")).unwrap_err().to_string();
        assert!(error.contains("it went wrong") && error.contains("guard.rs:"), "{error}");
        assert_eq!(guard(|| Ok(7)).unwrap(), 7);
    }
}
