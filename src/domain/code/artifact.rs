//! Compiled variants.

use serde::{Deserialize, Serialize};

/// A variant compiled for one architecture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// Hash of source, options, architecture and NVRTC version: its name in the cache.
    pub key: String,
    /// The architecture, such as `sm_90a`.
    pub arch: String,
    /// The options given to NVRTC in addition to the architecture and the include paths.
    pub options: Vec<String>,
    /// The NVRTC version that compiled it, such as `13.0`.
    pub nvrtc: String,
    /// The ELF image that the driver loads.
    #[serde(with = "serde_bytes")]
    pub cubin: Vec<u8>,
    /// The same code as PTX text, which the virtual GPU executes.
    pub ptx: String,
    /// Resources of each kernel in the source, in the order of the compiler's report.
    pub kernels: Vec<KernelResources>,
    /// The compiler's log, with its warnings and resource report.
    pub log: String,
    /// Duration of the compilation in milliseconds; 0 if the artifact came from the cache.
    pub compile_ms: f64,
}

/// The bits of a fraction that are zero in a constant of few bits: 11 are left.
const LONG_BITS: u32 = 12;

/// What numbers may be compared with.
const COMPARED: std::ops::RangeInclusive<f32> = 1e-3..=4096.0;

/// Resources of one kernel, as `ptxas` reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelResources {
    /// The kernel's `extern "C"` name.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Static shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// Local memory per thread in bytes (arrays that did not fit registers, and spills).
    pub stack_bytes: u32,
    /// Bytes written to local memory by register spills.
    pub spill_store_bytes: u32,
    /// Bytes read from local memory by register spills.
    pub spill_load_bytes: u32,
    /// The instructions in its PTX; none in records from before they were counted.
    #[serde(default)]
    pub instructions: Option<InstructionMix>,
}

/// The instructions in a kernel's PTX. Each place in the text counts once, however often it is executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionMix {
    /// Products on tensor cores: `mma`, `wmma` and `wgmma`.
    pub tensor: u32,
    /// Floating-point additions, products and fused multiply-adds.
    pub arithmetic: u32,
    /// Exponentials, logarithms, reciprocals, roots and trigonometric functions.
    pub special: u32,
    /// Loads from global memory.
    pub global_loads: u32,
    /// Those of 16 bytes a thread.
    pub wide_global_loads: u32,
    /// Asynchronous copies: `cp.async` and bulk copies.
    pub copies: u32,
    /// Loads from and stores to shared memory, with `ldmatrix` and `stmatrix`.
    pub shared: u32,
    /// Loads from and stores to local memory.
    pub local: u32,
    /// Block barriers.
    pub barriers: u32,
    /// Atomics and reductions.
    pub atomics: u32,
}

impl KernelResources {
    /// Tells whether nothing is known, because the kernel came as PTX. Every other one has registers.
    pub fn is_unknown(&self) -> bool {
        self.registers == 0
    }
}

impl Artifact {
    /// Returns the warnings in the compiler's log.
    pub fn warnings(&self) -> Vec<&str> {
        self.log.lines().filter(|line| line.contains("warning")).collect()
    }

    /// Returns the PTX without the lines of the source, which are at the same places for the same code only by chance.
    pub fn code(&self) -> String {
        // The names of the files and of inlined functions follow the code.
        let named = |line: &&str| line.trim_start().starts_with(".file") || line.trim_start().starts_with(".section");
        let code = self.ptx.lines().take_while(|line| !named(line));
        code.filter(|line| !line.trim_start().starts_with(".loc")).collect::<Vec<_>>().join("\n")
    }

    /// Tells whether a kernel adds floating-point numbers with atomics. Such a sum depends on the order of its terms.
    pub fn adds_floats_with_atomics(&self) -> bool {
        let is_float = |part: &str| ["f16", "bf16", "f32", "f64", "f16x2", "bf16x2"].contains(&part);
        self.ptx.split_whitespace().any(|word| {
            let mut parts = word.split('.');
            matches!(parts.next(), Some("atom" | "red"))
                && parts.clone().any(|part| part == "add")
                && parts.any(is_float)
        })
    }

    /// Tells whether a kernel converts floating-point numbers to integers, which hold fewer.
    pub fn converts_to_integers(&self) -> bool {
        let is = |part: &str, kinds: &[char]| part.starts_with(kinds) && part[1..].parse::<u32>().is_ok();
        self.ptx.split_whitespace().filter(|word| word.starts_with("cvt.")).any(|word| {
            let mut types = word.rsplit('.');
            let (from, to) = (types.next().unwrap_or_default(), types.next().unwrap_or_default());
            is(from, &['f']) && is(to, &['s', 'u'])
        })
    }

    /// Returns the numbers of FP32 in the code, without a sign, that few bits hold: an oracle has the same. One such as 0.1 differs in
    /// FP64, and so does what is beside it.
    pub fn short_constants(&self) -> Vec<f32> {
        let digits = |word: &str| word.strip_prefix("0f").and_then(|word| u32::from_str_radix(word.get(..8)?, 16).ok());
        let words = self.ptx.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(digits);
        let is_short = |bits: &u32| bits & ((1 << LONG_BITS) - 1) == 0;
        let numbers = words.filter(is_short).map(|bits| f32::from_bits(bits).abs());
        let mut found: Vec<f32> = numbers.filter(|number| COMPARED.contains(number)).collect();
        found.sort_by(f32::total_cmp);
        found.dedup();
        found
    }

    /// Returns the resources of the kernel called `name`.
    pub fn kernel(&self, name: &str) -> Option<&KernelResources> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(ptx: String) -> Artifact {
        let (cubin, kernels, log) = (Vec::new(), Vec::new(), String::new());
        let [key, arch, nvrtc] = [String::new(), String::new(), String::new()];
        Artifact { key, arch, options: Vec::new(), nvrtc, cubin, ptx, kernels, log, compile_ms: 0.0 }
    }

    #[test]
    fn constants_of_few_bits_are_found_in_the_code() {
        let ptx = "setp.gt.f32 %p1, %f1, 0f40C00000;\nmul.f32 %f2, %f1, 0f3DCCCCCD;\nadd.f32 %f3, %f2, 0fC0C00000;\n";
        assert_eq!(artifact(ptx.to_owned()).short_constants(), [6.0], "0.1 has many bits");
    }

    #[test]
    fn conversions_to_integers_are_told_from_others() {
        let converts = |ptx: &str| artifact(format!("\t{ptx} %r1, %f1;\n")).converts_to_integers();
        assert!(["cvt.rzi.s32.f32", "cvt.rmi.ftz.u64.f32", "cvt.rni.s32.f64"].map(converts) == [true; 3]);
        assert!(["cvt.rmi.f32.f32", "cvt.rn.f32.s32", "cvt.u64.u32", "cvt.f32.f16"].map(converts) == [false; 4]);
    }

    #[test]
    fn only_floating_point_sums_depend_on_the_order_of_atomics() {
        let adds = |ptx: &str| artifact(format!("\t@%p1 {ptx} [%rd1], %r1;\n")).adds_floats_with_atomics();
        assert!(
            ["red.global.add.f32", "atom.shared.add.noftz.f16x2", "red.relaxed.gpu.global.add.f64"].map(adds)
                == [true; 3]
        );
        assert!(["red.global.add.u32", "atom.global.max.f32", "add.f32"].map(adds) == [false; 3]);
    }
}
