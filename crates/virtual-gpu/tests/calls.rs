//! Calls of functions that the system provides, on PTX that NVRTC compiled, and kernels that are not modelled beside
//! others.

use virtual_gpu::fault::{FaultKind, LaunchError};
use virtual_gpu::gpu::Gpu;
use virtual_gpu::{Launch, Options, VirtualGpu, ptx};

/// The kernels of `ptx/calls.cu`.
const CALLS: &str = include_str!("ptx/calls.ptx");

/// Launches a kernel of one warp. Its arguments are `input`, if it takes one, and an output of 32 words, which is returned.
fn run(text: &str, kernel: &str, input: Option<[u32; 32]>) -> Result<Vec<u32>, LaunchError> {
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("k.ptx", text).unwrap_or_else(|error| panic!("{error}"))).unwrap();
    let mut args = Vec::new();
    if let Some(words) = input {
        let address = gpu.alloc(128).unwrap();
        gpu.write(address, &words.map(u32::to_le_bytes).concat()).unwrap();
        args.push(address.to_le_bytes().to_vec());
    }
    let output = gpu.alloc(128).unwrap();
    args.push(output.to_le_bytes().to_vec());
    let grid = if kernel == "rounds" { [16, 1, 1] } else { [1; 3] };
    let launch = Launch { grid, block: [32, 1, 1], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
    let options = Options { cooperative: kernel == "rounds", ..Options::default() };
    gpu.launch(&module, kernel, &launch, &options)?;
    let bytes = gpu.read(output, 128).unwrap();
    Ok(bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
}

fn refusal(text: &str, kernel: &str) -> String {
    match run(text, kernel, None) {
        Err(error @ LaunchError::NotModelled(_)) => error.to_string(),
        other => panic!("it was to be refused, got {other:?}"),
    }
}

#[test]
fn printf_prints_and_returns_the_number_of_its_arguments() {
    assert_eq!(run(CALLS, "tell", None).unwrap(), [4; 32]);
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("k.ptx", CALLS).unwrap()).unwrap();
    let output = gpu.alloc(128).unwrap();
    let args = [output.to_le_bytes().to_vec()];
    let launch = Launch { grid: [1; 3], block: [2, 1, 1], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
    let counters = gpu.launch(&module, "tell", &launch, &Options::default()).unwrap();
    let printed = "no arguments, 100%\nno arguments, 100%\nthread 0 of 2:  0.00, text\nthread 1 of 2:  0.50, text\n";
    assert_eq!(counters.printed[&0], printed);
}

#[test]
fn functions_that_are_not_inlined_are_executed() {
    let lanes = |value: fn(i32) -> i32| (0..32).map(|lane| value(lane) as u32).collect::<Vec<_>>();
    assert_eq!(run(CALLS, "call", None).unwrap(), lanes(|x| 2 * x));
    let mixed = |x: i32| match x % 6 {
        2 | 4 => 2 * x + 8 * x + 1000 * (-x - 5) - 100_000 * x,
        _ => 2 * x - 1000 * x + 100_000 * x,
    };
    assert_eq!(run(CALLS, "some", None).unwrap(), lanes(mixed));
    let far: [f32; 32] = std::array::from_fn(|lane| lane as f32 * 1.375);
    let scaled = |x: f64| (1e6 * x).round_ties_even() as i32;
    let expected = far.map(|x| (scaled((1e9 * f64::from(x)).sin()) + scaled((1e9 * f64::from(x)).cos())) as u32);
    assert_eq!(run(CALLS, "far", Some(far.map(f32::to_bits))).unwrap(), expected);
}

#[test]
fn the_heap_gives_memory_that_is_gone_after_free() {
    assert_eq!(run(CALLS, "keep", None).unwrap(), std::array::from_fn::<u32, 32, _>(|lane| lane as u32 + 1));
    let Err(LaunchError::Fault(fault)) = run(CALLS, "after", None) else { panic!("it reads what it has freed") };
    assert!(matches!(fault.kind, FaultKind::Uninitialised { space: "global", bytes: 4, .. }), "{fault}");
}

#[test]
fn the_blocks_of_a_cooperative_launch_wait_for_each_other() {
    let expected: Vec<u32> = (0..16).chain((0..16).map(|block| (block + 1) % 16)).collect();
    assert_eq!(run(CALLS, "rounds", None).unwrap(), expected);
    let mut gpu = VirtualGpu::new(Gpu::h200());
    let module = gpu.load(ptx::load("k.ptx", CALLS).unwrap()).unwrap();
    let args = [vec![0; 8]];
    let launch =
        Launch { grid: [9000, 1, 1], block: [32, 1, 1], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
    let options = Options { cooperative: true, ..Options::default() };
    let refused = gpu.launch(&module, "rounds", &launch, &options).unwrap_err().to_string();
    insta::assert_snapshot!(refused, @"launch refused: a cooperative launch of 9000 blocks; the H200 has room for 4224 of them at a time");
}

#[test]
fn a_failed_assertion_is_told_with_its_text_and_line() {
    let small = std::array::from_fn(|thread| thread as u32 % 5);
    assert_eq!(run(CALLS, "claim", Some(small)).unwrap(), small);
    let Err(LaunchError::Fault(fault)) = run(CALLS, "claim", Some(std::array::from_fn(|thread| thread as u32))) else {
        panic!("the assertion holds")
    };
    let line = include_str!("ptx/calls.cu").lines().position(|line| line.contains("assert(value")).unwrap() as u32 + 1;
    let [message, file, function] = ["value < 5", "calls.cu", "void claim(const int *, int *)"].map(str::to_owned);
    assert_eq!(fault.kind, FaultKind::Assertion { message, file, line, function });
    assert_eq!((fault.thread, &*fault.instruction), ([5, 0, 0], "call.uni"));
    assert!(fault.to_string().starts_with("assertion `value < 5` failed (calls.cu:"), "{fault}");
}

#[test]
fn a_function_may_call_itself_but_not_too_deep() {
    let small: [u32; 32] = std::array::from_fn(|lane| lane as u32 % 7);
    fn sum_to(x: u32) -> u32 {
        if x < 2 { x } else { sum_to(x - 1) * x + sum_to(x - 2) }
    }
    assert_eq!(run(CALLS, "itself", Some(small)).unwrap(), small.map(sum_to));
    let error = run(CALLS, "itself", Some([20; 32])).unwrap_err();
    assert!(matches!(error, LaunchError::NotModelled(_)), "{error}");
    assert!(error.to_string().starts_with("not modelled: `a function that calls itself more than 8 times`"), "{error}");
}

/// The other kernels of the same text were launched above.
#[test]
fn a_kernel_that_is_not_modelled_is_refused_when_it_is_launched() {
    insta::assert_snapshot!(refusal(CALLS, "pointed"), @"not modelled: `call %rd7` in kernel pointed (k.ptx:696)");
    let module = ptx::load("k.ptx", CALLS).unwrap();
    let refused: Vec<&str> =
        module.kernels.iter().filter(|it| it.not_modelled.is_some()).map(|it| it.name.as_str()).collect();
    assert_eq!(refused, ["pointed"]);
    // A caller needs its parameters to pack the arguments.
    assert_eq!(module.kernel("pointed").map(|kernel| (kernel.params.len(), kernel.param_bytes)), Some((1, 8)));
}

/// A text is wrong as a whole only if its syntax is.
#[test]
fn a_text_without_a_kernel_that_can_be_launched_is_loaded() {
    let kernel = |name: &str, body: &str| {
        format!(".visible .entry {name}(.param .u64 out)\n{{\n.reg .b32 %r<4>;\n.reg .f32 %f<4>;\n{body}\nret;\n}}\n")
    };
    let text = |kernels: &[String]| format!(".version 9.0\n.target sm_90a\n.address_size 64\n{}", kernels.concat());
    let unknown = kernel("b", "tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%r1, {%r2}];");
    insta::assert_snapshot!(refusal(&text(std::slice::from_ref(&unknown)), "b"), @"not modelled: `tex.1d.v4.f32.s32` in kernel b (k.ptx:8)");
    let wrong = kernel("c", "mov.u32 %r9, 0;");
    let error = ptx::load("k.ptx", &text(&[unknown, wrong])).unwrap_err().to_string();
    assert_eq!(error, "k.ptx:15: `%r9` is not declared");
}

/// In a launch that is not cooperative, the driver tells nothing in `%envreg`. No shared memory is reserved here.
#[test]
fn what_the_driver_tells_is_zero() {
    let reads: String = ["envreg0", "envreg1", "envreg31", "reserved_smem_offset_begin", "reserved_smem_offset_end"]
        .map(|name| format!("mov.u32 %r2, %{name}; or.b32 %r1, %r1, %r2;\n"))
        .concat();
    let text = |body: &str| {
        format!(
            ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n\
             .reg .b32 %r<4>; .reg .b64 %rd<4>;\nld.param.u64 %rd1, [out]; mov.u32 %r3, %tid.x;\n\
             mul.wide.u32 %rd2, %r3, 4; add.u64 %rd1, %rd1, %rd2; mov.u32 %r1, 0;\n{body}st.global.u32 [%rd1], %r1;\nret;\n}}\n"
        )
    };
    assert_eq!(run(&text(&reads), "k", None).unwrap(), [0; 32]);
    for unknown in ["envreg32", "envreg", "reserved_smem_offset_1"] {
        let error = refusal(&text(&format!("mov.u32 %r2, %{unknown};\n")), "k");
        assert!(error.contains(&format!("`mov.u32 %{unknown}`")), "{error}");
    }
}
