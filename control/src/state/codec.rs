//! The envelope of a state file: what tells a whole file from a damaged one.
//!
//! ```text
//!  0        8         12       16         24         32
//!  | magic  | version | kind   | length   | checksum | payload ...
//!  | EGRETST\n | u32  | u32    | u64      | u64      |
//! ```
//! All numbers are little-endian. The length is the payload's; the checksum is xxh3-64 of the payload, seeded with
//! kind and version. Kind: 0 lasting, 1 ephemeral.

use xxhash_rust::xxh3::xxh3_64_with_seed;

const MAGIC: [u8; 8] = *b"EGRETST\n";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 32;

/// How long an entry lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Until it is deleted.
    Lasting,
    /// As long as its owner lives.
    Ephemeral,
}

impl Kind {
    fn number(self) -> u32 {
        match self {
            Self::Lasting => 0,
            Self::Ephemeral => 1,
        }
    }
}

/// The bytes of a file with this payload.
pub(super) fn encode(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&kind.number().to_le_bytes());
    bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&checksum(kind.number(), payload).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The kind and payload of a file, or what is wrong with it.
pub(super) fn decode(bytes: &[u8]) -> Result<(Kind, &[u8]), String> {
    let Some((header, payload)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(format!("{} bytes are too few for its header of {HEADER_BYTES}", bytes.len()));
    };
    if header[..8] != MAGIC {
        return Err("it does not begin as a state file".to_owned());
    }
    let version = u32_at(header, 8);
    if version != VERSION {
        return Err(format!("it is of version {version}, this Egret reads version {VERSION}"));
    }
    let kind = match u32_at(header, 12) {
        0 => Kind::Lasting,
        1 => Kind::Ephemeral,
        other => return Err(format!("its kind is {other}, not 0 or 1")),
    };
    let length = u64_at(header, 16);
    if length != payload.len() as u64 {
        return Err(format!("it holds {} bytes, its header says {length}", payload.len()));
    }
    if u64_at(header, 24) != checksum(kind.number(), payload) {
        return Err("its checksum is wrong".to_owned());
    }
    Ok((kind, payload))
}

fn checksum(kind: u32, payload: &[u8]) -> u64 {
    xxh3_64_with_seed(payload, u64::from(VERSION) << 32 | u64::from(kind))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_back() {
        for kind in [Kind::Lasting, Kind::Ephemeral] {
            assert_eq!(decode(&encode(kind, b"payload")), Ok((kind, &b"payload"[..])));
            assert_eq!(decode(&encode(kind, b"")), Ok((kind, &b""[..])));
        }
    }

    #[test]
    fn a_file_torn_anywhere_or_with_any_bit_flipped_is_refused() {
        let whole = encode(Kind::Lasting, b"some payload");
        for length in 0..whole.len() {
            assert!(decode(&whole[..length]).is_err(), "cut to {length}");
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped).is_err(), "bit {bit}");
        }
        let longer = [&whole[..], b"x"].concat();
        assert!(decode(&longer).is_err());
    }
}
