//! Finds a missing barrier that no result would reveal: `cargo run --example find_a_race -p virtual-gpu`

use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

/// Every thread writes a word to shared memory and reads that of the thread 32 further on: of another warp. The barrier
/// between the two is missing.
const REVERSE: &str = "
.version 8.0
.target sm_80
.address_size 64

.visible .entry rotate(.param .u64 out)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 words[256];

    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, words;
    add.s32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    xor.b32 %r5, %r2, 128;
    add.s32 %r6, %r3, %r5;
    ld.shared.u32 %r7, [%r6];
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r7;
    ret;
}
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("rotate.ptx", REVERSE)?)?;
    let out = gpu.alloc(256)?;
    let args = [out.to_le_bytes().to_vec()];
    let launch =
        Launch { grid: [1, 1, 1], block: [64, 1, 1], cluster: [1, 1, 1], dynamic_shared_bytes: 0, args: &args };

    // Without the barrier, the first warp reads memory that is not even written yet. That fault is found first.
    let checked = Options { uninitialised: false, ..Options::default() };
    match gpu.launch(&module, "rotate", &launch, &checked) {
        Ok(_) => println!("nothing was found"),
        Err(error) => println!("{error}"),
    }
    Ok(())
}
