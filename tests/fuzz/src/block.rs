//! The content of a received block, tuples or acks, and of the archives in it.
#![allow(unsafe_code)]

use egret::Tuple;
use egret::tuple::{Row, RowLayout};
use egret_dataplane::frame::{AckReader, BatchReader};

/// A field of each way of lying in an archive.
#[derive(Tuple)]
struct Everything<'a> {
    truth: bool,
    n: u64,
    x: f64,
    word: &'a str,
    bytes: &'a [u8],
}

/// See the module.
pub fn run(data: &[u8]) {
    // Blocks are aligned to more than 8.
    let mut space = vec![0u64; data.len().div_ceil(8)];
    for (word, chunk) in space.iter_mut().zip(data.chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(bytes);
    }
    // SAFETY: every bit pattern is bytes.
    let (_, bytes, _) = unsafe { space.align_to() };
    let bytes = &bytes[..data.len()];
    if let Ok(batch) = BatchReader::new(bytes) {
        tuples(&batch);
    }
    if let Ok(acks) = AckReader::new(bytes) {
        assert_eq!(acks.records().len(), acks.count() as usize);
        assert!(acks.used() <= bytes.len());
    }
}

fn tuples(batch: &BatchReader<'_>) {
    let layout = RowLayout::new(Everything::schema());
    let mut whole = 0;
    for tuple in batch.tuples() {
        let Ok(tuple) = tuple else { break };
        whole += 1;
        let typed = Everything::read(tuple.archive);
        let Ok(row) = Row::new(&layout, tuple.archive) else { continue };
        let fields: Result<Vec<_>, _> = row.fields().map(|(_, value)| value).collect();
        // The other way round it need not be: fields that share bytes are valid one by one.
        assert!(typed.is_err() || fields.is_ok(), "a row reads what a type reads");
    }
    if batch.validate().is_ok() {
        assert_eq!(whole, batch.count());
    }
}
