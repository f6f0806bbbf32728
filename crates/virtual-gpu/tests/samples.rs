//! A sample of the blocks stands for the whole grid.

use virtual_gpu::counters::Counters;
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

/// Runs a kernel with 64 blocks of one thread and two words in memory, which begin with 0. Returns the counters and the
/// words.
fn run(body: &str, sample_blocks: Option<u32>) -> (Counters, [u32; 2]) {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n{{\n\
         .reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n.reg .pred %p<8>;\nld.param.u64 %rd1, [data];\n\
         mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;\n{body}\nret;\n}}\n"
    );
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("k.ptx", &text).expect("it loads")).expect("it fits");
    let data = gpu.alloc(8).expect("there is memory");
    gpu.fill(data, 8, 0).expect("it is that large");
    let args = [data.to_le_bytes().to_vec()];
    let launch = Launch { grid: [64, 1, 1], block: [1; 3], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
    let options = Options { sample_blocks, ..Options::default() };
    let counters = gpu.launch(&module, "k", &launch, &options).expect("it runs");
    let bytes = gpu.read(data, 8).expect("it is that large");
    let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    (counters, words.collect::<Vec<_>>().try_into().expect("there are two words"))
}

/// Each block does the pieces of work that it draws from a counter, from 0 to `pieces`: a hundred additions each.
fn persistent(pieces: u32) -> String {
    let work = "add.u32 %r4, %r4, 1; ".repeat(100);
    format!(
        "L: setp.ge.u32 %p1, %r1, {pieces};
         @%p1 bra E;
         {work}
         atom.global.add.u32 %r3, [%rd1], 1;
         add.u32 %r1, %r3, %r2;
         bra L;
         E:"
    )
}

#[test]
fn blocks_that_draw_their_work_each_get_a_share() {
    // Four blocks cannot show exactly how many of all 64 get a second piece.
    for (pieces, tolerance) in [(100, 0.3), (640, 0.1), (5000, 0.02)] {
        let work = |sample| {
            let (counters, _) = run(&persistent(pieces), sample);
            let longest = counters.longest_in_order_cycles as f64;
            let average = counters.in_order_cycles as f64 / counters.executed_blocks as f64;
            (counters.instructions() as f64 * counters.scale(), longest / average)
        };
        let (all, sampled) = (work(None), work(Some(4)));
        assert!((sampled.0 / all.0 - 1.0).abs() < tolerance, "{pieces}: {sampled:?} of {all:?}");
        assert!(all.1 < 2.5 && sampled.1 < 2.5, "{pieces}: {sampled:?} of {all:?}");
    }
}

#[test]
fn a_ticket_stays_a_ticket() {
    let last = "atom.global.add.u32 %r3, [%rd1], 1;
        sub.u32 %r2, %r2, 1;
        setp.eq.u32 %p1, %r3, %r2;
        @%p1 st.global.u32 [%rd1+4], 7;";
    assert_eq!(run(last, None).1, [64, 7]);
    // The last block to arrive is not in a sample.
    assert_eq!(run(last, Some(4)).1, [4, 0]);
}
