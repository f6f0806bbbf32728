//! Runs a kernel, reads its result, its counters and its modelled time: `cargo run --example saxpy -p virtual-gpu`

use virtual_gpu::gpu::Gpu;
use virtual_gpu::model::{Shape, model};
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

/// y = a x + y for n elements, one per thread.
const SAXPY: &str = "
.version 8.0
.target sm_80
.address_size 64

.visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<8>;

    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n];
    setp.ge.u32 %p1, %r4, %r5;
    @%p1 bra DONE;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.param.f32 %f1, [a];
    ld.global.f32 %f2, [%rd4];
    ld.global.f32 %f3, [%rd5];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd5], %f4;
DONE:
    ret;
}
";

const N: u32 = 100_000;
const THREADS: u32 = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("saxpy.ptx", SAXPY)?)?;

    let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let x: Vec<f32> = (0..N).map(|i| i as f32).collect();
    let x_address = gpu.alloc(u64::from(N) * 4)?;
    let y_address = gpu.alloc(u64::from(N) * 4)?;
    gpu.write(x_address, &bytes(&x))?;
    gpu.write(y_address, &bytes(&vec![1.0; N as usize]))?;

    let args = [
        x_address.to_le_bytes().to_vec(),
        y_address.to_le_bytes().to_vec(),
        2.0_f32.to_le_bytes().to_vec(),
        N.to_le_bytes().to_vec(),
    ];
    let grid = [N.div_ceil(THREADS), 1, 1];
    let launch = Launch { grid, block: [THREADS, 1, 1], cluster: [1, 1, 1], dynamic_shared_bytes: 0, args: &args };
    let counters = gpu.launch(&module, "saxpy", &launch, &Options::default())?;

    let y = gpu.read(y_address + 4 * 1000, 4)?;
    println!("y[1000] = {}", f32::from_le_bytes([y[0], y[1], y[2], y[3]]));
    println!("warp instructions: {}", counters.instructions());
    let loads = counters.global_load;
    println!("sectors loaded: {}, of {} at best", loads.units, loads.ideal_units);
    println!("single-precision operations: {}", counters.flop.single);

    let shape = Shape {
        blocks: grid[0].into(),
        threads: THREADS,
        // The register count that ptxas would report. It only determines how many blocks fit on a multiprocessor.
        registers: 16,
        shared_bytes: 0,
        cluster_blocks: 1,
        spill_bytes: 0,
    };
    let time = model(gpu.gpu(), &shape, &counters);
    println!("modelled: {:.2} us, bounded by {:?}", time.time_ns / 1000.0, time.limiter);
    Ok(())
}
