//! Bytes on a connection, cut anywhere: before the handshake, on a control connection, on a link.

use crate::bytes::Bytes;
use egret_dataplane::net::handshake::{Nonce, Secret};
use egret_dataplane::net::link::{FrameHeader, FrameLimits, FrameSink};
use egret_dataplane::net::session::Session;

/// As a link has it by default.
const LINK: FrameLimits = FrameLimits::batches(64, 4 << 20);

/// Refuses nothing, and counts what it got.
#[derive(Default)]
struct Sink {
    bytes: u64,
}

impl FrameSink for Sink {
    type Block = Vec<u8>;
    type Error = String;

    fn begin_batch(&mut self, header: &FrameHeader) -> Result<Vec<u8>, String> {
        assert!((64..=4 << 20).contains(&header.len), "within its limits");
        Ok(vec![0; header.len as usize])
    }

    fn batch(&mut self, header: &FrameHeader, block: Vec<u8>) -> Result<(), String> {
        assert_eq!(block.len(), header.len as usize);
        self.bytes += u64::from(header.len);
        Ok(())
    }

    fn control(&mut self, body: &[u8]) -> Result<(), String> {
        assert!(!body.is_empty());
        self.bytes += body.len() as u64;
        Ok(())
    }

    fn end(&mut self, _: &FrameHeader) -> Result<(), String> {
        Ok(())
    }

    fn credit(&mut self, _: &FrameHeader) -> Result<(), String> {
        Ok(())
    }
}

/// See the module.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let secret = Secret::from_hex(&"5e".repeat(32)).expect("it has 32 bytes");
    let nonce: Nonce = [7; 32];
    let mut session: Session<Vec<u8>> = match bytes.below(4) {
        0 => Session::server(&secret, nonce, LINK).0,
        1 => Session::client(&secret, nonce, LINK),
        2 => Session::trusted(FrameLimits::control_only()),
        _ => Session::trusted(LINK),
    };
    let was_established = session.is_established();
    let cut = 1 + bytes.below(64);
    let mut sink = Sink::default();
    for piece in bytes.0.chunks(cut) {
        if session.on_bytes(piece, |_| {}, &mut sink).is_err() {
            break;
        }
    }
    assert!(was_established || !session.is_established(), "nobody proved anything");
    assert!(sink.bytes <= data.len() as u64);
}
