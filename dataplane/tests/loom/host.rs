//! The host of these tests is a machine.

use std::os::fd::AsFd;
use std::time::Instant;

pub(crate) fn is_virtual() -> bool {
    false
}

pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn wait(_: Option<Instant>, _: impl Fn() -> bool + 'static) {}

pub(crate) fn ring(_: &impl AsFd) {}
