//! Constants and helpers of the bbolt page format that the reader and the writer share.

pub(super) const SIZE: usize = 4096;
pub(super) const HEADER: usize = 16;
pub(super) const ELEMENT: usize = 16;
pub(super) const MAGIC: u32 = 0xED0C_DAED;
pub(super) const VERSION: u32 = 2;
pub(super) const BRANCH: u16 = 0x01;
pub(super) const LEAF: u16 = 0x02;
pub(super) const META: u16 = 0x04;
pub(super) const FREE: u16 = 0x10;
/// Flag of an element that is a bucket.
pub(super) const BUCKET: u32 = 1;
/// Number of bytes of a meta page that its checksum covers.
pub(super) const SUMMED: usize = 56;

/// The FNV-1a hash of `bytes`.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
