//! The L1 cache as one block sees it. It tells loads that hit L1 from loads that go to L2.

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 128;

/// Bytes of a sector, the unit in which a line is filled.
pub const SECTOR_BYTES: u64 = 32;

/// Ways of a set. The real number is not published. Four keeps strided rows from evicting each other.
const WAYS: usize = 4;

/// A sectored cache that starts cold, as L1 does at every launch.
#[derive(Debug, Clone)]
pub struct Cache {
    /// Line addresses by set, the most recently used first; `u64::MAX` for none.
    lines: Vec<[u64; WAYS]>,
    /// Sectors of the line that are present, one bit each.
    sectors: Vec<[u8; WAYS]>,
}

impl Cache {
    /// Makes an empty cache of about `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        let sets = (bytes / LINE_BYTES / WAYS as u64).max(1) as usize;
        Self { lines: vec![[u64::MAX; WAYS]; sets], sectors: vec![[0; WAYS]; sets] }
    }

    /// Empties it, for the next block.
    pub fn reset(&mut self) {
        self.lines.fill([u64::MAX; WAYS]);
        self.sectors.fill([0; WAYS]);
    }

    /// Loads the sector at an address and returns whether it was present.
    #[inline]
    pub fn load(&mut self, address: u64) -> bool {
        let line = address / LINE_BYTES;
        let sector = 1 << (address / SECTOR_BYTES % (LINE_BYTES / SECTOR_BYTES));
        let set = (line % self.lines.len() as u64) as usize;
        let (lines, sectors) = (&mut self.lines[set], &mut self.sectors[set]);
        let way = lines.iter().position(|at| *at == line).unwrap_or_else(|| {
            lines[WAYS - 1] = line;
            sectors[WAYS - 1] = 0;
            WAYS - 1
        });
        lines[..=way].rotate_right(1);
        sectors[..=way].rotate_right(1);
        let hit = sectors[0] & sector != 0;
        sectors[0] |= sector;
        hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_of_a_line_are_filled_one_by_one() {
        let mut cache = Cache::new(4096);
        assert!(!cache.load(0));
        assert!(cache.load(31));
        assert!(!cache.load(32), "another sector of the same line");
        assert!(cache.load(0));
    }

    #[test]
    fn the_least_recently_used_line_of_a_set_goes() {
        let mut cache = Cache::new(LINE_BYTES * WAYS as u64);
        for line in 0..WAYS as u64 {
            cache.load(line * LINE_BYTES);
        }
        assert!(cache.load(0));
        cache.load(100 * LINE_BYTES);
        assert!(cache.load(0), "used last but one");
        assert!(!cache.load(LINE_BYTES), "the oldest");
    }
}
