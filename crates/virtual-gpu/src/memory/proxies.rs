//! Writes that the asynchronous proxy has not been told of.
//!
//! Loads and stores reach shared memory through the generic proxy; bulk copies and `wgmma` read it through the asynchronous one, which
//! sees what was written only after a `fence.proxy.async` (PTX ISA, "Proxies"): by the warp that wrote, before it says that it is done,
//! or by the one that reads. Without one a GPU mostly computes the right thing, and sometimes not.

/// When, in fences of a block and in copies that it has asked for.
pub(crate) type Moment = u32;

#[derive(Debug, Clone, Copy, Default)]
struct Write {
    /// The moment that it comes before; 0 if nothing is to be told.
    before: Moment,
    warp: u32,
}

/// What was written to the shared memory of a block, and who has fenced since.
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

    /// Forgets everything: the next block.
    pub fn reset(&mut self) {
        self.writes.fill(Write::default());
        self.now = 0;
        self.fenced.fill(0);
    }

    /// Notes a `fence.proxy.async`. Lanes that did not execute it count as if they had: a missing one may be missed.
    pub fn fence(&mut self, warp: u32) {
        self.now += 1;
        self.fenced[warp as usize] = self.now;
    }

    /// Notes that a copy is asked for, which is done later, and returns the moment.
    pub fn ask(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// Notes a store of `bytes` bytes.
    pub fn write(&mut self, warp: u32, address: u32, bytes: u32) {
        let write = Write { before: self.now + 1, warp };
        self.words(address, bytes).fill(write);
    }

    /// Notes that bytes were written in another way, of which nobody has to be told.
    pub fn forget(&mut self, address: u32, bytes: u32) {
        self.words(address, bytes).fill(Write::default());
    }

    /// Returns the warp that wrote some of these bytes before they were asked for, if neither it nor the warp that asked has fenced
    /// since.
    pub fn untold(&self, reader: u32, asked: Moment, address: u32, bytes: u32) -> Option<u32> {
        let told = self.fenced[reader as usize];
        let (first, last) = (address as usize / 4, (address + bytes - 1) as usize / 4);
        let untold =
            |write: &&Write| write.before <= asked && write.before > told.max(self.fenced[write.warp as usize]);
        self.writes[first..=last].iter().find(untold).map(|write| write.warp)
    }

    fn words(&mut self, address: u32, bytes: u32) -> &mut [Write] {
        &mut self.writes[address as usize / 4..=(address + bytes - 1) as usize / 4]
    }
}
