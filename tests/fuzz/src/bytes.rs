//! An input as a source of numbers.

/// Takes numbers off the front of `data`; zeros when it is used up.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number below `n`, from a byte.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.u8()) % n
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (front, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        let mut array = [0; N];
        array[..front.len()].copy_from_slice(front);
        array
    }
}
