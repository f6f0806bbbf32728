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
    let launch = Launch { grid: [1; 3], block: [32, 1, 1], cluster: [1; 3], dynamic_shared_bytes: 0, args: &args };
    gpu.launch(&module, kernel, &launch, &Options::default())?;
    let bytes = gpu.read(output, 128).unwrap();
    Ok(bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
}

fn refusal(text: &str, kernel: &str) -> String {
    match run(text, kernel, None) {
        Err(error @ LaunchError::Refused(_)) => error.to_string(),
        other => panic!("it was to be refused, got {other:?}"),
    }
}

#[test]
fn printf_returns_the_number_of_its_arguments() {
    assert_eq!(run(CALLS, "tell", None).unwrap(), [4; 32]);
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

/// The other kernels of the same text were launched above.
#[test]
fn a_kernel_that_is_not_modelled_is_refused_when_it_is_launched() {
    insta::assert_snapshot!(refusal(CALLS, "keep"), @"launch refused: the kernel keep has the instruction `call.uni malloc` (k.ptx:191), which is not modelled");
    insta::assert_snapshot!(refusal(CALLS, "call"), @"launch refused: the kernel call has the instruction `call.uni _Z5twicei` (k.ptx:247), which is not modelled");
    let module = ptx::load("k.ptx", CALLS).unwrap();
    let refused: Vec<&str> =
        module.kernels.iter().filter(|it| it.not_modelled.is_some()).map(|it| it.name.as_str()).collect();
    assert_eq!(refused, ["keep", "call"]);
    // A caller needs its parameters to pack the arguments.
    assert_eq!(module.kernel("keep").map(|kernel| (kernel.params.len(), kernel.param_bytes)), Some((1, 8)));
}

/// A text is wrong as a whole if its syntax is, or if none of its kernels can be launched.
#[test]
fn a_text_without_a_kernel_that_can_be_launched_is_not_loaded() {
    let kernel = |name: &str, body: &str| {
        format!(".visible .entry {name}(.param .u64 out)\n{{\n.reg .b32 %r<4>;\n.reg .f32 %f<4>;\n{body}\nret;\n}}\n")
    };
    let text = |kernels: &[String]| format!(".version 9.0\n.target sm_90a\n.address_size 64\n{}", kernels.concat());
    let known = kernel("a", "mov.u32 %r1, 0;");
    let unknown = kernel("b", "tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%r1, {%r2}];");
    let wrong = kernel("c", "mov.u32 %r9, 0;");
    let load = |kernels: &[String]| ptx::load("k.ptx", &text(kernels)).map(drop).map_err(|error| error.to_string());
    assert_eq!(load(&[known.clone(), unknown.clone()]), Ok(()));
    assert_eq!(load(&[unknown.clone(), known.clone()]), Ok(()));
    assert_eq!(
        load(std::slice::from_ref(&unknown)),
        Err("k.ptx:8: unsupported instruction `tex.1d.v4.f32.s32`".to_owned())
    );
    assert_eq!(load(&[unknown, wrong]), Err("k.ptx:15: `%r9` is not declared".to_owned()));
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
        let error = ptx::load("k.ptx", &text(&format!("mov.u32 %r2, %{unknown};\n"))).unwrap_err().to_string();
        assert!(error.contains(&format!("unsupported instruction `mov.u32 %{unknown}`")), "{error}");
    }
}
