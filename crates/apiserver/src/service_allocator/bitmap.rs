//! The allocation bitmap in upstream's encoding: one large big-endian number without leading zeros.

/// Which offsets of a range are allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bitmap {
    /// In little-endian order, without trailing zeros.
    bytes: Vec<u8>,
}

impl Bitmap {
    /// Decodes upstream's encoding.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let mut own = Self { bytes: bytes.iter().rev().copied().collect() };
        own.trim();
        own
    }

    /// Encodes as upstream does.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.bytes.iter().rev().copied().collect()
    }

    /// Whether an offset is allocated.
    pub(super) fn has(&self, place: usize) -> bool {
        self.bytes.get(place / 8).is_some_and(|byte| byte >> (place % 8) & 1 == 1)
    }

    /// Marks an offset as allocated or free.
    pub(super) fn set(&mut self, place: usize, taken: bool) {
        if !taken && !self.has(place) {
            return;
        }
        if self.bytes.len() <= place / 8 {
            self.bytes.resize(place / 8 + 1, 0);
        }
        let bit = 1 << (place % 8);
        if taken {
            self.bytes[place / 8] |= bit;
        } else {
            self.bytes[place / 8] &= !bit;
        }
        self.trim();
    }

    /// The allocated offsets.
    pub(super) fn taken(&self) -> impl Iterator<Item = usize> {
        (0..self.bytes.len() * 8).filter(|place| self.has(*place))
    }

    fn trim(&mut self) {
        let used = self.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.bytes.truncate(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_a_large_number() {
        let mut map = Bitmap::default();
        for place in [0, 9, 17] {
            map.set(place, true);
        }
        assert_eq!(map.to_bytes(), [0b10, 0b10, 0b1]);
        assert_eq!(Bitmap::from_bytes(&[0, 0b10, 0b10, 0b1]), map);
        assert_eq!(map.taken().collect::<Vec<_>>(), [0, 9, 17]);
        map.set(17, false);
        map.set(400, false);
        assert_eq!(map.to_bytes(), [0b10, 0b1]);
    }
}
