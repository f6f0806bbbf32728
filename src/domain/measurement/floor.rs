//! The floor of a case: no correct kernel on the device is faster.
//!
//! Each limit below is the time for which one part of the device would be busy with work that every kernel needs. Parts
//! work side by side, so the floor is the largest of these times, not their sum. Work of a particular algorithm, such
//! as the exponentials of a softmax, is not part of the floor.

use crate::domain::compute::Compute;
use crate::domain::device::DeviceInfo;
use crate::domain::device::regime::Regime;
use crate::domain::op::{Dims, Dtype, Op, OpSource, TensorRole, TensorSpec};
use crate::domain::workload::{Case, Workload};

/// What bounds a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limiter {
    /// The arithmetic pipes.
    Arithmetic,
    /// Device memory.
    Memory,
    /// The path from L2 to the multiprocessors.
    L2,
    /// Starting a kernel.
    Launch,
}

impl Limiter {
    /// Returns the word that reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Memory => "memory",
            Self::L2 => "L2",
            Self::Launch => "launch",
        }
    }
}

/// The floor of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Floor {
    /// The floor in nanoseconds.
    pub ns: f64,
    /// The limit that sets the floor.
    pub limiter: Limiter,
}

/// How far below its floor a time may lie, as a share. Peaks are measured, too, and a kernel may read a little
/// faster than the micro-benchmark did.
pub const TOLERANCE: f64 = 0.03;

impl Floor {
    /// Returns the floor of a case on a device, in the case's own cache regime.
    pub fn of(workload: &Workload, case: &Case, device: &DeviceInfo) -> Self {
        Self::of_problem((workload.op, workload.dtype, workload.compute), &case.dims, case.regime, device)
    }

    /// Returns the floor of an op on a device, in a cache regime.
    pub fn of_problem(problem: (&dyn Op, Dtype, Compute), dims: &Dims, regime: Regime, device: &DeviceInfo) -> Self {
        let limits = limits(problem, dims, regime, device);
        let (limiter, ns) = limits.into_iter().fold(limits[0], |a, b| if b.1 > a.1 { b } else { a });
        Self { ns, limiter }
    }

    /// Tells whether a time is so far below the floor that the measurement must be wrong.
    pub fn refutes(self, ns: f64) -> bool {
        refutes(self.ns, ns)
    }

    /// Describes a time below the floor and its possible reasons.
    pub fn refutation(self, ns: f64) -> String {
        format!(
            "{:.3} us is below the floor of {:.3} us ({}): no correct kernel is that fast, or the peaks are wrong \
             (`optloop doctor --measure` measures them again)",
            ns / 1e3,
            self.ns / 1e3,
            self.limiter.name()
        )
    }
}

/// Returns the time in nanoseconds for which each part of a device is busy at least. The floor is the largest.
pub fn limits(
    (op, dtype, compute): (&dyn Op, Dtype, Compute),
    dims: &Dims,
    regime: Regime,
    device: &DeviceInfo,
) -> [(Limiter, f64); 4] {
    let peaks = &device.peaks;
    let tensors = op.tensors(dims, dtype);
    // The fastest arithmetic that any of its tensors allows.
    let of_tensors = tensors.iter().map(|tensor| peaks.flops(tensor.dtype, compute));
    let flops = of_tensors.fold(peaks.flops(dtype, compute), f64::max);
    let bytes_of = |roles: &[TensorRole]| -> f64 {
        let meant = tensors.iter().filter(|tensor| roles.contains(&tensor.role));
        meant.map(|tensor| needed_bytes(op, op.needed_elements(dims, tensor), tensor, &tensors)).sum()
    };
    let l2_bytes = device.l2_bytes as f64;
    let in_place_bytes = bytes_of(&[TensorRole::InPlace]);
    let input_bytes = bytes_of(&[TensorRole::Input, TensorRole::InPlace]);
    let memory_bytes = match regime.on(device) {
        // The previous launch left at most as many bytes in L2 as fit. Whatever a kernel keeps there, of inputs or
        // outputs, it moves the rest over the memory bus once a launch. A byte that is updated in place saves two
        // transfers.
        Regime::Warm => {
            let moved_bytes = input_bytes + bytes_of(&[TensorRole::Output, TensorRole::InPlace]);
            (moved_bytes - l2_bytes - in_place_bytes.min(l2_bytes)).max(0.0)
        }
        // No input is in L2. Outputs may stay there beyond the end of the launch. The peak was measured on a
        // sweep as large as the rotated buffers, so it includes any share that L2 keeps anyway. What is updated in
        // place was restored just before the replay, so a part of it may be in L2.
        Regime::Cold => bytes_of(&[TensorRole::Input]) + (in_place_bytes - l2_bytes).max(0.0),
    };
    [
        (Limiter::Arithmetic, op.flop(dims) / flops * 1e9),
        (Limiter::Memory, memory_bytes / peaks.memory_bytes_per_s * 1e9),
        // Nothing survives in a multiprocessor between launches, so every input comes from or through L2. Outputs
        // take a separate path in the other direction.
        (Limiter::L2, input_bytes / peaks.l2_bytes_per_s * 1e9),
        (Limiter::Launch, peaks.launch_ns),
    ]
}

/// Returns the bytes of a tensor that every kernel reads or writes. `elements`: those on which results depend.
///
/// Where whole numbers may be indices, as of a gather, they may choose what is read of the other inputs: at most as much as the
/// outputs have. An op of optloop knows what its indices choose.
fn needed_bytes(op: &dyn Op, elements: usize, tensor: &TensorSpec, all: &[TensorSpec]) -> f64 {
    let is_index = |other: &TensorSpec| other.role.is_read() && other.dtype.is_integer() && other.dtype != Dtype::Bool;
    let may_be_chosen = tensor.role == TensorRole::Input && !tensor.dtype.is_integer() && all.iter().any(is_index);
    if !may_be_chosen || matches!(op.source(), OpSource::BuiltIn(_)) {
        return (elements * tensor.dtype.bytes()) as f64;
    }
    let written = all.iter().filter(|other| other.role.is_written());
    let written_elements: usize = written.map(TensorSpec::elements).sum();
    (elements.min(written_elements) * tensor.dtype.bytes()) as f64
}

/// Returns the time in nanoseconds that a case's transfers take at least, from memory or from L2.
pub fn transfers_ns(workload: &Workload, case: &Case, device: &DeviceInfo) -> f64 {
    let limits = limits((workload.op, workload.dtype, workload.compute), &case.dims, case.regime, device);
    let transfers = limits.into_iter().filter(|(limiter, _)| matches!(limiter, Limiter::Memory | Limiter::L2));
    transfers.map(|(_, ns)| ns).fold(0.0, f64::max)
}

/// See [`Floor::refutes`].
pub fn refutes(floor_ns: f64, ns: f64) -> bool {
    ns < floor_ns * (1.0 - TOLERANCE)
}

/// Returns the floor of a case on a device in nanoseconds.
pub fn floor_ns(workload: &Workload, case: &Case, device: &DeviceInfo) -> f64 {
    Floor::of(workload, case, device).ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::device::{Peaks, TimingMode};
    use crate::ops;

    /// A device with round figures: 1 PFLOP/s, 1 TB/s from memory, 4 TB/s and 10 MB of L2, 1 us a launch.
    fn device() -> DeviceInfo {
        let peaks = Peaks {
            f16_flops: 1e15,
            f32_flops: 1e14,
            memory_bytes_per_s: 1e12,
            l2_bytes_per_s: 4e12,
            launch_ns: 1000.0,
            source: "made up".to_owned(),
        };
        DeviceInfo {
            l2_bytes: 10_000_000,
            timing: TimingMode::Measured(Default::default()),
            peaks,
            ..DeviceInfo::of_arch("sm_90a").unwrap()
        }
    }

    fn floor(dtype: &str, regime: &str, dims: &str) -> (f64, Limiter) {
        let text = format!(
            "name = \"w\"\nabout = \"A test.\"\nop = \"attention\"\ndtype = \"{dtype}\"\nregime = \"{regime}\"\n\
             initial_kernel = \"r\"\ntolerance = {{ relative_l2 = 1e-3, worst_row = 4e-3 }}\n[[case]]\nname = \"c\"\n{dims}\n"
        );
        let workload = Workload::parse(&text, ops::find).unwrap();
        let floor = Floor::of(&workload, &workload.cases[0], &device());
        let modelled = DeviceInfo { timing: TimingMode::Modelled, ..device() };
        assert!(floor_ns(&workload, &workload.cases[0], &modelled) <= floor.ns, "a model knows no cold buffers");
        // Rounds away picoseconds.
        ((floor.ns * 10.0).round() / 10.0, floor.limiter)
    }

    const DECODE: &str = "B = 1\nH = 10\nSq = 1\nSk = 2000\nD = 100\nCAUSAL = 0";

    #[test]
    fn a_tiny_case_is_bound_by_its_launch() {
        assert_eq!(floor("f16", "warm", "B = 1\nH = 1\nSq = 4\nSk = 4\nD = 4\nCAUSAL = 0"), (1000.0, Limiter::Launch));
    }

    /// 4 * 10 * 4000 * 4000 * 100 = 6.4e10 FLOP: 64 us in FP16, 640 us in FP32.
    #[test]
    fn a_long_case_is_bound_by_arithmetic_in_both_regimes() {
        let long = "B = 1\nH = 10\nSq = 4000\nSk = 4000\nD = 100\nCAUSAL = 0";
        assert_eq!(floor("f16", "warm", long), (64_000.0, Limiter::Arithmetic));
        assert_eq!(floor("f16", "cold", long), (64_000.0, Limiter::Arithmetic));
        assert_eq!(floor("f32", "warm", long), (640_000.0, Limiter::Arithmetic));
    }

    /// K and V have 10 * 2000 * 100 values of 2 bytes, 4 MB each; Q has 2,000 bytes. Together they have 8.002 MB:
    /// 2.0005 us from L2, 8.002 us from memory.
    #[test]
    fn a_decode_that_fits_l2_is_bound_by_l2_when_warm_and_by_memory_when_cold() {
        assert_eq!(floor("f16", "warm", DECODE), (2000.5, Limiter::L2));
        assert_eq!(floor("f16", "cold", DECODE), (8002.0, Limiter::Memory));
    }

    /// In FP32, inputs and output have 16.008 MB. Of these, 6.008 MB cannot be in L2, whatever a kernel keeps there.
    /// Cold, the 16.004 MB of inputs come from memory; the output need not go there.
    #[test]
    fn when_warm_only_the_excess_over_l2_comes_from_memory() {
        assert_eq!(floor("f32", "warm", DECODE), (6008.0, Limiter::Memory));
        assert_eq!(floor("f32", "cold", DECODE), (16_004.0, Limiter::Memory));
    }

    #[test]
    fn only_a_time_well_below_the_floor_is_refuted() {
        let floor = Floor { ns: 1000.0, limiter: Limiter::Launch };
        assert!(!floor.refutes(1001.0) && !floor.refutes(980.0) && floor.refutes(960.0));
    }

    #[test]
    fn products_in_tf32_have_a_peak_of_their_own() {
        let dims: Dims = [("M", 4096), ("N", 4096), ("K", 4096)].map(|(name, size)| (name.to_owned(), size)).into();
        let floor = |dtype, compute| {
            let problem = (ops::find("gemm").unwrap(), dtype, compute);
            Floor::of_problem(problem, &dims, Regime::Warm, &device())
        };
        let flop = 2.0 * 4096.0_f64.powi(3);
        assert_eq!(floor(Dtype::F32, Compute::Dtype).ns, flop / 1e14 * 1e9);
        // Half of the FP16 rate.
        let tf32 = floor(Dtype::F32, Compute::Tf32);
        assert_eq!((tf32.ns, tf32.limiter), (flop / 5e14 * 1e9, Limiter::Arithmetic));
    }

    /// A vector of 20 MB that is updated in place. At least 10 MB of it are read from memory, and as many written. In the cold
    /// regime, what restores it may leave 10 MB in L2.
    #[test]
    fn a_byte_that_is_updated_in_place_in_l2_saves_two_transfers() {
        let manifest = "name = \"scale\"\nabout = \"\"\noracle = \"o.py\"\nflop = \"0\"\n[dims.N]\nabout = \"\"\n\
            [tensors.x]\nrole = \"in-place\"\nshape = [\"N\"]\n";
        let op = ops::declared_for_tests(manifest);
        let dims: Dims = [("N".to_owned(), 5_000_000)].into();
        let floor = |regime| Floor::of_problem((op, Dtype::F32, Compute::Dtype), &dims, regime, &device());
        assert_eq!(op.bytes(&dims, Dtype::F32), 40e6);
        assert_eq!((floor(Regime::Warm).ns, floor(Regime::Warm).limiter), (20_000.0, Limiter::Memory));
        assert_eq!((floor(Regime::Cold).ns, floor(Regime::Cold).limiter), (10_000.0, Limiter::Memory));
    }

    /// A cache in pages seemed to need no more than the output has.
    #[test]
    fn pages_in_use_must_be_read() {
        let dims: Dims =
            [("B", 64), ("H", 8), ("Hkv", 1), ("Sq", 1), ("Sk", 2048), ("D", 128), ("CAUSAL", 0), ("LENGTHS", 1)]
                .into_iter()
                .chain([("SHORTEST", 1024), ("PAGE", 64), ("PAGES", 9999)])
                .map(|(name, size)| (name.to_owned(), size))
                .collect();
        let op = ops::find("attention").unwrap();
        let floor = Floor::of_problem((op, Dtype::Bf16, Compute::Dtype), &dims, Regime::Cold, &device());
        // Keys and values of 1,536 keys in the mean, queries, lengths and the table.
        let keys: i64 = (0..64).map(|i| 1024 + 1024 * i / 63).sum();
        let bytes = 2.0 * 256.0 * keys as f64 + 64.0 * (8.0 * 256.0 + 4.0 + 128.0);
        assert_eq!(floor.limiter, Limiter::Memory);
        assert!((floor.ns - bytes / device().peaks.memory_bytes_per_s * 1e9).abs() < 1.0, "{floor:?}");
    }

    /// 64 rows of 128 elements from a table of 50,000: 32 KB are read, not 25.6 MB.
    #[test]
    fn what_indices_do_not_choose_need_not_be_read() {
        let manifest = "name = \"gather\"\nabout = \"\"\noracle = \"o.py\"\nflop = \"0\"\n[dims.V]\nabout = \"\"\n\
            [dims.N]\nabout = \"\"\n[tensors.x]\nrole = \"input\"\nshape = [\"V\", \"128\"]\n[tensors.i]\nrole = \"input\"\n\
            dtype = \"i32\"\nvalues = { integers = [0, \"V - 1\"] }\nshape = [\"N\"]\n[tensors.y]\nrole = \"output\"\n\
            shape = [\"N\", \"128\"]\n";
        let op = ops::declared_for_tests(manifest);
        let floor = |rows: i64| {
            let dims: Dims = [("V".to_owned(), 50_000), ("N".to_owned(), rows)].into();
            Floor::of_problem((op, Dtype::F32, Compute::Dtype), &dims, Regime::Warm, &device())
        };
        assert_eq!((floor(64).ns, floor(64).limiter), (1000.0, Limiter::Launch));
        // 16,384 rows take 8 MiB in and as much out, of which L2 keeps 10 MB.
        assert_eq!(floor(16_384).limiter, Limiter::Memory);
    }
}
