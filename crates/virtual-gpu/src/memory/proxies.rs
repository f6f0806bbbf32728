//! Tracks writes that are not yet visible to the asynchronous proxy.
//!
//! Loads and stores reach shared memory through the generic proxy; bulk copies and `wgmma` read it through the
//! asynchronous proxy. The asynchronous proxy sees a write only after a `fence.proxy.async` (PTX ISA, "Proxies").
//! Either the writing warp fences before it signals completion, or the reading warp fences. Without a fence a GPU
//! mostly computes the right thing, and sometimes not.

/// A moment, counted in the block's fences and issued copies.
pub(crate) type Moment = u32;

#[derive(Debug, Clone, Copy, Default)]
struct Write {
    /// The moment before which the write happened; 0 if no fence is needed.
    before: Moment,
    warp: u32,
    /// The instruction.
    pc: u32,
}

/// The writes to a block's shared memory, and the fences since.
#[derive(Debug)]
pub(crate) struct Proxies {
    /// Per word.
    writes: Vec<Write>,
    now: Moment,
    /// Per warp, the moment of its last fence.
    fenced: Vec<Moment>,
}

impl Proxies {
    pub fn new(words: usize, warps: u32) -> Self {
        Self { writes: vec![Write::default(); words], now: 0, fenced: vec![0; warps as usize] }
    }

    /// Clears everything for the next block.
    pub fn reset(&mut self) {
        self.writes.fill(Write::default());
        self.now = 0;
        self.fenced.fill(0);
    }

    /// Records a `fence.proxy.async`. It counts for all lanes of the warp, so a missing fence of single lanes may be
    /// missed.
    pub fn fence(&mut self, warp: u32) {
        self.now += 1;
        self.fenced[warp as usize] = self.now;
    }

    /// Records the issue of a copy, which is executed later, and returns the moment.
    pub fn ask(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// Records a store of `bytes` bytes by an instruction of a warp.
    pub fn write(&mut self, (warp, pc): (u32, u32), address: u32, bytes: u32) {
        let write = Write { before: self.now + 1, warp, pc };
        self.words(address, bytes).fill(write);
    }

    /// Records a write that needs no fence.
    pub fn mark_uninitialised(&mut self, address: u32, bytes: u32) {
        self.words(address, bytes).fill(Write::default());
    }

    /// Returns the warp that wrote some of these bytes before the copy was issued, and its instruction, if neither warp
    /// has fenced since.
    pub fn untold(&self, reader: u32, asked: Moment, address: u32, bytes: u32) -> Option<(u32, u32)> {
        let told = self.fenced[reader as usize];
        let (first, last) = (address as usize / 4, (address + bytes - 1) as usize / 4);
        let untold =
            |write: &&Write| write.before <= asked && write.before > told.max(self.fenced[write.warp as usize]);
        self.writes[first..=last].iter().find(untold).map(|write| (write.warp, write.pc))
    }

    fn words(&mut self, address: u32, bytes: u32) -> &mut [Write] {
        &mut self.writes[address as usize / 4..=(address + bytes - 1) as usize / 4]
    }
}
