//! See `egret_fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| egret_fuzz::block::run(data));
