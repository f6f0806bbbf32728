//! Blocks of a cluster that store to each other.

use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

/// Every thread of two blocks sends a number to the block that its parity names. That block waits for all its numbers
/// and writes them out. So the lanes of one store address both blocks.
const SEND: &str = "
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data)
{
    .shared .align 16 .b8 inbox[128];
    .shared .align 8 .b8 full[8];
    .reg .b32 %r<20>;
    .reg .b64 %rd<4>;
    .reg .pred %p<4>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %cluster_ctarank;
    mov.u32 %r3, inbox;
    mov.u32 %r4, full;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra STARTED;
    mbarrier.init.shared.b64 [%r4], 1;
    mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r4], 128;
STARTED:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    and.b32 %r5, %r1, 1;
    shr.u32 %r6, %r1, 1;
    shl.b32 %r7, %r2, 4;
    add.u32 %r6, %r6, %r7;
    shl.b32 %r6, %r6, 2;
    add.u32 %r6, %r6, %r3;
    mapa.shared::cluster.u32 %r6, %r6, %r5;
    mapa.shared::cluster.u32 %r8, %r4, %r5;
    mul.lo.u32 %r9, %r2, 100;
    add.u32 %r9, %r9, %r1;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r6], %r9, [%r8];
    mov.u32 %r10, 0;
AGAIN:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r4], %r10;
    @!%p2 bra AGAIN;
    shl.b32 %r11, %r1, 2;
    add.u32 %r12, %r3, %r11;
    ld.shared.u32 %r13, [%r12];
    shl.b32 %r14, %r2, 7;
    add.u32 %r14, %r14, %r11;
    cvt.u64.u32 %rd3, %r14;
    add.u64 %rd3, %rd1, %rd3;
    st.global.u32 [%rd3], %r13;
    ret;
}
";

#[test]
fn lanes_of_one_store_reach_different_blocks() {
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("k.ptx", SEND).expect("it loads")).expect("it fits");
    let data = gpu.alloc(256).expect("there is memory");
    let args = [data.to_le_bytes().to_vec()];
    let launch =
        Launch { grid: [2, 1, 1], block: [32, 1, 1], cluster: [2, 1, 1], dynamic_shared_bytes: 0, args: &args };
    gpu.launch(&module, "k", &launch, &Options::default()).expect("it is right");
    let bytes = gpu.read(data, 256).expect("it is that large");
    let got: Vec<u32> = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let sent = |to: u32| (0..2).flat_map(move |from| (0..16).map(move |nth| from * 100 + 2 * nth + to));
    assert_eq!(got, (0..2).flat_map(sent).collect::<Vec<u32>>());
}
