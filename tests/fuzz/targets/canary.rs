//! A target that must fail: whoever does not find this, byte by byte, finds nothing.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if follows(data, 0, b'E') && follows(data, 1, b'G') && follows(data, 2, b'R') && follows(data, 3, b'E') {
        assert!(!follows(data, 4, b'T'), "the canary is found");
    }
});

/// Each call is a branch of its own to the optimizer, and so to the fuzzer.
fn follows(data: &[u8], at: usize, byte: u8) -> bool {
    std::hint::black_box(data.get(at) == Some(&byte))
}
